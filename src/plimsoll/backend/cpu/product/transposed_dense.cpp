// dense_grad_input over few rows: dx = dy · Wᵀ.
//
// W lies with its units side by side, and the products want the columns of x side by side.
// Transposed as a whole, W is read and written as often as it is used where rows are few. Here a
// panel of it is transposed at a time, in a cache, and multiplied by all rows of dy. Every element
// of dx is one chain of multiply-adds over the units in rising order, whatever the rows and threads
// are.

#include <algorithm>

#include "backend/cpu/families.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/cpu/product/product.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/transposed_dense_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Columns of x and units of a panel.
constexpr int64_t kColumns = 64;
constexpr int64_t kUnits = 256;
constexpr int64_t kPanelRow = spread_row(kColumns);
// Below this many products one thread is as fast as several.
constexpr int64_t kProductsWorthATeam = 1 << 18;

}  // namespace

CpuKernel make_transposed_dense(const NodeFacts& facts, const CpuOptions& options) {
  const auto shape = read_dense_shape(facts);
  if (!shape || shape->kind != DenseKind::kGradInput || shape->bf16) return {};
  const int64_t units = shape->units;
  const int64_t width = shape->inner;
  const int64_t rows = shape->rows;
  if (units <= most_units(options.isa) || rows > kMostTransposedRows) return {};
  const int64_t panel_floats = std::min(kUnits, units) * kPanelRow;
  const int parts = rows * width * units < kProductsWorthATeam ? 1 : options.parts;
  const auto transpose = PLIMSOLL_PICK(options.isa, transpose_panel);
  const MultiplyFunction multiply = pick_multiply(options.isa);
  return kernel_of(
      [=](const KernelCall& call) {
        const float* dy = input_floats(call, 0);
        const float* w = input_floats(call, 1);
        float* dx = output_floats(call, 0);
        for_each_part(parts, [&](int part) {
          float* panel = reinterpret_cast<float*>(call.scratch) + part * panel_floats;
          const Range share = part_of(width, kColumns, part, parts);
          for (int64_t column = share.begin; column < share.end; column += kColumns) {
            const int64_t columns = std::min(kColumns, share.end - column);
            for (int64_t unit = 0; unit < units; unit += kUnits) {
              const int64_t count = std::min(kUnits, units - unit);
              transpose(w + column * units + unit, units, columns, count, panel, kPanelRow);
              multiply({.rows = rows,
                        .inner = count,
                        .columns = columns,
                        .x = dy + unit,
                        .x_row = units,
                        .x_step = 1,
                        .w = panel,
                        .w_row = kPanelRow,
                        .y = dx + column,
                        .y_row = width,
                        .add = unit > 0});
            }
          }
        });
      },
      Bytes(parts * panel_floats * 4));
}

}  // namespace plimsoll::backend::cpu
