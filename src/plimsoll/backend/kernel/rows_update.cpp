#include "backend/kernel/rows_update.h"

#include <array>

#include "backend/kernel/region.h"
#include "base/error.h"
#include "base/format.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace plimsoll::backend {
namespace {

constexpr size_t kWeight = 2;  // of the dense_grad_update; the update's is the first
constexpr size_t kGradient = 1;

}  // namespace

RowsUpdate::RowsUpdate(std::span<const graph::ValueType> inputs,
                       const graph::Attributes& attributes, int64_t rows, const Make& make)
    : rows_(rows) {
  graph::GraphBuilder builder(ops::registry());
  std::vector<graph::ValueId> operands;
  const auto add = [&](graph::ValueType type) {
    if (type.shape.rank() > 0) type.shape[0] = Dim::constant(rows);
    const std::string name = fmt::format("operand{}", operands.size());
    operands.push_back(builder.read(builder.state({.name = name, .type = type})));
    std::vector<int64_t> dims;
    dims.reserve(static_cast<size_t>(type.shape.rank()));
    for (int d = 0; d < type.shape.rank(); ++d) dims.push_back(type.shape[d].count);
    const int64_t row = dims.empty() ? 0 : product(dims) / rows * element_bytes(type.dtype).count();
    row_bytes_.push_back(row);
    strides_.push_back(dense_strides(dims));
    dims_.push_back(std::move(dims));
  };
  add(inputs[kWeight]);
  for (size_t i = kWeight; i < inputs.size(); ++i) add(inputs[i]);
  // The weight's type stands for the gradient's, after it.
  PLIMSOLL_CHECK(operands.size() <= kMostOperands, "an update of many operands");
  const graph::NodeId node =
      builder.add(attributes.get_string("optimizer"), "update", std::move(operands), attributes);
  const graph::Graph graph = builder.finish();
  const size_t outputs = graph.node(node).outputs.size();
  const std::vector<int64_t> extents(axes_of(graph, node).size(), rows);
  const std::vector<std::string> forms(dims_.size());
  const std::vector<std::vector<int64_t>> output_dims(outputs, dims_[0]);
  const std::vector<std::vector<int64_t>> output_strides(outputs, strides_[0]);
  kernel_ = make(KernelRequest{
      graph, node, 1, extents, forms, dims_, strides_, output_dims, output_strides, {}});
}

void RowsUpdate::run(const KernelCall& call, int64_t first, std::byte* gradient) const noexcept {
  std::array<Operand, kMostOperands> inputs;
  std::array<Operand, kMostOperands> outputs;
  for (size_t i = 0; i < dims_.size(); ++i) {
    inputs[i].dims = dims_[i];
    inputs[i].strides = strides_[i];
    if (i == kGradient) {
      inputs[i].data = gradient;
    } else {
      inputs[i].data = call.inputs[i == 0 ? kWeight : i + 1].data + first * row_bytes_[i];
    }
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    std::byte* data = call.outputs[o].data;
    outputs[o] = {data == nullptr ? nullptr : data + first * row_bytes_[0], dims_[0], strides_[0]};
  }
  const int64_t begin = 0;
  KernelCall rows = call;
  rows.inputs = std::span(inputs).first(dims_.size());
  rows.outputs = std::span(outputs).first(call.outputs.size());
  rows.scratch = nullptr;
  rows.begin = std::span(&begin, 1);
  rows.extents = std::span(&rows_, 1);
  rows.first = true;
  kernel_->run(rows);
}

}  // namespace plimsoll::backend
