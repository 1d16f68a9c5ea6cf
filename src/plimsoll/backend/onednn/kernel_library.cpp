#include "backend/onednn/kernel_library.h"

#include "backend/cpu/families.h"
#include "backend/cpu/few_channels.h"
#include "backend/reference/reference.h"
#include "base/error.h"

namespace plimsoll::backend::onednn {
namespace {

using graph::Graph;
using graph::NodeId;

// A reference kernel under the rounding that ours run under.
class DelegatedKernel final : public Kernel {
 public:
  explicit DelegatedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  void run(const KernelCall& call) const noexcept override {
    const cpu::FlushDenormals flush;
    kernel_->run(call);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

std::unique_ptr<Kernel> delegated(std::unique_ptr<Kernel> kernel) {
  return std::make_unique<DelegatedKernel>(std::move(kernel));
}

bool is_pack(const cpu::NodeFacts& facts) { return facts.op() == "pack"; }

std::unique_ptr<Kernel> make_pack(const cpu::NodeFacts& facts, int threads) {
  const PackedLayout layout = parse_packed_layout(facts.attributes().get_string("layout"));
  int64_t elements = 1;
  for (int64_t dim : layout.dims) elements *= dim;
  if (elements != facts.input_elements(0) || layout.bytes().count() != facts.output_elements(0) ||
      facts.inputs[0].dtype != DType::kFloat32) {
    throw Error(ErrorKind::kModel, facts.node->name + ": expected weights and bytes of layout " +
                                       print(layout) + ", received " +
                                       to_string(facts.inputs[0].shape) + " and " +
                                       std::to_string(facts.output_elements(0)) +
                                       " bytes. Make the graph again for this kernel set.");
  }
  return cpu::kernel_of([mover = WeightMover(layout, threads)](const KernelCall& call) {
           mover.pack(cpu::input_floats(call, 0), cpu::output_floats(call, 0));
         })
      .kernel;
}

// The layout of the pack node that makes operand `input`; empty where another node does.
std::string layout_of(const Graph& graph, NodeId node, size_t input) {
  const graph::Value& value = graph.value(graph.node(node).inputs[input]);
  if (value.kind != graph::ValueKind::kNode) return "";
  return graph.node(value.producer).attributes.get_string("layout", "");
}

cpu::NodeFacts facts_of(const KernelRequest& request) {
  return cpu::node_facts(request.graph, request.node, request.batch, request.extents,
                         request.forms);
}

}  // namespace

KernelLibrary::KernelLibrary(const CpuInfo& cpu, const KernelSetOptions& options)
    : options_{cpu::isa_of(cpu.isa), options.threads},
      blocks_(cpu, options),
      convolutions_(cache_, options.threads),
      dense_layers_(cache_, options.threads) {
  engine();
}

std::optional<Convolution> KernelLibrary::convolution(const Graph& graph, NodeId node,
                                                      const cpu::NodeFacts& facts) const {
  if (!facts.op().starts_with("conv2d") || facts.op().starts_with("conv2d_pool_grad")) {
    return std::nullopt;
  }
  if (facts.op() == "conv2d_pool" &&
      cpu::pools_few_channels(ops::conv2d_pool_geometry(facts.op(), facts.types()), options_.isa)) {
    return std::nullopt;
  }
  const int axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  const int64_t block_samples =
      axis < 0 ? 1 : blocks_.block(graph, node)[static_cast<size_t>(axis)];
  return read_convolution(facts, block_samples);
}

std::optional<Dense> KernelLibrary::dense(const cpu::NodeFacts& facts) const {
  return read_dense(facts, cpu::most_units(options_.isa));
}

Bytes KernelLibrary::scratch(const Graph& graph, NodeId node, int64_t batch,
                             std::span<const int64_t> extents,
                             std::span<const std::string> forms) const {
  const cpu::NodeFacts facts = cpu::node_facts(graph, node, batch, extents, forms);
  if (is_pack(facts)) return Bytes(0);
  if (const auto c = convolution(graph, node, facts)) return convolutions_.scratch(*c);
  if (const auto d = dense(facts)) return dense_layers_.scratch(*d);
  const cpu::CpuKernel made = cpu::make_cpu_kernel(facts, options_);
  if (made.kernel != nullptr) return made.scratch;
  return reference_scratch(graph, node, batch, extents, forms);
}

bool KernelLibrary::own(const Graph& graph, NodeId node, int64_t batch,
                        std::span<const int64_t> extents) const {
  const cpu::NodeFacts facts = cpu::node_facts(graph, node, batch, extents, {});
  return is_pack(facts) || convolution(graph, node, facts).has_value() ||
         dense(facts).has_value() || cpu::make_cpu_kernel(facts, options_).kernel != nullptr;
}

// The vendor says nothing about it. Our own kernels compute rows of map axes one by one, or
// elements alike in whole vectors and in what is left over, as the reference's do.
bool KernelLibrary::row_exact(const Graph& graph, NodeId node, int axis) const {
  const graph::Node& n = graph.node(node);
  const std::vector<int64_t> extents = concrete_block(graph, node, blocks_.block(graph, node), 1);
  const cpu::NodeFacts facts = cpu::node_facts(graph, node, 1, extents, {});
  if (n.op->name().starts_with("conv2d") || read_dense(facts, 1)) return false;
  return reference_row_exact(graph, node, axis);
}

std::optional<PackedLayout> KernelLibrary::wanted_layout(const Graph& graph, NodeId node) const {
  const graph::Block block = blocks_.block(graph, node);
  // Any batch that holds a full block will do.
  const int64_t batch = block.empty() || block[0] == graph::kWholeAxis ? 1 : block[0];
  const std::vector<int64_t> extents = concrete_block(graph, node, block, batch);
  const cpu::NodeFacts facts = cpu::node_facts(graph, node, batch, extents, {});
  const auto c = convolution(graph, node, facts);
  return c ? convolutions_.wanted_layout(*c) : std::nullopt;
}

std::vector<std::string> KernelLibrary::primitive_keys(const Graph& graph, NodeId node,
                                                       int64_t batch) const {
  std::vector<int64_t> extents = concrete_block(graph, node, blocks_.block(graph, node), batch);
  const int axis = graph::find_axis(axes_of(graph, node), graph::kBatchAxis);
  std::vector<int64_t> samples = {1};
  if (axis >= 0) {
    const int64_t block = extents[static_cast<size_t>(axis)];
    samples = {block};
    if (batch % block != 0) samples.push_back(batch % block);
  }
  std::vector<std::string> keys;
  for (int64_t count : samples) {
    if (axis >= 0) extents[static_cast<size_t>(axis)] = count;
    const cpu::NodeFacts facts = cpu::node_facts(graph, node, batch, extents, {});
    std::vector<std::string> more;
    if (const auto c = convolution(graph, node, facts)) more = convolutions_.keys(*c);
    if (const auto d = dense(facts)) more = dense_layers_.keys(*d);
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

std::unique_ptr<Kernel> KernelLibrary::make(const KernelRequest& request) const {
  const cpu::NodeFacts facts = facts_of(request);
  if (is_pack(facts)) return make_pack(facts, options_.threads);
  if (const auto c = convolution(request.graph, request.node, facts)) {
    PLIMSOLL_CHECK(cpu::is_dense(request), facts.node->name + ": operands with gaps");
    if (c->packed) {
      const auto wanted = wanted_layout(request.graph, request.node);
      const std::string received = layout_of(request.graph, request.node, 1);
      if (!wanted || print(*wanted) != received) {
        throw Error(ErrorKind::kModel,
                    facts.node->name + ": expected a weight packed as " +
                        (wanted ? print(*wanted) : std::string("nothing but plain")) +
                        ", received one packed as \"" + received +
                        "\". Make the graph again for this kernel set.");
      }
    }
    return convolutions_.make(*c, options_.isa);
  }
  if (const auto d = dense(facts)) {
    return dense_layers_.make(*d, request, options_.isa);
  }
  if (cpu::CpuKernel made = cpu::make_cpu_kernel(facts, options_); made.kernel != nullptr) {
    PLIMSOLL_CHECK(made.strided || cpu::is_dense(request),
                   facts.node->name + ": operands with gaps");
    return std::move(made.kernel);
  }
  return delegated(make_reference_kernel(request));
}

std::unique_ptr<Kernel> KernelLibrary::make_encoder(const EncoderRequest& request) const {
  if (auto made = cpu::make_cpu_encoder(request, options_)) return made;
  return delegated(make_reference_encoder(request));
}

}  // namespace plimsoll::backend::onednn
