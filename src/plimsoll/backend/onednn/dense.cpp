#include "backend/onednn/dense.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "base/error.h"
#include "base/format.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::onednn {
namespace {

using dnnl::memory;

constexpr Bytes kLine{64};
// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 4e5;
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

constexpr auto kF32 = memory::data_type::f32;

memory::desc matrix(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, kF32, memory::dims{columns, 1});
}
// A (columns, rows) array read as (rows, columns).
memory::desc transposed(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, kF32, memory::dims{1, rows});
}

// What one thread computes: all of a call but for a range of rows, or of columns of x for a weight
// gradient.
struct Share {
  cpu::Range rows, inner;
  int64_t row_count() const { return rows.end - rows.begin; }
  int64_t inner_count() const { return inner.end - inner.begin; }
};

// A share of columns has so many at least, and begins at a multiple of the grain.
constexpr int64_t kLeastColumns = 32;
constexpr int64_t kGrain = 16;

std::vector<Share> share_out(const Dense& d, int most_parts) {
  const Share whole{{0, d.rows}, {0, d.inner}};
  const double flops = 2.0 * static_cast<double>(d.rows) * static_cast<double>(d.inner) *
                       static_cast<double>(d.units);
  if (flops < kFlopsWorthATeam) return {whole};
  const bool by_columns = d.kind == DenseKind::kGradKernel;
  const int64_t most = by_columns ? d.inner / kLeastColumns : d.rows;
  const int parts = static_cast<int>(std::clamp<int64_t>(most, 1, most_parts));
  std::vector<Share> shares;
  for (int part = 0; part < parts; ++part) {
    Share share = whole;
    if (by_columns) {
      share.inner = cpu::part_of(d.inner, kGrain, part, parts);
    } else {
      share.rows = cpu::part_of(d.rows, 1, part, parts);
    }
    shares.push_back(share);
  }
  return shares;
}

// The product's left and right factor and result.
struct Product {
  memory::desc left, right, result;
};
Product product_of(const Dense& d, const Share& s) {
  switch (d.kind) {
    case DenseKind::kForward:
      return {matrix(s.row_count(), d.inner), matrix(d.inner, d.units),
              matrix(s.row_count(), d.units)};
    case DenseKind::kGradInput:
      return {matrix(s.row_count(), d.units), transposed(d.units, d.inner),
              matrix(s.row_count(), d.inner)};
    case DenseKind::kGradKernel:
      break;
  }
  return {transposed(s.inner_count(), d.rows), matrix(d.rows, d.units),
          matrix(s.inner_count(), d.units)};
}

bool adds_bias(const Dense& d) { return d.bias && d.kind == DenseKind::kForward; }

