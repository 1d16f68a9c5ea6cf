#include "backend/onednn/dense.h"

#include <array>
#include <cstring>

#include "backend/cpu/column_sums.h"
#include "base/error.h"

namespace plimsoll::backend::onednn {
namespace {

using dnnl::memory;

constexpr Bytes kLine{64};
// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 4e5;
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

memory::desc matrix(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, memory::data_type::f32, memory::dims{columns, 1});
}
// A (columns, rows) array read as (rows, columns).
memory::desc transposed(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, memory::data_type::f32, memory::dims{1, rows});
}

// The product's left and right factor and result.
struct Product {
  memory::desc left, right, result;
};
Product product_of(const Dense& d) {
  switch (d.kind) {
    case DenseKind::kForward:
      return {matrix(d.rows, d.inner), matrix(d.inner, d.units), matrix(d.rows, d.units)};
    case DenseKind::kGradInput:
      return {matrix(d.rows, d.units), transposed(d.units, d.inner), matrix(d.rows, d.inner)};
    case DenseKind::kGradKernel:
      break;
  }
  return {transposed(d.inner, d.rows), matrix(d.rows, d.units), matrix(d.inner, d.units)};
}

// Whether blocks after the first are added to what is there.
bool accumulates(const Dense& d) {
  return d.kind == DenseKind::kGradKernel || (d.kind == DenseKind::kGradInput && d.cut);
}

// The operands with a dimension of units: as wide in scratch as the block.
struct CutScratch {
  Bytes weight;  // w or dw, where it begins
  Bytes rows;    // y or dy
  Bytes all;
};
CutScratch cut_scratch(const Dense& d, Bytes primitive) {
  CutScratch s;
  s.weight = round_up(primitive, kLine);
  s.rows = s.weight + round_up(Bytes(d.inner * d.units * kFloat), kLine);
  s.all = s.rows + Bytes(d.rows * d.units * kFloat);
  return s;
}

// Columns [0, width) of rows that are `stride` elements apart, to or from dense rows.
struct CutOperand {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;

  void gather(const std::byte* from, std::byte* to) const noexcept {
    copy(from, stride, to, width);
  }
  void scatter(const std::byte* from, std::byte* to) const noexcept {
    copy(from, width, to, stride);
  }

 private:
  void copy(const std::byte* from, int64_t from_stride, std::byte* to,
            int64_t to_stride) const noexcept {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_stride * kFloat, from + r * from_stride * kFloat,
                  static_cast<size_t>(width * kFloat));
    }
  }
};

// Row stride of a cut operand: all dimensions but the last are dense among themselves.
int64_t row_stride(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  for (size_t i = dims.size() - 1; i-- > 0;) {
    if (dims[i] != 1) return strides[i];
  }
  return dims.back();
}

class DenseKernel final : public Kernel {
 public:
  DenseKernel(const Dense& dense, std::unique_ptr<PrimitiveRun> store,
              std::unique_ptr<PrimitiveRun> add, const cpu::ColumnSums& bias_sums)
      : dense_(dense), store_(std::move(store)), add_(std::move(add)), bias_sums_(bias_sums) {}

  void run(const KernelCall& call) const noexcept override {
    const bool stores = call.first || add_ == nullptr;
    const PrimitiveRun& product = stores ? *store_ : *add_;
    if (call.outputs[0].data != nullptr) {
      std::array<std::byte*, 4> addresses = {call.inputs[0].data, call.inputs[1].data,
                                             call.outputs[0].data, nullptr};
      if (dense_.bias && dense_.kind == DenseKind::kForward) addresses[3] = call.inputs[2].data;
      product.run(std::span(addresses).first(addresses[3] == nullptr ? 3 : 4), call.scratch);
    }
    if (dense_.kind == DenseKind::kGradKernel && dense_.bias && call.outputs[1].data != nullptr) {
      const cpu::FlushDenormals flush;
      bias_sums_.run(cpu::input_floats(call, 1), cpu::output_floats(call, 1), !call.first);
    }
  }

