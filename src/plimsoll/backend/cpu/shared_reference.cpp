#include "backend/cpu/shared_reference.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/threads/threads.h"
#include "backend/kernel/region.h"
#include "backend/reference/reference.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr Bytes kLine{64};
constexpr size_t kMostOperands = 8;
constexpr size_t kMostAxes = 4;
constexpr size_t kMostRank = 8;
// Plain loops take about as long for a byte as vectors do for so many.
constexpr int64_t kPlainLoops = 4;

// How an operand follows the batch: one row of `dimension` a sample, or several.
struct Follows {
  int dimension = -1;   // −1: it is the same for all samples
  int64_t rows = 1;     // of a sample
  int64_t element = 0;  // bytes
};

// Whether a sample has rows of its own there, or none at all.
bool is_apart(const graph::AxisUse& use) {
  return use.dimension < 0 || (use.before == 0 && use.after == use.stride - 1);
}

Follows follows(const graph::AxisUse& use, DType dtype) {
  return {use.dimension, use.dimension < 0 ? 1 : use.stride, element_bytes(dtype).count()};
}

// One part of a call at a time, as a call of its own.
class SharedReference final : public Kernel {
 public:
  SharedReference(std::vector<std::unique_ptr<Kernel>> kernels, std::vector<Follows> inputs,
                  std::vector<Follows> outputs, size_t axis, int64_t samples, int64_t scratch)
      : kernels_(std::move(kernels)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        axis_(axis),
        samples_(samples),
        scratch_(scratch) {}

  void run(const KernelCall& call) const noexcept override {
    const FlushDenormals flush;
    for_each_part(static_cast<int>(kernels_.size()), [&](int part) { run_part(call, part); });
  }

 private:
  using Dims = std::array<int64_t, kMostRank>;

  void run_part(const KernelCall& call, int part) const noexcept {
    const Range range = part_of(samples_, 1, part, static_cast<int>(kernels_.size()));
    std::array<Operand, kMostOperands> inputs, outputs;
    std::array<Dims, kMostOperands> input_dims, output_dims;
    std::array<int64_t, kMostAxes> begin{}, extents{};
    std::ranges::copy(call.begin, begin.begin());
    std::ranges::copy(call.extents, extents.begin());
    begin[axis_] += range.begin;
    extents[axis_] = range.end - range.begin;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs[i] = cut(call.inputs[i], inputs_[i], range, input_dims[i]);
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      outputs[o] = cut(call.outputs[o], outputs_[o], range, output_dims[o]);
    }
    KernelCall own = call;
    own.inputs = std::span(inputs).first(inputs_.size());
    own.outputs = std::span(outputs).first(outputs_.size());
    own.begin = std::span(begin).first(call.begin.size());
    own.extents = std::span(extents).first(call.extents.size());
    own.scratch = scratch_ == 0 ? call.scratch : call.scratch + part * scratch_;
    kernels_[static_cast<size_t>(part)]->run(own);
  }

  static Operand cut(const Operand& whole, const Follows& f, const Range& range,
                     Dims& dims) noexcept {
    if (whole.data == nullptr || f.dimension < 0) return whole;
    const auto d = static_cast<size_t>(f.dimension);
    std::ranges::copy(whole.dims, dims.begin());
    dims[d] = (range.end - range.begin) * f.rows;
    return {whole.data + range.begin * f.rows * whole.strides[d] * f.element,
            std::span<const int64_t>(dims).first(whole.dims.size()), whole.strides};
  }

  std::vector<std::unique_ptr<Kernel>> kernels_;  // one a part
  std::vector<Follows> inputs_;
  std::vector<Follows> outputs_;
  size_t axis_;
  int64_t samples_;
  int64_t scratch_;  // bytes a part
};

class DelegatedKernel final : public Kernel {
 public:
  explicit DelegatedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  void run(const KernelCall& call) const noexcept override {
    const FlushDenormals flush;
    kernel_->run(call);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

int64_t bytes_of_call(const std::vector<graph::ValueType>& types, int64_t batch,
                      std::span<const graph::Axis> axes, bool outputs,
                      std::span<const int64_t> extents) {
  const std::vector<int64_t> begin(axes.size(), 0);
  int64_t bytes = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto uses = outputs ? uses_of_output(axes, i) : uses_of_input(axes, i);
    const Region region = find_region(types[i], batch, uses, begin, extents);
    bytes += product(region.dims) * element_bytes(types[i].dtype).count();
  }
  return bytes;
}

std::vector<int64_t> part_extents(std::span<const graph::Axis> axes,
                                  std::span<const int64_t> extents, int part, int parts) {
  std::vector<int64_t> own(extents.begin(), extents.end());
  const auto axis = static_cast<size_t>(graph::find_axis(axes, graph::kBatchAxis));
  const Range range = part_of(extents[axis], 1, part, parts);
  own[axis] = range.end - range.begin;
  return own;
}

Bytes part_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                   std::span<const int64_t> extents, std::span<const std::string> forms,
                   int parts) {
  Bytes most;
  for (int part = 0; part < parts; ++part) {
    most = max(most,
               reference_scratch(graph, node, batch,
                                 part_extents(axes_of(graph, node), extents, part, parts), forms));
  }
  return round_up(most, kLine);
}

