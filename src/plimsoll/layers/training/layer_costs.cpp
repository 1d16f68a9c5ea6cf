#include "layers/training/layer_costs.h"

#include "graph/op.h"
#include "layers/training/programs.h"

namespace plimsoll::layers {

std::map<std::string, LayerCost, std::less<>> layer_costs(const Model& model) {
  const BuiltPrograms programs = build_programs(model, CompileOptions{}, {.predict = 1});
  const graph::Graph& graph = graph::find_program(programs.set, "predict")->graph;
  std::map<std::string, LayerCost, std::less<>> costs;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::NodeId id(i);
    const graph::Node& node = graph.node(id);
    if (node.layer.empty()) continue;
    LayerCost& cost = costs[node.layer];
    const std::vector<ValueType> inputs = graph::input_types(graph, id);
    const std::vector<ValueType> outputs = graph::output_types(graph, id);
    cost.flops_per_sample += node.op->flops_per_sample({node.attributes, inputs, outputs});
    if (node.op->traits().view) continue;
    for (const ValueType& type : outputs) {
      if (type.shape.has_batch()) {
        cost.activation_bytes_per_sample += row_bytes(type.dtype, type.shape);
      }
    }
  }
  return costs;
}

}  // namespace plimsoll::layers
