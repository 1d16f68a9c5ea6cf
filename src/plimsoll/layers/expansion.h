#pragma once

// Turns calls of layers into nodes of one graph.
//
// It declares each weight as a state variable when a layer first asks for it ("conv2d/kernel"),
// chains the moving statistics of a layer that is called several times, and remembers which values
// are sigmoid or softmax of which logits. Nodes are stamped with their layer's name.
//
// Layers compute channels last. Where a model says channels_first, a value is transposed behind the
// layer that made it and would be transposed back in front of the next; the expansion knows both
// forms of such a value, hands the channels-last one to whoever wants it, and calls elementwise
// layers on it. Transpositions that nobody reads are pruned.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "layers/model.h"

namespace plimsoll::layers {

class Expansion {
 public:
  // Training: Dropout draws, BatchNormalization takes the batch's statistics.
  Expansion(graph::GraphBuilder& builder, bool training) : builder_(builder), training_(training) {}

  graph::GraphBuilder& builder() { return builder_; }
  bool training() const { return training_; }

  // Adds one call of `layer`, whose weights are `weights`.
  std::vector<ValueId> call(const Layer& layer, const std::vector<Weight>& weights,
                            std::span<const ValueId> inputs);

  // For LayerContext.
  ValueId weight(const Layer& layer, std::string_view name);
  ValueId statistic(const Layer& layer, std::string_view name);
  void set_statistic(const Layer& layer, std::string_view name, ValueId next);
  void remember_logits(ValueId output, ValueId logits);
  int64_t call_site(const Layer& layer);
  ValueId channels_last(const Layer& layer, ValueId x);
  ValueId channels_first(const Layer& layer, ValueId x);

  // Invalid where `value` is no sigmoid or softmax.
  ValueId logits_of(ValueId value) const;
  // Appends the writes of all moving statistics that changed.
  void write_statistics();

 private:
  // The call on the same values channels last; nullopt where that is not the shorter way.
  std::optional<std::vector<ValueId>> call_channels_last(const Layer& layer,
                                                         std::span<const ValueId> inputs);
  graph::StateId declare(const Layer& layer, std::string_view name);

  graph::GraphBuilder& builder_;
  bool training_;
  const std::vector<Weight>* weights_ = nullptr;  // of the call that is running
  std::map<ValueId, ValueId> logits_;
  std::map<ValueId, ValueId> channels_last_;                // by the same value channels first
  std::map<std::string, ValueId, std::less<>> statistics_;  // by state name: latest value
  std::map<std::string, int, std::less<>> site_counts_;     // by layer
};

// "<layer>/<weight>", the name of the state variable.
std::string state_name(const Layer& layer, std::string_view weight);
graph::StateVariable state_variable(const Layer& layer, const Weight& weight);

// Adds a whole model on `inputs` (one per model input); the values of all calls' outputs, by call.
std::vector<std::vector<ValueId>> expand_model(const Model& model, Expansion& expansion,
                                               std::span<const ValueId> inputs);

}  // namespace plimsoll::layers
