// Packed products of the instruction sets that they are for and that this processor has, against
// sums in double.

#include "backend/cpu/product/packed_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "unit/backend/instruction_sets.h"

namespace plimsoll::backend::cpu {
namespace {

struct Size {
  int64_t rows, inner, columns;
};
// Tiles with rows and columns left over, several pieces of a sum, several groups of columns.
constexpr Size kSizes[] = {{1, 1, 1},
                           {5, 3, 17},
                           {6, 256, 16},
                           {7, 257, 15},
                           {9, 600, 40},
                           {31, 70, 33},
                           {25, 513, 8},
                           {3, 20, 900},
                           {13, 300, 300},
                           {64, 9, 2100},
                           // pieces that are fetched beside the one before
                           {32, 600, 520},
                           {33, 128, 700},
                           // rows that are packed where they lie side by side
                           {271, 260, 200},
                           {313, 5, 192}};

float number(int64_t i) { return static_cast<float>((i * 7919) % 1009) / 504.5F - 1.0F; }

struct Operands {
  Size size;
  std::vector<float> x, w, bias, start;
  explicit Operands(const Size& s) : size(s) {
    for (int64_t i = 0; i < s.rows * s.inner; ++i) x.push_back(number(i));
    for (int64_t i = 0; i < s.inner * s.columns; ++i) w.push_back(number(3 * i + 1));
    for (int64_t i = 0; i < s.columns; ++i) bias.push_back(number(5 * i + 2));
    for (int64_t i = 0; i < s.rows * s.columns; ++i) start.push_back(number(11 * i + 3));
  }
};

struct Form {
  bool transposed = false;  // w lies (columns, inner)
  bool by_steps = false;    // x lies (inner, rows)
  bool add = false;
  bool finish = false;  // bias and relu
};
constexpr Form kForms[] = {
    {}, {.transposed = true}, {.by_steps = true, .add = true}, {.add = true}, {.finish = true}};

PackedProduct product_of(const Operands& o, const Form& form, std::vector<float>& y) {
  const Size& s = o.size;
  return {.rows = s.rows,
          .inner = s.inner,
          .columns = s.columns,
          .x = o.x.data(),
          .x_row = form.by_steps ? 1 : s.inner,
          .x_step = form.by_steps ? s.rows : 1,
          .transposed_x = form.by_steps,
          .w = o.w.data(),
          .w_row = form.transposed ? s.inner : s.columns,
          .transposed = form.transposed,
          .y = y.data(),
          .y_row = s.columns,
          .add = form.add,
          .bias = form.finish ? o.bias.data() : nullptr,
          .relu = form.finish};
}

std::vector<float> multiply(Isa isa, const PackedProduct& product, std::vector<float>& y) {
  constexpr size_t kGuard = 64;
  const auto floats = static_cast<size_t>(packed_floats(isa, product));
  std::vector<float> scratch(floats + kGuard, NAN);
  pick_packed_multiply(isa)(product, scratch.data());
  for (size_t i = floats; i < scratch.size(); ++i) EXPECT_TRUE(std::isnan(scratch[i])) << i;
  return y;
}

double exact(const Operands& o, const Form& form, int64_t r, int64_t c) {
  const Size& s = o.size;
  double sum = form.add ? o.start[static_cast<size_t>(r * s.columns + c)] : 0.0;
  for (int64_t k = 0; k < s.inner; ++k) {
    const int64_t x = form.by_steps ? k * s.rows + r : r * s.inner + k;
    const int64_t w = form.transposed ? c * s.inner + k : k * s.columns + c;
    sum += static_cast<double>(o.x[static_cast<size_t>(x)]) * o.w[static_cast<size_t>(w)];
  }
  if (form.finish) sum = std::max(sum + o.bias[static_cast<size_t>(c)], 0.0);
  return sum;
}

TEST(PackedProduct, IsTheSum) {
  for (Isa isa : instruction_sets()) {
    for (const Size& size : kSizes) {
      const Operands operands(size);
      for (const Form& form : kForms) {
        std::vector<float> y = operands.start;
        multiply(isa, product_of(operands, form, y), y);
        // Sums grow to some 25 within a piece.
        const double bound = 4e-6 * std::sqrt(static_cast<double>(size.inner)) + 1e-6;
        for (int64_t r = 0; r < size.rows; ++r) {
          for (int64_t c = 0; c < size.columns; ++c) {
            ASSERT_NEAR(y[static_cast<size_t>(r * size.columns + c)], exact(operands, form, r, c),
                        bound)
                << size.rows << " " << size.inner << " " << size.columns << " at " << r << " " << c;
          }
        }
      }
    }
  }
}

void expect_same_in_parts(Isa isa, const Operands& operands, const Form& form) {
  const Size& size = operands.size;
  std::vector<float> whole = operands.start;
  multiply(isa, product_of(operands, form, whole), whole);
  std::vector<float> parts = operands.start;
  for (int64_t row : {0, 5, 16}) {
    for (int64_t column : {0, 16, 64}) {
      PackedProduct p = product_of(operands, form, parts);
      p.rows = (row == 0 ? 5 : row == 5 ? 16 : size.rows) - row;
      p.columns = (column == 0 ? 16 : column == 16 ? 64 : size.columns) - column;
      p.x += row * p.x_row;
      p.w += column * (form.transposed ? p.w_row : 1);
      p.y += row * p.y_row + column;
      if (p.bias != nullptr) p.bias += column;
      multiply(isa, p, parts);
    }
  }
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0);
}

TEST(PackedProduct, RowsAndColumnsAroundChangeNoBit) {
  for (const Size& size : {Size{23, 700, 75}, Size{310, 300, 275}}) {
    const Operands operands(size);
    for (Isa isa : instruction_sets()) {
      for (const Form& form : kForms) expect_same_in_parts(isa, operands, form);
    }
  }
}

TEST(PackedProduct, NotANumberStays) {
  Operands operands({4, 300, 20});
  operands.x[7] = NAN;
  for (Isa isa : instruction_sets()) {
    std::vector<float> y = operands.start;
    multiply(isa, product_of(operands, {.finish = true}, y), y);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 20) << i;
  }
}

}  // namespace
}  // namespace plimsoll::backend::cpu