 private:
  Dense dense_;
  std::unique_ptr<PrimitiveRun> store_;
  std::unique_ptr<PrimitiveRun> add_;  // null where nothing is ever added
  cpu::ColumnSums bias_sums_;
};

// Copies what is cut around the dense kernel of the block's width.
class CutDenseKernel final : public Kernel {
 public:
  CutDenseKernel(std::unique_ptr<Kernel> block, const Dense& dense, const CutScratch& scratch,
                 const CutOperand& weight, const CutOperand& rows)
      : block_(std::move(block)), dense_(dense), scratch_(scratch), weight_(weight), rows_(rows) {}

  void run(const KernelCall& call) const noexcept override {
    std::byte* weight = call.scratch + scratch_.weight.size();
    std::byte* rows = call.scratch + scratch_.rows.size();
    constexpr size_t kMostInputs = 3;
    std::array<Operand, kMostInputs> inputs;
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    std::array<Operand, 2> outputs;
    std::copy(call.outputs.begin(), call.outputs.end(), outputs.begin());
    KernelCall inner = call;
    inner.inputs = std::span(inputs).first(call.inputs.size());
    inner.outputs = std::span(outputs).first(call.outputs.size());
    switch (dense_.kind) {
      case DenseKind::kForward:
        weight_.gather(inputs[1].data, weight);
        inputs[1].data = weight;
        outputs[0].data = rows;
        block_->run(inner);
        rows_.scatter(rows, call.outputs[0].data);
        break;
      case DenseKind::kGradInput:
        rows_.gather(inputs[0].data, rows);
        weight_.gather(inputs[1].data, weight);
        inputs[0].data = rows;
        inputs[1].data = weight;
        block_->run(inner);
        break;
      case DenseKind::kGradKernel:
        rows_.gather(inputs[1].data, rows);
        inputs[1].data = rows;
        if (outputs[0].data != nullptr) {
          if (!call.first) weight_.gather(outputs[0].data, weight);
          outputs[0].data = weight;
        }
        block_->run(inner);
        if (call.outputs[0].data != nullptr) weight_.scatter(weight, call.outputs[0].data);
        break;
    }
  }

 private:
  std::unique_ptr<Kernel> block_;
  Dense dense_;
  CutScratch scratch_;
  CutOperand weight_;
  CutOperand rows_;
};

dnnl::primitive_desc_base describe(const Dense& d, bool add) {
  dnnl::primitive_attr attributes = base_attributes();
  dnnl::post_ops post_ops;
  if (add) post_ops.append_sum(1.0f);
  if (d.relu) append_relu(post_ops);
  attributes.set_post_ops(post_ops);
  const Product p = product_of(d);
  if (d.bias && d.kind == DenseKind::kForward) {
    return dnnl::matmul::primitive_desc(engine(), p.left, p.right, matrix(1, d.units), p.result,
                                        attributes);
  }
  return dnnl::matmul::primitive_desc(engine(), p.left, p.right, p.result, attributes);
}

std::string key_of(const Dense& d, bool add) {
  std::string key = "dense" + std::to_string(static_cast<int>(d.kind));
  const bool bias = d.bias && d.kind == DenseKind::kForward;
  for (int64_t value : {d.rows, d.inner, d.units, int64_t{bias}, int64_t{d.relu}, int64_t{add}}) {
    key += ',';
    key += std::to_string(value);
  }
  return key;
}

}  // namespace

