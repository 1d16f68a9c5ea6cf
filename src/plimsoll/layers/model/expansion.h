#pragma once

// Turns calls of layers into nodes of one graph.
//
// It declares each weight as a state variable when a layer first asks for it ("conv2d/kernel"),
// chains the moving statistics of a layer that is called several times, and remembers which values
// are sigmoid or softmax of which logits. Nodes are stamped with their layer's name.
//
// Layers compute channels last. Where a model says channels_first, a value is transposed after the
// layer that made it and would be transposed back in front of the next; the expansion knows both
// forms of such a value, hands the channels-last one to whoever wants it, and calls elementwise
// layers on it. Transpositions that nobody reads are pruned. So it is with sequences that layers
// compute as images.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "layers/model/model.h"
#include "layers/model/precision.h"

namespace plimsoll::layers {

class Expansion {
 public:
  // Training: Dropout draws, BatchNormalization takes the batch's statistics.
  // `batch_norm_group`: as batch_norm_groups.h has it.
  Expansion(graph::GraphBuilder& builder, bool training, Precision precision = Precision::kFloat32,
            int64_t batch_norm_group = 0)
      : builder_(builder),
        training_(training),
        precision_(precision),
        batch_norm_group_(batch_norm_group) {}

  graph::GraphBuilder& builder() { return builder_; }
  bool training() const { return training_; }
  int64_t batch_norm_group() const { return batch_norm_group_; }
  // Samples of each batch, for which stateful layers keep rows; 0: no layer may.
  int64_t carried_rows() const { return carried_rows_; }
  void set_carried_rows(int64_t rows) { carried_rows_ = rows; }

  // Adds one call of `layer`, whose weights are `weights`. `masks` is empty or one per input.
  CallResult call(const Layer& layer, const std::vector<Weight>& weights,
                  std::span<const ValueId> inputs, std::span<const ValueId> masks = {},
                  const Config& arguments = Config());

  // For LayerContext.
  // One call inside of the one that is running; `place` says whose weights and nodes it makes.
  CallResult run(const Layer& layer, const LayerContext& place, std::span<const ValueId> inputs,
                 std::span<const ValueId> masks, const Config& arguments);
  void take_mask_off(ValueId value) { without_mask_.insert(value); }
  void put_mask_on(ValueId value) { without_mask_.erase(value); }
  bool lost_mask(ValueId value) const { return without_mask_.contains(value); }
  // The operands of an operator that `layer` adds, cast to what it computes in (precision.h).
  std::vector<ValueId> operands(const Layer& layer, std::string_view op,
                                std::vector<ValueId> inputs);
  // The value in float32, where it is bfloat16.
  ValueId as_float32(ValueId value);
  ValueId weight(const Layer& layer, std::string_view name);
  // False where it has been replaced.
  bool replace_weight(const Layer& layer, std::string_view name, ValueId value);
  ValueId statistic(const Layer& layer, std::string_view name);
  void set_statistic(const Layer& layer, std::string_view name, ValueId next);
  ValueId carried(const Layer& layer, std::string_view name, int64_t columns);
  void set_carried(const Layer& layer, std::string_view name, ValueId next);
  void remember_logits(ValueId output, ValueId logits, Probabilities made_by);
  int64_t call_site(const Layer& layer);
  int call_sites(const Layer& layer) const;
  void set_call_sites(const Layer& layer, int count);
  ValueId channels_last(const Layer& layer, ValueId x);
  ValueId channels_first(const Layer& layer, ValueId x);
  // Two forms of one value: a sequence (B, steps, channels) and an image.
  void remember_image(ValueId sequence, ValueId image) { images_[sequence] = image; }
  ValueId known_image(ValueId sequence) const;
  ValueId constant(const Layer& layer, std::string_view prefix, const ConstantData& data);

  // What a weight is in this step: what stands in its place, or the state's value at its start.
  ValueId value_of(graph::StateId weight);
  // Weights in whose place another value stands, by state name.
  const std::map<std::string, ValueId, std::less<>>& replaced() const { return replaced_; }
  // What the outputs of calls so far add to the loss: scalars in the order of calls.
  const std::vector<ValueId>& activity_penalties() const { return activity_penalties_; }
  // The constants that calls asked for, by state name.
  const Constants& constants() const { return constants_; }
  // Invalid where `value` is no sigmoid or softmax.
  ValueId logits_of(ValueId value);
  bool knows_logits_of(ValueId value) const { return logits_.contains(value); }
  // The value's logits are known.
  Probabilities made_by(ValueId value) const { return logits_.at(value).made_by; }
  // Appends the writes of all moving statistics that changed, and of what is carried on.
  void write_statistics();

 private:
  // The call, of an elementwise layer on the same values in another form where all are known in it.
  std::vector<ValueId> call_in_known_form(const Layer& layer, LayerContext& context,
                                          std::span<const ValueId> inputs);
  void penalize(const Layer& layer, const std::vector<ValueId>& outputs);
  graph::StateId declare(const Layer& layer, std::string_view name);
  graph::StateId declare_carried(const Layer& layer, std::string_view name, int64_t columns);
  ValueId cast(ValueId value, DType dtype);
  ValueId as_bool(const Layer& layer, ValueId mask);

  graph::GraphBuilder& builder_;
  bool training_;
  Precision precision_;
  int64_t batch_norm_group_;
  int64_t carried_rows_ = 0;
  const std::vector<Weight>* weights_ = nullptr;  // of the call that is running
  struct Logits {
    ValueId value;
    Probabilities made_by = Probabilities::kSigmoid;
  };
  std::map<ValueId, Logits> logits_;
  std::set<ValueId> without_mask_;            // that had one
  std::map<ValueId, ValueId> channels_last_;  // by the same value channels first
  std::map<ValueId, ValueId> images_;         // by the same value as a sequence
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  std::map<std::string, ValueId, std::less<>> replaced_;    // by state name
  std::map<std::string, ValueId, std::less<>> statistics_;  // by state name: latest value
  std::map<std::string, int, std::less<>> site_counts_;     // by layer
  Constants constants_;                                     // by state name
  std::vector<ValueId> activity_penalties_;
};

// "<layer>/<weight>", the name of the state variable.
std::string state_name(const Layer& layer, std::string_view weight);
graph::StateVariable state_variable(const Layer& layer, const Weight& weight);

// The values of all calls' outputs, by call, and their masks.
struct ModelValues {
  std::vector<std::vector<ValueId>> values;
  std::vector<std::vector<ValueId>> masks;

  ValueId value(Tensor tensor) const {
    return values[tensor.call.index()][static_cast<size_t>(tensor.output)];
  }
  ValueId mask(Tensor tensor) const {
    return masks[tensor.call.index()][static_cast<size_t>(tensor.output)];
  }
};

// Adds a whole model on `inputs` (one per model input).
ModelValues expand_model(const Model& model, Expansion& expansion, std::span<const ValueId> inputs);

}  // namespace plimsoll::layers
