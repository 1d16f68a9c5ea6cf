#include "backend/kernel/widened.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/kernel/region.h"
#include "base/error.h"

namespace plimsoll::backend {
namespace {

constexpr Bytes kLine{64};
constexpr size_t kMostOperands = 8;
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

bool is_bf16(const graph::ValueType& type) { return type.dtype == DType::kBFloat16; }

bool is_plain(std::span<const std::string> forms, size_t input) {
  return input >= forms.size() || forms[input].empty();
}

Bytes wide_bytes(std::span<const int64_t> dims) {
  return round_up(Bytes(product(dims) * kFloat), kLine);
}

// The most rows of each dimension that a block of these extents touches.
std::vector<int64_t> largest_region(const graph::ValueType& type, int64_t batch,
                                    std::span<const graph::AxisUse> uses,
                                    std::span<const int64_t> extents) {
  std::vector<int64_t> dims = type.shape.at(batch);
  for (size_t a = 0; a < uses.size(); ++a) {
    const graph::AxisUse& use = uses[a];
    if (use.dimension < 0) continue;
    int64_t& dim = dims[static_cast<size_t>(use.dimension)];
    dim = std::min(dim, (extents[a] - 1) * use.stride + use.before + use.after + 1);
  }
  return dims;
}

// body(run's offset in elements, position, count) over the dense runs of a region.
template <typename Body>
void for_each_run(std::span<const int64_t> dims, std::span<const int64_t> strides,
                  const Body& body) {
  int64_t run = 1;
  size_t outer = dims.size();
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] == run)) run *= dims[--outer];
  const int64_t runs = product(dims.first(outer));
  for (int64_t r = 0; r < runs; ++r) {
    int64_t offset = 0;
    int64_t rest = r;
    for (size_t d = outer; d-- > 0;) {
      offset += rest % dims[d] * strides[d];
      rest /= dims[d];
    }
    body(offset, r * run, run);
  }
}

// One operand that is widened or rounded: where it lies in scratch, dense.
struct WideOperand {
  size_t operand = 0;
  int64_t offset = 0;  // bytes
  std::vector<int64_t> strides;
  bool sums = false;  // an output that blocks after the first add to
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(std::unique_ptr<Kernel> kernel, std::vector<WideOperand> inputs,
                std::vector<WideOperand> outputs, int64_t inner_scratch,
                Bfloat16Conversion conversion)
      : kernel_(std::move(kernel)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        inner_scratch_(inner_scratch),
        conversion_(std::move(conversion)) {}

  void run(const KernelCall& call) const noexcept override {
    std::array<Operand, kMostOperands> inputs;
    std::array<Operand, kMostOperands> outputs;
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    std::copy(call.outputs.begin(), call.outputs.end(), outputs.begin());
    for (const WideOperand& wide : inputs_) widen_into(call, wide, inputs[wide.operand]);
    for (const WideOperand& wide : outputs_) {
      Operand& output = outputs[wide.operand];
      if (output.data == nullptr) continue;
      if (wide.sums && !call.first) {
        widen_into(call, wide, output);
        continue;
      }
      output.data = call.scratch + wide.offset;
      output.strides = wide.strides;
    }
    KernelCall inner = call;
    inner.inputs = std::span(inputs).first(call.inputs.size());
    inner.outputs = std::span(outputs).first(call.outputs.size());
    inner.scratch = call.scratch + inner_scratch_;
    kernel_->run(inner);
    for (const WideOperand& wide : outputs_) {
      if (call.outputs[wide.operand].data != nullptr) round_out(call, wide);
    }
  }

 private:
  void widen_into(const KernelCall& call, const WideOperand& wide,
                  Operand& operand) const noexcept {
    const auto* from = reinterpret_cast<const uint16_t*>(operand.data);
    auto* to = reinterpret_cast<float*>(call.scratch + wide.offset);
    for_each_run(operand.dims, operand.strides, [&](int64_t at, int64_t position, int64_t count) {
      conversion_.widen(from + at, to + position, count);
    });
    operand.data = call.scratch + wide.offset;
    operand.strides = wide.strides;
  }

  void round_out(const KernelCall& call, const WideOperand& wide) const noexcept {
    const Operand& operand = call.outputs[wide.operand];
    const auto* from = reinterpret_cast<const float*>(call.scratch + wide.offset);
    auto* to = reinterpret_cast<uint16_t*>(operand.data);
    for_each_run(operand.dims, operand.strides, [&](int64_t at, int64_t position, int64_t count) {
      conversion_.round(from + position, to + at, count);
    });
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<WideOperand> inputs_;
  std::vector<WideOperand> outputs_;
  int64_t inner_scratch_;
  Bfloat16Conversion conversion_;
};

// Whether blocks add to this output: a reduce axis that it does not have.
bool takes_sums(std::span<const graph::Axis> axes, size_t output) {
  return std::ranges::any_of(axes, [&](const graph::Axis& axis) {
    const bool folds = axis.kind == graph::AxisKind::kReduce || axis.kind == graph::AxisKind::kScan;
    return folds && axis.outputs[output].dimension < 0;
  });
}

}  // namespace

bool has_bfloat16(std::span<const graph::ValueType> inputs,
                  std::span<const graph::ValueType> outputs) {
  return std::ranges::any_of(inputs, is_bf16) || std::ranges::any_of(outputs, is_bf16);
}

void widen(NodeProblem& problem) {
  for (auto* types : {&problem.inputs, &problem.outputs, &problem.whole_inputs}) {
    for (graph::ValueType& type : *types) {
      if (is_bf16(type)) type.dtype = DType::kFloat32;
    }
  }
}

Bytes widened_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::span<const std::string> forms) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const std::vector<graph::ValueType> inputs = input_types(graph, node);
  const std::vector<graph::ValueType> outputs = output_types(graph, node);
  Bytes bytes;
  const auto add = [&](const graph::ValueType& type, const std::vector<graph::AxisUse>& uses) {
    if (is_bf16(type)) bytes += wide_bytes(largest_region(type, batch, uses, extents));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_plain(forms, i)) add(inputs[i], uses_of_input(axes, i));
  }
  for (size_t o = 0; o < outputs.size(); ++o) add(outputs[o], uses_of_output(axes, o));
  return bytes;
}

