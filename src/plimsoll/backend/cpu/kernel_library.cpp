#include "backend/cpu/kernel_library.h"

#include <array>

#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/shared_reference.h"
#include "backend/cpu/threads/shared_conversion.h"
#include "backend/kernel/row_block.h"
#include "backend/kernel/widened.h"
#include "backend/reference/reference.h"
#include "base/error.h"
#include "base/format.h"

namespace plimsoll::backend::cpu {
namespace {

using graph::Graph;
using graph::NodeId;

// Some rows of several images, which have gaps between them: one image after the other.
class ImageByImage final : public Kernel {
 public:
  // `request`: of one image.
  ImageByImage(std::unique_ptr<Kernel> kernel, const KernelRequest& request, const NodeFacts& facts,
               int samples)
      : kernel_(std::move(kernel)),
        samples_(static_cast<size_t>(samples)),
        input_dims_(request.input_dims),
        output_dims_(request.output_dims) {
    const auto add = [](const graph::ValueType& type, std::vector<int64_t>& elements) {
      elements.push_back(type.shape.has_batch() ? element_bytes(type.dtype).count() : 0);
    };
    for (const graph::ValueType& type : facts.inputs) add(type, inputs_);
    for (const graph::ValueType& type : facts.outputs) add(type, outputs_);
  }

  void run(const KernelCall& call) const noexcept override {
    std::array<Operand, kMostOperands> inputs;
    std::array<Operand, kMostOperands> outputs;
    std::array<int64_t, kMostAxes> begin{};
    std::array<int64_t, kMostAxes> extents{};
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    std::copy(call.outputs.begin(), call.outputs.end(), outputs.begin());
    std::copy(call.begin.begin(), call.begin.end(), begin.begin());
    std::copy(call.extents.begin(), call.extents.end(), extents.begin());
    extents[samples_] = 1;
    for (size_t i = 0; i < input_dims_.size(); ++i) inputs[i].dims = input_dims_[i];
    for (size_t o = 0; o < output_dims_.size(); ++o) outputs[o].dims = output_dims_[o];
    KernelCall each = call;
    each.inputs = std::span(inputs).first(call.inputs.size());
    each.outputs = std::span(outputs).first(call.outputs.size());
    each.begin = std::span(begin).first(call.begin.size());
    each.extents = std::span(extents).first(call.extents.size());
    for (int64_t sample = 0; sample < call.extents[samples_]; ++sample) {
      kernel_->run(each);
      each.first = false;
      ++begin[samples_];
      for (size_t i = 0; i < inputs_.size(); ++i) step(inputs_[i], inputs[i]);
      for (size_t o = 0; o < outputs_.size(); ++o) step(outputs_[o], outputs[o]);
    }
  }

  static constexpr size_t kMostOperands = 8;
  static constexpr size_t kMostAxes = 4;

 private:
  // Goes on to the next image; `element`: bytes, 0 where the operand has no images.
  static void step(int64_t element, Operand& operand) noexcept {
    if (element > 0 && operand.data != nullptr) operand.data += operand.strides[0] * element;
  }