// Whether what may lie over an input lies over the same samples of it.
bool aliases_sample_by_sample(const graph::Graph& graph, graph::NodeId node) {
  const graph::Node& n = graph.node(node);
  const std::vector<graph::ValueType> inputs = graph::input_types(graph, node);
  const std::vector<graph::ValueType> outputs = graph::output_types(graph, node);
  return std::ranges::all_of(n.op->aliases({n.attributes, inputs, outputs}),
                             [&](const graph::Alias& alias) {
                               return inputs[static_cast<size_t>(alias.input)] ==
                                      outputs[static_cast<size_t>(alias.output)];
                             });
}

}  // namespace

std::unique_ptr<Kernel> delegated(std::unique_ptr<Kernel> kernel) {
  return std::make_unique<DelegatedKernel>(std::move(kernel));
}

int shared_reference_parts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                           std::span<const int64_t> extents, std::span<const std::string> forms,
                           int most_parts) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const int axis = graph::find_axis(axes, graph::kBatchAxis);
  if (most_parts == 1 || axis < 0 || axes.size() > kMostAxes) return 1;
  const graph::Axis& samples = axes[static_cast<size_t>(axis)];
  const int64_t count = extents[static_cast<size_t>(axis)];
  if (samples.kind != graph::AxisKind::kMap || count < 2) return 1;
  if (!reference_row_exact(graph, node, axis) || !aliases_sample_by_sample(graph, node)) return 1;
  const auto plain = [](const std::string& form) { return form.empty(); };
  if (!std::ranges::all_of(forms, plain)) return 1;
  const std::vector<graph::ValueType> inputs = graph::input_types(graph, node);
  const std::vector<graph::ValueType> outputs = graph::output_types(graph, node);
  if (inputs.size() > kMostOperands || outputs.size() > kMostOperands) return 1;
  const auto deep = [](const graph::ValueType& type) {
    return std::cmp_greater(type.shape.rank(), kMostRank);
  };
  if (std::ranges::any_of(inputs, deep) || std::ranges::any_of(outputs, deep)) return 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::kBits || inputs[i].dtype == DType::kOpaque) return 1;
    if (!is_apart(uses_of_input(axes, i)[static_cast<size_t>(axis)])) return 1;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].dtype == DType::kBits || outputs[o].dtype == DType::kOpaque) return 1;
    const graph::AxisUse use = uses_of_output(axes, o)[static_cast<size_t>(axis)];
    if (use.dimension < 0 || !is_apart(use)) return 1;
  }
  const int64_t bytes = bytes_of_call(inputs, batch, axes, false, extents) +
                        bytes_of_call(outputs, batch, axes, true, extents);
  return static_cast<int>(std::min<int64_t>(count, parts_for(bytes * kPlainLoops, most_parts)));
}

Bytes shared_reference_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                               std::span<const int64_t> extents, std::span<const std::string> forms,
                               int most_parts) {
  const int parts = shared_reference_parts(graph, node, batch, extents, forms, most_parts);
  if (parts == 1) return reference_scratch(graph, node, batch, extents, forms);
  return part_scratch(graph, node, batch, extents, forms, parts) * parts;
}

std::unique_ptr<Kernel> make_shared_reference(const KernelRequest& request, int most_parts) {
  const int parts = shared_reference_parts(request.graph, request.node, request.batch,
                                           request.extents, request.forms, most_parts);
  if (parts == 1) return delegated(make_reference_kernel(request));
  const std::vector<graph::Axis> axes = axes_of(request.graph, request.node);
  const auto axis = static_cast<size_t>(graph::find_axis(axes, graph::kBatchAxis));
  std::vector<Follows> inputs, outputs;
  for (const graph::ValueType& type : graph::input_types(request.graph, request.node)) {
    inputs.push_back(follows(uses_of_input(axes, inputs.size())[axis], type.dtype));
  }
  for (const graph::ValueType& type : graph::output_types(request.graph, request.node)) {
    outputs.push_back(follows(uses_of_output(axes, outputs.size())[axis], type.dtype));
  }
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (int part = 0; part < parts; ++part) {
    KernelRequest own = request;
    own.extents = part_extents(axes, request.extents, part, parts);
    const auto cut = [&](std::vector<std::vector<int64_t>>& dims, std::span<const Follows> follow) {
      for (size_t i = 0; i < dims.size(); ++i) {
        if (follow[i].dimension < 0 || dims[i].empty()) continue;
        dims[i][static_cast<size_t>(follow[i].dimension)] = own.extents[axis] * follow[i].rows;
      }
    };
    cut(own.input_dims, inputs);
    cut(own.output_dims, outputs);
    kernels.push_back(make_reference_kernel(own));
  }
  const Bytes scratch = part_scratch(request.graph, request.node, request.batch, request.extents,
                                     request.forms, parts);
  return std::make_unique<SharedReference>(std::move(kernels), std::move(inputs),
                                           std::move(outputs), axis, request.extents[axis],
                                           scratch.count());
}

}  // namespace plimsoll::backend::cpu
