#include "backend/onednn/primitives.h"

#include <algorithm>

#include "backend/cpu/conv/depthwise.h"
#include "backend/cpu/conv/few_channels.h"
#include "backend/cpu/conv/kernel_grad.h"
#include "backend/cpu/conv/patches.h"
#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/dense_shape.h"
#include "base/error.h"
#include "graph/lanes.h"

namespace plimsoll::backend::onednn {

using graph::Graph;
using graph::NodeId;

PrimitiveLibrary::PrimitiveLibrary(const CpuInfo& cpu, const KernelSetOptions& options)
    : KernelLibrary(cpu, options, false),
      convolutions_(cache_, options.parts),
      dense_layers_(cache_, options.parts) {
  engine();
}

std::optional<Convolution> PrimitiveLibrary::convolution(const Graph& graph, NodeId node,
                                                         const cpu::NodeFacts& facts) const {
  const graph::OpWork work = facts.work();
  const bool pools = work.fusion == graph::OpFusion::kPool;
  if (work.family != graph::OpFamily::kConvolution ||
      (pools && work.pass != graph::OpPass::kForward)) {
    return std::nullopt;
  }
  if (facts.cut_inside_samples() || cpu::read_packed_dense(facts, options()) ||
      cpu::read_kernel_grad(facts, options()) || cpu::is_winograd_node(facts, options()) ||
      cpu::is_depthwise_node(facts, options()) || cpu::is_patch_convolution(facts, options())) {
    return std::nullopt;
  }
  // The vendor's are faster in bfloat16, but where tiles find a first layer's few numbers too few.
  if (pools && (facts.inputs[0].dtype == DType::kFloat32 || options().tiles) &&
      cpu::pools_few_channels(ops::conv2d_pool_geometry(facts.op(), facts.types()),
                              options().isa)) {
    return std::nullopt;
  }
  const int axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  const int64_t block_samples =
      axis < 0 ? 1 : blocks().block(graph, node)[static_cast<size_t>(axis)];
  std::optional<Convolution> c = read_convolution(facts, block_samples, options().pairs);
  if (c && c->packed) c->model_rows = model_rows(graph, node, facts.batch);
  return c;
}

// The rows of the first block that lies inside of its image, or else of the first: packed weights
// lie as it likes them.
std::optional<ops::Window> PrimitiveLibrary::model_rows(const Graph& graph, NodeId node,
                                                        int64_t batch) const {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const std::vector<int64_t> extents =
      concrete_block(graph, node, blocks().block(graph, node), batch);
  if (!cuts_rows(axes, extents)) return std::nullopt;
  const auto positions = find_row_positions(axes, extents, extents);
  const auto& begin = positions[std::min<size_t>(1, positions.size() - 1)];
  const cpu::NodeFacts facts = cpu::block_facts(graph, node, batch, extents, {}, begin);
  return ops::conv_geometry(facts.op(), facts.types()).window[0];
}

// Without AVX-512 the vendor's products allocate (cpu/packed_dense.cpp).
std::optional<Dense> PrimitiveLibrary::dense(const cpu::NodeFacts& facts) const {
  if (options().isa != cpu::Isa::kAvx512 || cpu::read_packed_dense(facts, options())) {
    return std::nullopt;
  }
  return read_dense(facts, cpu::most_units(options().isa));
}

bool PrimitiveLibrary::adds(const Graph& graph, NodeId node, const cpu::NodeFacts& facts) const {
  return convolution(graph, node, facts).has_value() || dense(facts).has_value();
}

std::optional<Bytes> PrimitiveLibrary::added_scratch(const Graph& graph, NodeId node,
                                                     const cpu::NodeFacts& facts) const {
  if (const auto c = convolution(graph, node, facts)) return convolutions_.scratch(*c);
  if (const auto d = dense(facts)) return dense_layers_.scratch(*d);
  return std::nullopt;
}

std::unique_ptr<Kernel> PrimitiveLibrary::make_added(const KernelRequest& request,
                                                     const cpu::NodeFacts& facts) const {
  if (const auto c = convolution(request.graph, request.node, facts)) {
    PLIMSOLL_CHECK(cpu::is_dense(request), facts.node->name + ": operands with gaps");
    return convolutions_.make(*c, isa());
  }
  if (const auto d = dense(facts)) return dense_layers_.make(*d, request, isa());
  return nullptr;
}

std::optional<cpu::WantedLayout> PrimitiveLibrary::added_layout(const Graph& graph, NodeId node,
                                                                const cpu::NodeFacts& facts) const {
  auto c = convolution(graph, node, facts);
  if (!c) return std::nullopt;
  c->model_rows = model_rows(graph, node, facts.batch);
  const auto layout = convolutions_.wanted_layout(*c);
  return layout ? std::optional(cpu::WantedLayout{print(*layout), layout->bytes()}) : std::nullopt;
}

std::unique_ptr<Kernel> PrimitiveLibrary::make_added_pack(const cpu::NodeFacts& facts) const {
  const PackedLayout layout = parse_packed_layout(facts.attributes.get_string("layout"));
  int64_t elements = 1;
  for (int64_t dim : layout.dims) elements *= dim;
  const bool bf16 = layout.element_bytes == 2;
  cpu::check_pack(facts, elements, layout.bytes(), bf16 ? DType::kBFloat16 : DType::kFloat32);
  return cpu::kernel_of(
             [mover = WeightMover(layout, options().parts), bf16](const KernelCall& call) {
               if (bf16) {
                 mover.pack(cpu::input_as<uint16_t>(call, 0), cpu::output_as<uint16_t>(call, 0));
               } else {
                 mover.pack(cpu::input_floats(call, 0), cpu::output_floats(call, 0));
               }
             })
      .kernel;
}

void PrimitiveLibrary::add_primitives(const Graph& graph, NodeId node, int64_t batch,
                                      std::span<const int64_t> extents,
                                      std::vector<PrimitiveUse>& uses) const {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const std::vector<int64_t> block =
      concrete_block(graph, node, blocks().block(graph, node), batch);
  for (const std::vector<int64_t>& begin : find_row_positions(axes, block, extents)) {
    const cpu::NodeFacts facts = cpu::block_facts(graph, node, batch, extents, {}, begin);
    std::vector<PrimitiveUse> more;
    if (const auto c = convolution(graph, node, facts))
      more = convolutions_.uses(*c, options().isa);
    if (const auto d = dense(facts)) more = dense_layers_.uses(*d);
    const auto wide = cpu::widened_facts(facts);
    if (wide && more.empty() && !own_scratch(graph, node, facts)) {
      if (const auto c = convolution(graph, node, *wide))
        more = convolutions_.uses(*c, options().isa);
      if (const auto d = dense(*wide)) more = dense_layers_.uses(*d);
    }
    uses.insert(uses.end(), more.begin(), more.end());
  }
}

std::vector<PrimitiveUse> PrimitiveLibrary::primitives(const Graph& graph, NodeId node,
                                                       int64_t batch, int64_t lane) const {
  std::vector<int64_t> extents = concrete_block(graph, node, blocks().block(graph, node), batch);
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const int axis = graph::find_axis(axes, graph::kBatchAxis);
  std::vector<int64_t> samples = {1};
  if (axis >= 0) {
    const auto a = static_cast<size_t>(axis);
    samples = graph::block_lengths(batch, graph::lane_rows(axes[a], lane), extents[a]);
  }
  const bool cut = cuts_rows(axes, extents);
  std::vector<PrimitiveUse> uses;
  for (int64_t count : samples) {
    if (axis >= 0) extents[static_cast<size_t>(axis)] = count;
    add_primitives(graph, node, batch, extents, uses);
    // What is left of rows, and of a dense layer's units.
    for (const int tail_axis :
         {cut ? graph::find_axis(axes, graph::kRowsAxis) : -1, graph::find_axis(axes, "units")}) {
      if (tail_axis < 0) continue;
      const auto a = static_cast<size_t>(tail_axis);
      std::vector<int64_t> tail = extents;
      tail[a] = axes[a].extent.count % extents[a];
      if (tail[a] != 0) add_primitives(graph, node, batch, tail, uses);
    }
  }
  // What the layout of packed weights was asked of stays in the vendor's cache.
  if (cut && !uses.empty()) {
    uses.push_back(uses.front());
    uses.back().key += " for its layout";
  }
  return uses;
}

}  // namespace plimsoll::backend::onednn