std::unique_ptr<Kernel> make_widened(std::unique_ptr<Kernel> kernel, const KernelRequest& request,
                                     Bfloat16Conversion conversion) {
  const std::vector<graph::Axis> axes = axes_of(request.graph, request.node);
  const std::vector<graph::ValueType> inputs = input_types(request.graph, request.node);
  const std::vector<graph::ValueType> outputs = output_types(request.graph, request.node);
  PLIMSOLL_CHECK(inputs.size() <= kMostOperands && outputs.size() <= kMostOperands,
                 request.graph.node(request.node).name + ": too many operands to widen");
  Bytes offset;
  const auto place = [&](size_t operand, const std::vector<int64_t>& dims, bool sums) {
    WideOperand wide{operand, offset.count(), dense_strides(dims), sums};
    offset += wide_bytes(dims);
    return wide;
  };
  std::vector<WideOperand> wide_inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_bf16(inputs[i]) || !is_plain(request.forms, i)) continue;
    wide_inputs.push_back(place(i, request.input_dims[i], false));
  }
  std::vector<WideOperand> wide_outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!is_bf16(outputs[o]) || request.output_dims[o].empty()) continue;
    wide_outputs.push_back(place(o, request.output_dims[o], takes_sums(axes, o)));
  }
  return std::make_unique<WidenedKernel>(std::move(kernel), std::move(wide_inputs),
                                         std::move(wide_outputs), offset.count(),
                                         std::move(conversion));
}

KernelRequest widened_request(const KernelRequest& request) {
  KernelRequest wide = request;
  const std::vector<graph::ValueType> inputs = input_types(request.graph, request.node);
  const std::vector<graph::ValueType> outputs = output_types(request.graph, request.node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_bf16(inputs[i]) || !is_plain(request.forms, i)) continue;
    wide.input_strides[i] = dense_strides(request.input_dims[i]);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (is_bf16(outputs[o])) wide.output_strides[o] = dense_strides(request.output_dims[o]);
  }
  return wide;
}

}  // namespace plimsoll::backend
