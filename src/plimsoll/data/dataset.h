#pragma once

// Features, targets and sample weights of one run, and the batches made of them.
//
// Batches are views: a permutation of rows (by epoch and seed, without a table where it can be
// computed) says which rows a batch holds, and fill() reads just the rows of the slice that is
// about to run. The same seed gives the same order at every limit, slice and thread count.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "data/row_source.h"

namespace plimsoll::data {

struct Dataset {
  std::vector<std::unique_ptr<RowSource>> features;  // one per model input
  std::vector<std::unique_ptr<RowSource>> targets;   // one per model output; empty for predict
  std::vector<std::unique_ptr<RowSource>> weights;   // sample weights per output; may be empty

  int64_t row_count() const;
  Bytes resident_bytes() const;
};

// DESIGN's spellings: `data` is an .npz (x, y, optionally sample_weight), an .npy or an IDX file;
// `labels` and `weights` are files of their own, or empty. Checks that row counts agree (kData).
Dataset open_dataset(const std::string& data, const std::string& labels, const std::string& weights,
                     const std::string& spill_directory);

// What a program wants of one of its inputs; in the order of the program's inputs.
struct InputBinding {
  enum class Role : uint8_t { kFeatures, kTarget, kSampleWeight };
  Role role = Role::kFeatures;
  int index = 0;     // which of the features, targets or weights
  std::string name;  // for messages
  DType dtype = DType::kFloat32;
  int64_t row_elements = 1;  // elements of one sample that the program expects
  int64_t class_count = 0;   // labels must be in [0, class_count); 0: no bound
  friend bool operator==(const InputBinding&, const InputBinding&) = default;
};

struct BatchOptions {
  int64_t batch = 32;
  bool shuffle = false;
  uint64_t seed = 0;
};

class BatchSource : public InputSource {
 public:
  // Keeps a reference to `dataset`. Checks shapes against the bindings: kData with file, expected,
  // received. A trailing dimension of 1 in labels means the same as none.
  BatchSource(Dataset& dataset, std::vector<InputBinding> inputs, const BatchOptions& options);

  int64_t row_count() const;
  int64_t batch_count() const;  // the short last batch included
  int64_t rows_in(int64_t batch_index) const;
  // Makes a batch current; `epoch` from 0.
  void select(int64_t epoch, int64_t batch_index);
  // Of the permutation and conversion buffers, the dataset's own included.
  Bytes resident_bytes() const;

  void fill(int input, int64_t row_begin, int64_t row_count, void* destination) override;

 private:
  Dataset& dataset_;
  std::vector<InputBinding> inputs_;
  BatchOptions options_;
  int64_t epoch_ = 0;
  int64_t first_row_ = 0;
};

}  // namespace plimsoll::data
