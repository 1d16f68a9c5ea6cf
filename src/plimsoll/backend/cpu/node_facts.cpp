#include "backend/cpu/node_facts.h"

#include <algorithm>

#include "graph/state_rows.h"

namespace plimsoll::backend::cpu {

int64_t NodeFacts::samples() const {
  const int axis = graph::find_axis(axes, graph::kBatchAxis);
  return axis < 0 ? 1 : extents[static_cast<size_t>(axis)];
}

int64_t NodeFacts::elements(const graph::ValueType& type, bool input, size_t operand) const {
  int64_t count = 1;
  for (int d = 0; d < type.shape.rank(); ++d) {
    int64_t dim = type.shape[d].at(batch);
    for (size_t a = 0; a < axes.size(); ++a) {
      const std::vector<graph::AxisUse>& uses = input ? axes[a].inputs : axes[a].outputs;
      if (operand < uses.size() && uses[operand].dimension == d) {
        const bool whole = extents[a] == axes[a].extent.at(batch);
        const graph::AxisUse& use = uses[operand];
        if (!whole) dim = std::min(dim, (extents[a] - 1) * use.stride + use.before + use.after + 1);
      }
    }
    count *= dim;
  }
  return count;
}

bool NodeFacts::cut_inside_samples() const {
  for (size_t a = 0; a < axes.size(); ++a) {
    // Rows of a state variable are as dense as all of it.
    const bool rows = axes[a].name == graph::kBatchAxis || axes[a].name == graph::kStateRowsAxis;
    if (!rows && extents[a] < axes[a].extent.at(batch)) return true;
  }
  return false;
}

bool NodeFacts::all_float32() const {
  const auto is_float = [](const graph::ValueType& type) { return type.dtype == DType::kFloat32; };
  return std::all_of(inputs.begin(), inputs.end(), is_float) &&
         std::all_of(outputs.begin(), outputs.end(), is_float);
}

bool NodeFacts::leads_with_bfloat16() const {
  const auto fits = [](const graph::ValueType& type) {
    return type.dtype == DType::kFloat32 || type.dtype == DType::kBFloat16;
  };
  return !inputs.empty() && inputs[0].dtype == DType::kBFloat16 &&
         std::all_of(inputs.begin(), inputs.end(), fits) &&
         std::all_of(outputs.begin(), outputs.end(), fits);
}

NodeFacts node_facts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                     std::span<const int64_t> extents, std::span<const std::string> forms) {
  NodeFacts facts;
  facts.node = &graph.node(node);
  facts.attributes = facts.node->attributes;
  facts.inputs = graph::input_types(graph, node);
  facts.outputs = graph::output_types(graph, node);
  facts.axes = facts.node->op->axes(facts.types());
  facts.batch = batch;
  facts.extents.assign(extents.begin(), extents.end());
  facts.forms.assign(forms.begin(), forms.end());
  facts.forms.resize(facts.inputs.size());
  facts.whole_inputs = facts.inputs;
  return facts;
}

NodeFacts block_facts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::span<const std::string> forms,
                      std::span<const int64_t> begin) {
  NodeFacts facts = node_facts(graph, node, batch, extents, forms);
  const int samples = graph::find_axis(facts.axes, graph::kBatchAxis);
  if (samples >= 0 && cuts_rows(facts.axes, facts.extents)) {
    facts.extents[static_cast<size_t>(samples)] = 1;
  }
  take_row_block(begin, facts);
  return facts;
}

bool is_dense(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != step) return false;
    step *= dims[i];
  }
  return true;
}

bool is_dense(const KernelRequest& request) {
  for (size_t i = 0; i < request.input_dims.size(); ++i) {
    if (!is_dense(request.input_dims[i], request.input_strides[i])) return false;
  }
  for (size_t i = 0; i < request.output_dims.size(); ++i) {
    if (!is_dense(request.output_dims[i], request.output_strides[i])) return false;
  }
  return true;
}

}  // namespace plimsoll::backend::cpu