// Whether blocks after the first are added to what is there.
bool accumulates(const Dense& d) {
  return d.kind == DenseKind::kGradKernel || (d.kind == DenseKind::kGradInput && d.cut());
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

// The products of one share, and where its operands begin, in bytes.
struct ShareRun {
  PrimitiveRun store;
  std::optional<PrimitiveRun> add;  // where blocks are added
  int64_t left = 0;
  int64_t result = 0;
  CutOperand columns;  // of x, to be copied to scratch; no rows: not needed
};

class DenseKernel final : public Kernel {
 public:
  DenseKernel(const Dense& dense, std::vector<ShareRun> shares, Bytes primitive_scratch,
              Bytes share_scratch, const cpu::ColumnSums& bias_sums)
      : dense_(dense),
        shares_(std::move(shares)),
        primitive_scratch_(primitive_scratch.count()),
        share_scratch_(share_scratch.count()),
        bias_sums_(bias_sums) {}

  void run(const KernelCall& call) const noexcept override {
    if (call.outputs[0].data != nullptr) {
      cpu::for_each_part(static_cast<int>(shares_.size()), [&](int part) {
        const ShareRun& share = shares_[static_cast<size_t>(part)];
        std::byte* scratch = call.scratch + part * share_scratch_;
        std::array<std::byte*, 4> addresses = {call.inputs[0].data + share.left,
                                               call.inputs[1].data,
                                               call.outputs[0].data + share.result, nullptr};
        if (share.columns.rows > 0) {
          share.columns.gather(addresses[0], scratch + primitive_scratch_);
          addresses[0] = scratch + primitive_scratch_;
        }
        const bool bias = adds_bias(dense_);
        if (bias) addresses[3] = call.inputs[2].data;
        const bool stores = call.first || !share.add;
        (stores ? share.store : *share.add).run(std::span(addresses).first(bias ? 4 : 3), scratch);
      });
    }
    if (dense_.kind == DenseKind::kGradKernel && dense_.bias && call.outputs[1].data != nullptr) {
      const FlushDenormals flush;
      bias_sums_.run(cpu::input_floats(call, 1), cpu::output_floats(call, 1), !call.first);
    }
  }

 private:
  Dense dense_;
  std::vector<ShareRun> shares_;
  int64_t primitive_scratch_;
  int64_t share_scratch_;
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

// The library divides by zero where a side does not fit its 32-bit numbers.
void check_sides(const Product& p) {
  for (const dnnl::memory::desc* side : {&p.left, &p.right}) {
    for (int64_t extent : side->get_dims()) {
      if (extent <= std::numeric_limits<int32_t>::max()) continue;
      throw Error(ErrorKind::kModel,
                  fmt::format("expected a matrix product of fewer than 2^31 rows and columns, "
                              "received one of {}. Make the layer before it smaller.",
                              extent));
    }
  }
}

dnnl::primitive_desc_base describe(const Dense& d, const Share& share, bool add) {
  dnnl::primitive_attr attributes = base_attributes();
  dnnl::post_ops post_ops;
  if (add) post_ops.append_sum(1.0f);
  if (d.relu) append_relu(post_ops);
  attributes.set_post_ops(post_ops);
  const Product p = product_of(d, share);
  check_sides(p);
  if (adds_bias(d)) {
    return dnnl::matmul::primitive_desc(engine(), p.left, p.right, matrix(1, d.units), p.result,
                                        attributes);
  }
  return dnnl::matmul::primitive_desc(engine(), p.left, p.right, p.result, attributes);
}

// What the library makes for one product, by which of its loops end in a remainder: means of
// products of random shapes with AVX-512, and a tenth. Single ones take up to 456 KiB (resident.cpp
// allows for that once).
Bytes code_bytes(const Dense& d, const Share& share) {
  constexpr int64_t kBlock = 64;
  constexpr int64_t kFewRows = 16;
  int64_t rows = share.row_count();
  int64_t depth = share.inner_count();
  int64_t columns = d.units;
  if (d.kind == DenseKind::kGradInput) std::swap(depth, columns);
  if (d.kind == DenseKind::kGradKernel) std::swap(rows, depth);
  const bool few = rows < kFewRows;
  const bool depth_remains = depth > kBlock && depth % kBlock != 0;
  const bool columns_remain = columns > kBlock && columns % kBlock != 0;
  if (depth_remains && columns_remain) return few ? 150_KiB : 176_KiB;
  if (depth_remains) return few ? 112_KiB : 140_KiB;
  if (columns_remain) return few ? 116_KiB : 130_KiB;
  if (depth <= kBlock && columns <= kBlock) return few ? 88_KiB : 108_KiB;
  return few ? 105_KiB : 120_KiB;
}

// Shares of one size are one primitive.
std::string key_of(const Dense& d, const Share& share, bool add) {
  std::string key = fmt::format("matmul{}", static_cast<int>(d.kind));
  for (int64_t value : {share.row_count(), share.inner_count(), d.units, int64_t{adds_bias(d)},
                        int64_t{d.relu}, int64_t{add}}) {
    key += ',';
    key += std::to_string(value);
  }
  return key;
}

}  // namespace

std::optional<Dense> read_dense(const cpu::NodeFacts& facts, int64_t own_units) {
  const std::optional<Dense> d = cpu::read_dense_shape(facts);
  if (!d || d->bf16 || (!d->cut() && d->units <= own_units)) return std::nullopt;
  if (d->kind == DenseKind::kGradInput && !d->cut() && d->rows <= cpu::kMostTransposedRows) {
    return std::nullopt;
  }
  return d;
}

DenseLayers::AllCompiled DenseLayers::compiled(const Dense& d, bool add) const {
  AllCompiled all;
  for (const Share& share : share_out(d, most_parts_)) {
    all.push_back(cache_.get(key_of(d, share, add), [&] {
      auto result = std::make_shared<Compiled>();
      guarded("a dense layer",
              [&] { result->take([d, share, add] { return describe(d, share, add); }, Bytes()); });
      return result;
    }));
  }
  return all;
}

std::vector<PrimitiveUse> DenseLayers::uses(const Dense& d) const {
  const std::vector<Share> shares = share_out(d, most_parts_);
  std::vector<PrimitiveUse> uses;
  for (const bool add : {false, true}) {
    if (add && !accumulates(d)) continue;
    const AllCompiled all = compiled(d, add);
    for (size_t i = 0; i < shares.size(); ++i) {
      uses.push_back({.key = key_of(d, shares[i], add),
                      .products = all[i]->multiplies_matrices(),
                      .code = code_bytes(d, shares[i])});
    }
  }
  return uses;
}

Bytes DenseLayers::primitive_scratch(const Dense& d) const {
  Bytes most;
  for (const auto& each : compiled(d, false)) most = max(most, each->scratch);
  if (accumulates(d)) {
    for (const auto& each : compiled(d, true)) most = max(most, each->scratch);
  }
  return round_up(most, kLine);
}

Bytes DenseLayers::share_scratch(const Dense& d) const {
  const std::vector<Share> shares = share_out(d, most_parts_);
  Bytes columns;
  if (d.kind == DenseKind::kGradKernel && shares.size() > 1) {
    for (const Share& share : shares) {
      columns = max(columns, Bytes(d.rows * share.inner_count() * kFloat));
    }
  }
  return primitive_scratch(d) + round_up(columns, kLine);
}

Bytes DenseLayers::scratch(const Dense& d) const {
  const auto shares = static_cast<int64_t>(share_out(d, most_parts_).size());
  const Bytes all = share_scratch(d) * shares;
  return d.cut() ? cut_scratch(d, all).all : all;
}

std::unique_ptr<Kernel> DenseLayers::make(const Dense& d, const KernelRequest& request,
                                          cpu::Isa isa) const {
  const std::vector<Share> shares = share_out(d, most_parts_);
  const AllCompiled store = compiled(d, false);
  const AllCompiled add = accumulates(d) ? compiled(d, true) : AllCompiled();
  std::vector<ShareRun> runs;
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    const Product p = product_of(d, share);
    std::vector<Argument> arguments = {
        {DNNL_ARG_SRC, p.left}, {DNNL_ARG_WEIGHTS, p.right}, {DNNL_ARG_DST, p.result}};
    if (adds_bias(d)) arguments.push_back({DNNL_ARG_BIAS, matrix(1, d.units)});
    ShareRun run{PrimitiveRun(store[i], arguments), std::nullopt, 0, 0, {}};
    if (!add.empty()) run.add.emplace(add[i], arguments);
    switch (d.kind) {
      case DenseKind::kForward:
        run.left = share.rows.begin * d.inner * kFloat;
        run.result = share.rows.begin * d.units * kFloat;
        break;
      case DenseKind::kGradInput:
        run.left = share.rows.begin * d.units * kFloat;
        run.result = share.rows.begin * d.inner * kFloat;
        break;
      case DenseKind::kGradKernel:
        run.left = share.inner.begin * kFloat;
        run.result = share.inner.begin * d.units * kFloat;
        if (shares.size() > 1) {
          run.columns = {d.rows, share.inner_count(), d.inner};
        }
        break;
    }
    runs.push_back(std::move(run));
  }
  const Bytes each = share_scratch(d);
  const Bytes primitives = each * static_cast<int64_t>(shares.size());
  auto block = std::make_unique<DenseKernel>(d, std::move(runs), primitive_scratch(d), each,
                                             cpu::ColumnSums(d.rows, d.units, isa, most_parts_));
  if (!d.cut()) return block;
  const bool forward = d.kind == DenseKind::kForward;
  const size_t rows_input = d.kind == DenseKind::kGradKernel ? 1 : 0;
  const std::vector<int64_t>& row_dims =
      forward ? request.output_dims[0] : request.input_dims[rows_input];
  const std::vector<int64_t>& row_strides =
      forward ? request.output_strides[0] : request.input_strides[rows_input];
  CutOperand weight{d.inner, d.units, d.units};
  if (d.kind != DenseKind::kGradKernel) {
    weight.stride = cpu::row_stride(request.input_dims[1], request.input_strides[1]);
  } else if (!request.output_dims[0].empty()) {
    weight.stride = cpu::row_stride(request.output_dims[0], request.output_strides[0]);
  }
  return std::make_unique<CutDenseKernel>(
      std::move(block), d, cut_scratch(d, primitives), weight,
      CutOperand{d.rows, d.units, cpu::row_stride(row_dims, row_strides)});
}

}  // namespace plimsoll::backend::onednn
