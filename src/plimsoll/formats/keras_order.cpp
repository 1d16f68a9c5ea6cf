#include "formats/keras_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "layers/names.h"

namespace plimsoll::formats {
namespace {

using layers::CallId;
using layers::LayerId;
using layers::Model;
using layers::ModelKind;
using layers::Tensor;

constexpr int64_t kUnseen = INT64_MAX;

// What Keras's walk from the outputs finds.
struct Walk {
  std::vector<CallId> calls;        // every call behind those that it needs
  std::vector<int64_t> first_seen;  // per layer: its turn in the walk; kUnseen: not met
  std::vector<bool> reached;        // per call
};

// Depth-first from each output in turn, with a stack of our own: files may be very deep.
Walk walk_from_outputs(const Model& model) {
  struct Step {
    CallId call;
    size_t next_input = 0;
  };
  Walk walk;
  walk.first_seen.assign(model.layer_count(), kUnseen);
  walk.reached.assign(model.calls().size(), false);
  int64_t seen_count = 0;
  std::vector<Step> stack;
  const auto enter = [&](CallId call) {
    if (walk.reached[call.index()]) return;
    walk.reached[call.index()] = true;
    int64_t& seen = walk.first_seen[model.calls()[call.index()].layer.index()];
    if (seen == kUnseen) seen = seen_count++;
    stack.push_back({call});
  };
  for (const layers::ModelPort& output : model.outputs()) {
    enter(output.tensor.call);
    while (!stack.empty()) {
      const std::vector<Tensor>& inputs = model.calls()[stack.back().call.index()].inputs;
      if (stack.back().next_input < inputs.size()) {
        enter(inputs[stack.back().next_input++].call);
      } else {
        walk.calls.push_back(stack.back().call);
        stack.pop_back();
      }
    }
  }
  return walk;
}

// Depth of each layer that was met: of its deepest call, as Keras counts it.
std::vector<int64_t> layer_depths(const Model& model, const Walk& walk) {
  std::vector<int64_t> call_depth(model.calls().size(), 0);
  std::vector<int64_t> layer_depth(model.layer_count(), 0);
  for (auto call = walk.calls.rbegin(); call != walk.calls.rend(); ++call) {
    const layers::LayerCall& made = model.calls()[call->index()];
    const int64_t depth = std::max(call_depth[call->index()], layer_depth[made.layer.index()]);
    layer_depth[made.layer.index()] = depth;
    for (const Tensor& input : made.inputs) {
      int64_t& before = call_depth[input.call.index()];
      before = std::max(before, depth + 1);
    }
  }
  return layer_depth;
}

std::vector<LayerId> functional_layers(const Model& model, Walk& walk) {
  const std::vector<int64_t> depth = layer_depths(model, walk);
  std::vector<LayerId> order;
  // Inputs that nothing uses stay, in front of the others of depth 0.
  for (const layers::ModelPort& input : model.inputs()) {
    const LayerId layer = model.calls()[input.tensor.call.index()].layer;
    if (walk.first_seen[layer.index()] != kUnseen) continue;
    walk.first_seen[layer.index()] = -1;
    walk.reached[input.tensor.call.index()] = true;
    order.push_back(layer);
  }
  for (size_t i = 0; i < model.layer_count(); ++i) {
    if (walk.first_seen[i] != kUnseen && walk.first_seen[i] >= 0) order.emplace_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](LayerId a, LayerId b) {
    return std::pair(-depth[a.index()], walk.first_seen[a.index()]) <
           std::pair(-depth[b.index()], walk.first_seen[b.index()]);
  });
  return order;
}

}  // namespace

KerasOrder keras_order(const Model& model) {
  KerasOrder order;
  order.calls.resize(model.layer_count());
  std::vector<bool> kept(model.calls().size(), true);
  if (model.kind() == ModelKind::kSequential) {
    for (size_t i = 0; i < model.layer_count(); ++i) order.layers.emplace_back(i);
  } else {
    Walk walk = walk_from_outputs(model);
    order.layers = functional_layers(model, walk);
    kept = std::move(walk.reached);
  }
  for (size_t i = 0; i < model.calls().size(); ++i) {
    if (kept[i]) order.calls[model.calls()[i].layer.index()].emplace_back(i);
  }
  return order;
}

std::vector<std::string> weight_groups(const Model& model, const KerasOrder& order) {
  std::vector<std::string> groups;
  std::map<std::string, int64_t> used;
  for (const LayerId id : order.layers) {
    const std::string& class_name = model.layer(id).class_name();
    if (model.kind() == ModelKind::kSequential && class_name == "InputLayer") {
      groups.emplace_back();
      continue;
    }
    const std::string name = layers::snake_case(class_name);
    const int64_t count = used[name]++;
    groups.push_back("layers/" + name + (count == 0 ? "" : "_" + std::to_string(count)));
  }
  return groups;
}

}  // namespace plimsoll::formats