std::optional<Dense> read_dense(const cpu::NodeFacts& facts) {
  Dense d;
  const std::string_view op = facts.op();
  if (op == "dense") {
    d.kind = DenseKind::kForward;
  } else if (op == "dense_grad_input") {
    d.kind = DenseKind::kGradInput;
  } else if (op == "dense_grad_kernel") {
    d.kind = DenseKind::kGradKernel;
  } else {
    return std::nullopt;
  }
  const graph::ValueType& x = d.kind == DenseKind::kGradInput ? facts.outputs[0] : facts.inputs[0];
  const graph::ValueType& y = d.kind == DenseKind::kForward     ? facts.outputs[0]
                              : d.kind == DenseKind::kGradInput ? facts.inputs[0]
                                                                : facts.inputs[1];
  const int64_t all_units = y.shape[y.shape.rank() - 1].count;
  const bool packed = facts.inputs[1].dtype == DType::kOpaque;
  if (x.dtype != DType::kFloat32 || packed || all_units == 1) return std::nullopt;
  const int axis = graph::find_axis(facts.axes, "units");
  PLIMSOLL_CHECK(axis >= 0, "a dense layer without an axis of units");
  d.units = facts.extents[static_cast<size_t>(axis)];
  d.cut = d.units < all_units;
  d.inner = x.shape[x.shape.rank() - 1].count;
  d.rows = facts.samples() * x.shape.elements_per_sample() / d.inner;
  d.bias = facts.attributes().get_bool("use_bias", false) && d.kind != DenseKind::kGradInput;
  d.relu = d.kind == DenseKind::kForward &&
           facts.attributes().get_string("activation", "linear") == "relu";
  return d;
}

std::shared_ptr<Compiled> DenseLayers::compiled(const Dense& d, bool add) const {
  return cache_.get(key_of(d, add), [&] {
    const double flops = 2.0 * static_cast<double>(d.rows) * static_cast<double>(d.inner) *
                         static_cast<double>(d.units);
    auto result = std::make_shared<Compiled>();
    result->threads = flops < kFlopsWorthATeam ? 1 : threads_;
    guarded("a dense layer", result->threads,
            [&] { result->take([d, add] { return describe(d, add); }); });
    return result;
  });
}

std::vector<std::string> DenseLayers::keys(const Dense& d) const {
  std::vector<std::string> keys = {key_of(d, false)};
  if (accumulates(d)) keys.push_back(key_of(d, true));
  return keys;
}

Bytes DenseLayers::scratch(const Dense& d) const {
  Bytes primitive = compiled(d, false)->scratch;
  if (accumulates(d)) primitive = max(primitive, compiled(d, true)->scratch);
  return d.cut ? cut_scratch(d, primitive).all : primitive;
}

std::unique_ptr<Kernel> DenseLayers::make(const Dense& d, const KernelRequest& request,
                                          cpu::Isa isa) const {
  const Product p = product_of(d);
  std::vector<Argument> arguments = {
      {DNNL_ARG_SRC, p.left}, {DNNL_ARG_WEIGHTS, p.right}, {DNNL_ARG_DST, p.result}};
  if (d.bias && d.kind == DenseKind::kForward) {
    arguments.push_back({DNNL_ARG_BIAS, matrix(1, d.units)});
  }
  auto store = std::make_unique<PrimitiveRun>(compiled(d, false), arguments);
  std::unique_ptr<PrimitiveRun> add;
  Bytes primitive = compiled(d, false)->scratch;
  if (accumulates(d)) {
    add = std::make_unique<PrimitiveRun>(compiled(d, true), arguments);
    primitive = max(primitive, compiled(d, true)->scratch);
  }
  auto block = std::make_unique<DenseKernel>(d, std::move(store), std::move(add),
                                             cpu::ColumnSums(d.rows, d.units, isa));
  if (!d.cut) return block;
  const bool forward = d.kind == DenseKind::kForward;
  const size_t rows_input = d.kind == DenseKind::kGradKernel ? 1 : 0;
  const std::vector<int64_t>& row_dims =
      forward ? request.output_dims[0] : request.input_dims[rows_input];
  const std::vector<int64_t>& row_strides =
      forward ? request.output_strides[0] : request.input_strides[rows_input];
  CutOperand weight{d.inner, d.units, d.units};
  if (d.kind != DenseKind::kGradKernel) {
    weight.stride = row_stride(request.input_dims[1], request.input_strides[1]);
  } else if (!request.output_dims[0].empty()) {
    weight.stride = row_stride(request.output_dims[0], request.output_strides[0]);
  }
  return std::make_unique<CutDenseKernel>(
      std::move(block), d, cut_scratch(d, primitive), weight,
      CutOperand{d.rows, d.units, row_stride(row_dims, row_strides)});
}

}  // namespace plimsoll::backend::onednn
