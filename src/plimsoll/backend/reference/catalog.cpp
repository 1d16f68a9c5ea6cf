#include "backend/reference/catalog.h"

#include "backend/kernel/block.h"
#include "backend/kernel/region.h"
#include "backend/reference/reference.h"
#include "graph/op.h"

namespace plimsoll::backend {
namespace {

// Typical of one core; they decide between plans only.
constexpr double kFlopsPerSecond = 1e9;
constexpr double kBytesPerSecond = 4e9;
constexpr double kSecondsPerCall = 1e-6;
constexpr double kSpillBytesPerSecond = 4e8;
constexpr double kSecondsPerSpill = 1e-4;

// Convolutions are as fast on few images as on many; the rest likes longer calls.
constexpr int64_t kConvolutionBatch = 2;
constexpr int64_t kOtherBatch = 8;

bool rows_are_exact(const graph::Graph& graph, graph::NodeId node) {
  const int axis = graph::find_axis(axes_of(graph, node), graph::kRowsAxis);
  return axis >= 0 && reference_row_exact(graph, node, axis);
}

}  // namespace

ReferenceCatalog::ReferenceCatalog(std::string_view backend, const KernelSetOptions& options)
    : options_(options) {
  options_.parts = options_.threads = 1;
  id_ = kernel_set_id(backend, options_);
}

graph::Block ReferenceCatalog::block(const graph::Graph& graph, graph::NodeId node) const {
  BlockRule rule;
  const graph::OpFamily family = graph.node(node).op->traits().work.family;
  rule.batch = family == graph::OpFamily::kConvolution ? kConvolutionBatch : kOtherBatch;
  rule.any_rows = rows_are_exact(graph, node);
  return choose_block(graph, node, rule, options_);
}

Bytes ReferenceCatalog::scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                                std::span<const int64_t> extents,
                                std::span<const std::string> forms) const {
  return reference_scratch(graph, node, batch, extents, forms);
}

double ReferenceCatalog::seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                                 std::span<const int64_t> extents) const {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const std::vector<graph::ValueType> inputs = input_types(graph, node);
  const std::vector<graph::ValueType> outputs = output_types(graph, node);
  const graph::Node& n = graph.node(node);
  double flops = n.op->flops_per_sample({n.attributes, inputs, outputs});
  for (size_t i = 0; i < axes.size(); ++i) {
    // A batch axis counts samples; the others are shares of a sample's work.
    const double whole =
        axes[i].extent.of_batch ? 1.0 : static_cast<double>(axes[i].extent.at(batch));
    flops *= static_cast<double>(extents[i]) / whole;
  }
  const std::vector<int64_t> begin(axes.size(), 0);
  double bytes = 0;
  const auto add = [&](const graph::ValueType& type, const std::vector<graph::AxisUse>& uses) {
    const Region region = find_region(type, batch, uses, begin, extents);
    bytes += static_cast<double>(product(region.dims) * element_bytes(type.dtype).count());
  };
  for (size_t i = 0; i < inputs.size(); ++i) add(inputs[i], uses_of_input(axes, i));
  for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i], uses_of_output(axes, i));
  return kSecondsPerCall + flops / kFlopsPerSecond + bytes / kBytesPerSecond;
}

bool ReferenceCatalog::row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const {
  return reference_row_exact(graph, node, axis);
}

double ReferenceCatalog::spill_seconds(Bytes bytes, Spill) const {
  return kSecondsPerSpill + static_cast<double>(bytes.count()) / kSpillBytesPerSecond;
}

double ReferenceCatalog::copy_seconds(Bytes bytes) const {
  return static_cast<double>(bytes.count()) / kBytesPerSecond;
}

}  // namespace plimsoll::backend
