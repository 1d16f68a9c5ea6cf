#include "formats/keras/keras_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "formats/keras/keras_operators.h"
#include "layers/config/names.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::ModelTree;
using layers::TreeTensor;

constexpr int64_t kUnseen = INT64_MAX;

struct Call {
  size_t node = 0;
  size_t index = 0;  // among the node's
};

// All calls of a tree in one list, with their inputs as positions in it.
struct CallList {
  std::vector<Call> calls;
  std::vector<size_t> first;                // per node
  std::vector<std::vector<size_t>> inputs;  // per call
};

CallList list_calls(const ModelTree& tree) {
  CallList list;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    list.first.push_back(list.calls.size());
    for (size_t k = 0; k < tree.nodes[i].calls.size(); ++k) list.calls.push_back({i, k});
  }
  for (const Call& call : list.calls) {
    std::vector<size_t>& inputs = list.inputs.emplace_back();
    for (const TreeTensor& input : tree.nodes[call.node].calls[call.index].inputs) {
      inputs.push_back(list.first[input.node] + input.call);
    }
  }
  return list;
}

// What Keras's walk from the outputs finds.
struct Walk {
  std::vector<size_t> calls;        // every call after those that it needs
  std::vector<int64_t> first_seen;  // per node: its turn in the walk; kUnseen: not met
  std::vector<bool> reached;        // per call
};

// Depth-first from each output in turn, with a stack of our own: files may be very deep.
Walk walk_from_outputs(const ModelTree& tree, const CallList& list) {
  struct Step {
    size_t call;
    size_t next_input = 0;
  };
  Walk walk;
  walk.first_seen.assign(tree.nodes.size(), kUnseen);
  walk.reached.assign(list.calls.size(), false);
  int64_t seen_count = 0;
  std::vector<Step> stack;
  const auto enter = [&](size_t call) {
    if (walk.reached[call]) return;
    walk.reached[call] = true;
    int64_t& seen = walk.first_seen[list.calls[call].node];
    if (seen == kUnseen) seen = seen_count++;
    stack.push_back({call});
  };
  for (const TreeTensor& output : tree.outputs) {
    enter(list.first[output.node] + output.call);
    while (!stack.empty()) {
      const std::vector<size_t>& inputs = list.inputs[stack.back().call];
      if (stack.back().next_input < inputs.size()) {
        enter(inputs[stack.back().next_input++]);
      } else {
        walk.calls.push_back(stack.back().call);
        stack.pop_back();
      }
    }
  }
  return walk;
}

// Depth of each node that was met: of its deepest call, as Keras counts it.
std::vector<int64_t> node_depths(const ModelTree& tree, const CallList& list, const Walk& walk) {
  std::vector<int64_t> call_depth(list.calls.size(), 0);
  std::vector<int64_t> node_depth(tree.nodes.size(), 0);
  for (auto call = walk.calls.rbegin(); call != walk.calls.rend(); ++call) {
    const size_t node = list.calls[*call].node;
    const int64_t depth = std::max(call_depth[*call], node_depth[node]);
    node_depth[node] = depth;
    for (const size_t input : list.inputs[*call]) {
      call_depth[input] = std::max(call_depth[input], depth + 1);
    }
  }
  return node_depth;
}

std::vector<size_t> functional_nodes(const ModelTree& tree, const CallList& list, Walk& walk) {
  const std::vector<int64_t> depth = node_depths(tree, list, walk);
  std::vector<size_t> order;
  // Inputs that nothing uses stay, in front of the others of depth 0.
  for (const TreeTensor& input : tree.inputs) {
    if (walk.first_seen[input.node] != kUnseen) continue;
    walk.first_seen[input.node] = -1;
    walk.reached[list.first[input.node] + input.call] = true;
    order.push_back(input.node);
  }
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    if (walk.first_seen[i] != kUnseen && walk.first_seen[i] >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-depth[a], walk.first_seen[a]) < std::pair(-depth[b], walk.first_seen[b]);
  });
  return order;
}

}  // namespace

KerasOrder keras_order(const ModelTree& tree) {
  KerasOrder order;
  order.calls.resize(tree.nodes.size());
  if (tree.sequential) {
    for (size_t i = 0; i < tree.nodes.size(); ++i) order.nodes.push_back(i);
    return order;
  }
  const CallList list = list_calls(tree);
  Walk walk = walk_from_outputs(tree, list);
  order.nodes = functional_nodes(tree, list, walk);
  for (size_t i = 0; i < list.calls.size(); ++i) {
    if (walk.reached[i]) order.calls[list.calls[i].node].push_back(list.calls[i].index);
  }
  return order;
}

std::vector<std::pair<size_t, size_t>> keras_run_order(const ModelTree& tree) {
  const CallList list = list_calls(tree);
  const Walk walk = walk_from_outputs(tree, list);
  std::vector<int64_t> depth(list.calls.size(), -1);  // −1: not met
  std::vector<int64_t> node_depth(tree.nodes.size(), 0);
  std::vector<size_t> met;  // in Keras's dictionary of depths
  const auto meet = [&](size_t call) -> int64_t& {
    if (depth[call] < 0) {
      depth[call] = 0;
      met.push_back(call);
    }
    return depth[call];
  };
  for (auto call = walk.calls.rbegin(); call != walk.calls.rend(); ++call) {
    int64_t& of_node = node_depth[list.calls[*call].node];
    of_node = std::max(meet(*call), of_node);
    depth[*call] = of_node;
    for (const size_t input : list.inputs[*call]) meet(input) = std::max(meet(input), of_node + 1);
  }
  std::stable_sort(met.begin(), met.end(), [&](size_t a, size_t b) { return depth[a] > depth[b]; });
  std::vector<std::pair<size_t, size_t>> order;
  for (const size_t call : met) order.emplace_back(list.calls[call].node, list.calls[call].index);
  return order;
}

std::vector<std::string> weight_groups(const ModelTree& tree, const KerasOrder& order,
                                       const std::vector<bool>& counted_twice) {
  std::vector<std::string> groups;
  std::map<std::string, int64_t> used;
  for (const size_t index : order.nodes) {
    const layers::TreeNode& node = tree.nodes[index];
    if (is_operator(node) || (tree.sequential && node.class_name == layers::kInputLayer)) {
      groups.emplace_back();
      continue;
    }
    const std::string_view code_name = layers::layer_traits(node.class_name).code_name;
    const std::string name =
        layers::snake_case(code_name.empty() ? std::string_view(node.class_name) : code_name);
    int64_t& next = used[name];
    const int64_t count = next;
    next += !counted_twice.empty() && counted_twice[index] ? 2 : 1;
    groups.push_back("layers/" + name + (count == 0 ? "" : fmt::format("_{}", count)));
  }
  return groups;
}

}  // namespace plimsoll::formats
