// dense_grad_update (ops/training/dense_grad_update.cpp): each thread takes its share of the
// weight's rows a tile at a time, whose gradient it computes to its second cache and updates the
// weight by. Rows of the gradient are independent of each other's (packed_product.h), so tiles and
// shares are too.
//
//   scratch  [packed rows of x, panels of dy] [gradient of a tile] a thread

#include <algorithm>
#include <vector>

#include "backend/cpu/families.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/cpu/product/packed_product.h"
#include "backend/kernel/rows_update.h"
#include "backend/reference/reference.h"
#include "graph/state_rows.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kTileFloats = 48 << 10;
constexpr int64_t kTileGrain = 24;  // rows: whole tiles of products

class DenseGradUpdate final {
 public:
  DenseGradUpdate(const NodeFacts& facts, const CpuOptions& options, int64_t rows)
      : multiply_(pick_packed_multiply(options.isa)),
        inner_(facts.inputs[2].shape[0].count),
        units_(facts.inputs[2].shape[1].count),
        rows_(rows) {
    tile_ = std::max<int64_t>(kTileFloats / units_ / kTileGrain, 1) * kTileGrain;
    product_ = {.inner = facts.batch * facts.inputs[0].shape.elements_per_sample() / inner_,
                .columns = units_,
                .x_row = 1,
                .transposed_x = true,
                .w_row = units_,
                .y_row = units_};
    parts_ = static_cast<int>(std::clamp<int64_t>(rows / tile_, 1, options.parts));
    panels_ = packed_floats(options.isa, product_);
    const CpuOptions alone{options.isa, 1, options.pairs, options.tiles};
    const auto make = [&](const KernelRequest& request) { return make_update(request, alone); };
    for (const int64_t each : {std::min(tile_, rows), rows < tile_ ? 0 : rows % tile_}) {
      if (each > 0) updates_.emplace_back(facts.inputs, facts.attributes, each, make);
    }
  }

  Bytes scratch() const {
    return Bytes(parts_ * part_floats() * static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    PackedProduct whole = product_;
    whole.x = input_floats(call, 0);
    whole.x_step = row_stride(call.inputs[0].dims, call.inputs[0].strides);
    whole.w = input_floats(call, 1);
    for_each_part(parts_, [&](int part) {
      float* panels = reinterpret_cast<float*>(call.scratch) + part * part_floats();
      PackedProduct p = whole;
      p.y = panels + panels_;
      const Range share = part_of(rows_, tile_, part, parts_);
      for (int64_t row = share.begin; row < share.end; row += tile_) {
        p.rows = std::min(tile_, share.end - row);
        p.x = whole.x + row;
        multiply_(p, panels);
        update_of(p.rows).run(call, row, reinterpret_cast<std::byte*>(p.y));
      }
    });
  }

 private:
  static std::unique_ptr<Kernel> make_update(const KernelRequest& request,
                                             const CpuOptions& options) {
    const NodeFacts facts =
        node_facts(request.graph, request.node, request.batch, request.extents, request.forms);
    CpuKernel made = make_optimizer(facts, options);
    return made.kernel != nullptr ? std::move(made.kernel) : make_reference_kernel(request);
  }

  int64_t part_floats() const { return panels_ + std::min(tile_, rows_) * units_; }
  const RowsUpdate& update_of(int64_t rows) const {
    return updates_.front().rows() == rows ? updates_.front() : updates_.back();
  }

  PackedMultiplyFunction multiply_;
  int64_t inner_;
  int64_t units_;
  int64_t rows_;  // of the call
  int64_t tile_ = 0;
  PackedProduct product_;
  int parts_ = 1;
  int64_t panels_ = 0;  // floats
  std::vector<RowsUpdate> updates_;
};

}  // namespace

CpuKernel make_dense_grad_update(const NodeFacts& facts, const CpuOptions& options) {
  if (!facts.computes(OpFamily::kDense, OpPass::kGradKernel, OpFusion::kUpdate)) return {};
  if (facts.inputs[0].dtype != DType::kFloat32) return {};
  const int axis = graph::find_axis(facts.axes, graph::kStateRowsAxis);
  const int64_t rows = facts.extents[static_cast<size_t>(axis)];
  auto kernel = std::make_shared<const DenseGradUpdate>(facts, options, rows);
  const Bytes scratch = kernel->scratch();
  CpuKernel made = kernel_of([kernel](const KernelCall& call) { kernel->run(call); }, scratch);
  made.strided = true;  // rows of x are longer where a call has some of the weight's
  return made;
}

}  // namespace plimsoll::backend::cpu