  std::unique_ptr<Kernel> kernel_;
  size_t samples_;
  std::vector<std::vector<int64_t>> input_dims_;
  std::vector<std::vector<int64_t>> output_dims_;
  std::vector<int64_t> inputs_;  // bytes of an element
  std::vector<int64_t> outputs_;
};

// No block of this kernel set is like that; sums over some rows of each of several images are the
// reference's.
bool sums_rows_of_several(std::span<const graph::Axis> axes, std::span<const int64_t> extents) {
  const int samples = graph::find_axis(axes, graph::kBatchAxis);
  const int rows = graph::find_axis(axes, graph::kRowsAxis);
  return samples >= 0 && cuts_rows(axes, extents) && extents[static_cast<size_t>(samples)] > 1 &&
         axes[static_cast<size_t>(rows)].kind == graph::AxisKind::kReduce;
}

bool is_pack(const NodeFacts& facts) { return facts.node->op->traits().pack; }

bool is_convolution(const NodeFacts& facts) {
  return facts.work().family == graph::OpFamily::kConvolution;
}

// The layout of the pack node that makes operand `input`; empty where another node does.
std::string layout_of(const Graph& graph, NodeId node, size_t input) {
  const graph::Value& value = graph.value(graph.node(node).inputs[input]);
  if (value.kind != graph::ValueKind::kNode) return "";
  return graph.node(value.producer).attributes.get_string("layout", "");
}

NodeFacts facts_of(const KernelRequest& request) {
  return block_facts(request.graph, request.node, request.batch, request.extents, request.forms,
                     request.begin);
}

}  // namespace

std::optional<NodeFacts> widened_facts(const NodeFacts& facts) {
  if (!has_bfloat16(facts.inputs, facts.outputs) || reference_moves(facts.op())) {
    return std::nullopt;
  }
  NodeFacts wide = facts;
  widen(wide);
  return wide;
}

void check_pack(const NodeFacts& facts, int64_t elements, Bytes bytes, DType dtype) {
  if (elements == facts.input_elements(0) && bytes.count() == facts.output_elements(0) &&
      facts.inputs[0].dtype == dtype) {
    return;
  }
  throw Error(
      ErrorKind::kModel,
      fmt::format("{}: expected weights and bytes of layout {}, received {} and {} bytes. Make the "
                  "graph again for this kernel set.",
                  facts.node->name, facts.attributes.get_string("layout"),
                  to_string(facts.inputs[0].shape), facts.output_elements(0)));
}

KernelLibrary::KernelLibrary(const CpuInfo& cpu, const KernelSetOptions& options, bool alone)
    : options_{.isa = isa_of(cpu.isa),
               .parts = options.parts,
               .pairs = has_pairs(cpu.isa),
               .tiles = kHasVariants && has_tiles(cpu.isa),
               .alone = alone},
      blocks_(cpu, options, alone) {}

// The most that a block of these extents needs wherever in an image it lies.
Bytes KernelLibrary::scratch(const Graph& graph, NodeId node, int64_t batch,
                             std::span<const int64_t> extents,
                             std::span<const std::string> forms) const {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  if (!cuts_rows(axes, extents)) return scratch_at(graph, node, batch, extents, forms, {});
  if (sums_rows_of_several(axes, extents)) {
    return reference_scratch(graph, node, batch, extents, forms);
  }
  const std::vector<int64_t> block = concrete_block(graph, node, blocks_.block(graph, node), batch);
  Bytes most;
  for (const std::vector<int64_t>& begin : find_row_positions(axes, block, extents)) {
    most = max(most, scratch_at(graph, node, batch, extents, forms, begin));
  }
  return most;
}

Bytes KernelLibrary::scratch_at(const Graph& graph, NodeId node, int64_t batch,
                                std::span<const int64_t> extents,
                                std::span<const std::string> forms,
                                std::span<const int64_t> begin) const {
  const NodeFacts facts = block_facts(graph, node, batch, extents, forms, begin);
  if (is_pack(facts)) return Bytes(0);
  if (const auto own = own_scratch(graph, node, facts)) return *own;
  if (const auto wide = widened_facts(facts)) {
    if (const auto own = own_scratch(graph, node, *wide)) {
      return widened_scratch(graph, node, batch, extents, forms) + *own;
    }
  }
  if (cuts_rows(axes_of(graph, node), extents)) {
    return reference_scratch(graph, node, batch, extents, forms);
  }
  return shared_reference_scratch(graph, node, batch, extents, forms, options_.parts);
}

std::optional<Bytes> KernelLibrary::own_scratch(const Graph& graph, NodeId node,
                                                const NodeFacts& facts) const {
  if (const auto added = added_scratch(graph, node, facts)) return added;
  const CpuKernel made = make_cpu_kernel(facts, options_);
  if (made.kernel != nullptr) return made.scratch;
  return std::nullopt;
}

bool KernelLibrary::own(const Graph& graph, NodeId node, int64_t batch,
                        std::span<const int64_t> extents) const {
  const NodeFacts facts = block_facts(graph, node, batch, extents, {}, {});
  const auto is_own = [&](const NodeFacts& of) {
    return adds(graph, node, of) || make_cpu_kernel(of, options_).kernel != nullptr;
  };
  if (is_pack(facts) || is_own(facts)) return true;
  const auto wide = widened_facts(facts);
  return wide && is_own(*wide);
}

// Vendors say nothing about it. Our own kernels compute rows of map axes one by one, or
// elements alike in whole vectors and in what is left over, as the reference's do.
bool KernelLibrary::row_exact(const Graph& graph, NodeId node, int axis) const {
  return reference_row_exact(graph, node, axis);
}

std::optional<WantedLayout> KernelLibrary::wanted_layout(const Graph& graph, NodeId node) const {
  const graph::Block block = blocks_.block(graph, node);
  // Any batch that holds a full block will do.
  const int64_t batch = block.empty() || block[0] == graph::kWholeAxis ? 1 : block[0];
  const std::vector<int64_t> extents = concrete_block(graph, node, block, batch);
  const NodeFacts facts = block_facts(graph, node, batch, extents, {}, {});
  if (facts.work().pass != graph::OpPass::kGradKernel && is_winograd_node(facts, options_)) {
    const WinogradWeights weights = winograd_weights(facts, options_);
    return WantedLayout{print(weights), weights.bytes()};
  }
  return added_layout(graph, node, facts);
}

std::unique_ptr<Kernel> KernelLibrary::make_pack(const NodeFacts& facts) const {
  const std::string name = facts.attributes.get_string("layout");
  if (is_winograd(name)) {
    const WinogradWeights weights = parse_winograd(name, options_);
    check_pack(facts, 9 * weights.channels * weights.filters, weights.bytes(), DType::kFloat32);
    return make_winograd_pack(weights, options_).kernel;
  }
  if (auto added = make_added_pack(facts)) return added;
  throw Error(ErrorKind::kModel, facts.node->name +
                                     ": expected a layout of this backend, received \"" + name +
                                     "\". Make the graph again for this kernel set.");
}

std::unique_ptr<Kernel> KernelLibrary::make_dense(const KernelRequest& request) const {
  const NodeFacts facts = facts_of(request);
  if (is_pack(facts)) return make_pack(facts);
  if (auto own = make_own(request, facts)) return own;
  if (const auto wide = widened_facts(facts)) {
    if (auto own = make_own(widened_request(request), *wide)) {
      return make_widened(std::move(own), request, shared_conversion(options_.isa, options_.parts));
    }
  }
  return make_shared_reference(request, options_.parts);
}

// The weight of a graph that was read lies as this kernel set wants it, or is plain.
void KernelLibrary::check_packed(const KernelRequest& request, const NodeFacts& facts) const {
  if (!is_convolution(facts) || facts.inputs.size() < 2 ||
      facts.inputs[1].dtype != DType::kOpaque) {
    return;
  }
  const auto wanted = wanted_layout(request.graph, request.node);
  const std::string received = layout_of(request.graph, request.node, 1);
  if (wanted && wanted->name == received) return;
  throw Error(ErrorKind::kModel, facts.node->name + ": expected a weight packed as " +
                                     (wanted ? wanted->name : std::string("nothing but plain")) +
                                     ", received one packed as \"" + received +
                                     "\". Make the graph again for this kernel set.");
}

std::unique_ptr<Kernel> KernelLibrary::make_own(const KernelRequest& request,
                                                const NodeFacts& facts) const {
  check_packed(request, facts);
  if (auto added = make_added(request, facts)) return added;
  if (CpuKernel made = make_cpu_kernel(facts, options_); made.kernel != nullptr) {
    PLIMSOLL_CHECK(made.strided || is_dense(request), facts.node->name + ": operands with gaps");
    return std::move(made.kernel);
  }
  return nullptr;
}

std::unique_ptr<Kernel> KernelLibrary::make(const KernelRequest& request) const {
  const std::vector<graph::Axis> axes = axes_of(request.graph, request.node);
  const int samples = graph::find_axis(axes, graph::kBatchAxis);
  if (samples < 0 || request.extents[static_cast<size_t>(samples)] == 1 ||
      !cuts_rows(axes, request.extents)) {
    return make_dense(request);
  }
  if (sums_rows_of_several(axes, request.extents)) {
    return delegated(make_reference_kernel(request));
  }
  KernelRequest each = request;
  each.extents[static_cast<size_t>(samples)] = 1;
  const auto take_one = [&](std::vector<std::vector<int64_t>>& dims, bool output) {
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto& uses = output ? axes[static_cast<size_t>(samples)].outputs
                                : axes[static_cast<size_t>(samples)].inputs;
      if (uses[i].dimension == 0 && !dims[i].empty()) dims[i][0] = 1;
    }
  };
  take_one(each.input_dims, false);
  take_one(each.output_dims, true);
  // Joins of many operands move bits alone.
  if (each.input_dims.size() > ImageByImage::kMostOperands) {
    return delegated(make_reference_kernel(request));
  }
  return std::make_unique<ImageByImage>(make_dense(each), each, facts_of(each), samples);
}

std::unique_ptr<Kernel> KernelLibrary::make_encoder(const EncoderRequest& request) const {
  if (auto made = make_cpu_encoder(request, options_)) return made;
  return delegated(make_reference_encoder(request));
}

}  // namespace plimsoll::backend::cpu
