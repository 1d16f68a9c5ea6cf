#pragma once

// Keras's losses as nodes: a value per sample, weighted, reduced to a scalar.
//
// A cross-entropy on a value that is sigmoid or softmax of logits is computed from those logits, as
// Keras does (whichever of the two it is). Divisors are counts of the whole batch and divide the
// finished sum, so the gradient of each slice is scaled from the start.

#include <optional>
#include <string>
#include <vector>

#include "layers/config/config.h"
#include "layers/model/expansion.h"

namespace plimsoll::layers {

struct Option;
class OptionReader;

enum class LossKind : uint8_t {
  kBinaryCrossentropy,
  kCategoricalCrossentropy,
  kSparseCategoricalCrossentropy,
  kMeanSquaredError,
  kMeanAbsoluteError,
  kBinaryFocalCrossentropy,
  kCategoricalFocalCrossentropy,
  kGeneralizedCrossentropy,  // of class numbers
  kOverlap,                  // Dice and Tversky
  kCircle,                   // of embeddings and class numbers
  kCtc,                      // of logits and sequences of class numbers, 0 the blank
  kDense,                    // any other that is one operator on targets of the output's shape
};

// What a loss divides the weighted sum by.
enum class Reduction : uint8_t {
  kMean,            // "sum_over_batch_size", "mean": all values per sample of the batch
  kSum,             // "sum": nothing
  kMeanOfWeighted,  // "mean_with_sample_weight": as kMean where there are no weights
};

struct Loss {
  LossKind kind = LossKind::kMeanSquaredError;
  bool from_logits = false;
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
  std::string name{};              // Keras's: "binary_crossentropy"
  std::string op{};                // kDense: the operator
  std::optional<int64_t> ignored;  // a class number whose rows do not count
  // kOverlap: the axes that are summed over, those of the batch's shape; empty: all of them, and
  // the loss is one number of a whole batch.
  std::vector<int64_t> axes{};
  graph::Attributes attributes{};  // of the focal losses and of kDense
  friend bool operator==(const Loss&, const Loss&) = default;
};

// Takes a name, or Keras's object, for an output of that type. Throws kModel: unknown
// (did-you-mean), or options that are not done. `options` gets what the loss can be told.
Loss read_loss(const Config& config, const ValueType& output,
               std::vector<Option>* options = nullptr);

// Option "axis" of a loss or metric, which must be the last; Keras counts the batch as axis 0.
void read_last_axis(OptionReader& options, const ValueType& output);

// What the target of such a loss is: int32 class numbers (B, …), or float32 of the output's shape.
// Sequences of labels (reads_label_sequences) have the length that the data's samples have,
// `given`; empty: that of the output.
ValueType target_type(const Loss& loss, const ValueType& output,
                      const std::vector<int64_t>& given = {});
bool reads_label_sequences(const Loss& loss);
// Whether a loss that a file or a command line holds reads them; no, where it is none.
bool names_label_sequences(const Config& config);
// A type whose dimensions but the last are those of the loss's rows.
ValueType rows_type(const Loss& loss, const ValueType& output);
bool is_sparse(const Loss& loss);
// Whether it is one number of a whole batch, no mean over its rows.
bool is_of_whole_batch(const Loss& loss);
// Class numbers are [0, so many); 0: any.
int64_t class_count(const Loss& loss, const ValueType& output);
// Whether a loss that a file or a command line holds reads class numbers; no, where it is none.
bool names_sparse_loss(const Config& config);
// Whether such a loss is a cross-entropy of numbers from 0 to 1; no, where it is none.
bool names_binary_loss(const Config& config);
// The class number whose rows it leaves out; none, where it has none or is no loss.
std::optional<int64_t> ignored_class_of(const Config& config);

// What the values of a loss are weighted by; each may be invalid.
struct LossWeights {
  ValueId samples{};  // as weight_type says
  ValueId mask{};     // bool, of the loss's rows
};

// What the weights of a sample are, that come as an array of shape `given`: one number (B), or one
// for each of the loss's rows, in shapes that repeat along dimensions of 1. Throws kData.
ValueType weight_type(const std::string& name, const ValueType& output,
                      const std::vector<int64_t>& given);

// The scalar loss of one output, in stage kLoss. `name` is the output's. Throws kModel.
//
// A mask counts as Keras's losses.loss.apply_mask says: a mean is over the rows that count.
ValueId add_loss(Expansion& expansion, const Loss& loss, const std::string& name,
                 ValueId prediction, ValueId target, const LossWeights& weights);

// The loss's values per row alone, in the stage that is current. Rows of an ignored class are 0.
ValueId add_loss_rows(Expansion& expansion, const Loss& loss, const std::string& name,
                      ValueId prediction, ValueId target);

std::vector<std::string> loss_class_names();
// Names that read_loss knows, for did-you-mean.
std::vector<std::string> loss_names();
// "bce" → "BinaryCrossentropy"; the name itself where it is none of ours.
std::string loss_class(const std::string& name);
// "bce" → "binary_crossentropy", as far.
std::string loss_name(const std::string& name);

}  // namespace plimsoll::layers
