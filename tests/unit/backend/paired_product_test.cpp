// Products of bfloat16 numbers in pairs, where this processor has them, against sums in double.

#include "backend/cpu/product/paired_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/bfloat16.h"
#include "base/cpu.h"

namespace plimsoll::backend::cpu {
namespace {

struct Size {
  int64_t rows, inner, columns;
};
// Tiles with rows and columns left over, odd steps, several pieces of a sum, several groups of
// columns, sums that are kept between their pieces.
constexpr Size kSizes[] = {{1, 1, 1},      {5, 3, 17},    {8, 256, 16},   {7, 257, 15},
                           {9, 1300, 40},  {31, 70, 33},  {25, 1025, 8},  {3, 20, 900},
                           {13, 300, 300}, {64, 9, 2100}, {11, 8193, 37}, {70, 600, 64}};

float number(int64_t i) {
  return float_of_bfloat16(
      bfloat16_of_float(static_cast<float>((i * 7919) % 1009) / 504.5F - 1.0F));
}

struct Operands {
  Size size;
  std::vector<uint16_t> x, w;
  std::vector<float> bias, start;
  explicit Operands(const Size& s) : size(s) {
    for (int64_t i = 0; i < s.rows * s.inner; ++i) x.push_back(bfloat16_of_float(number(i)));
    for (int64_t i = 0; i < s.inner * s.columns; ++i) {
      w.push_back(bfloat16_of_float(number(3 * i + 1)));
    }
    for (int64_t i = 0; i < s.columns; ++i) bias.push_back(number(5 * i + 2));
    for (int64_t i = 0; i < s.rows * y_row(); ++i) start.push_back(number(11 * i + 3));
  }
  // Rows of y lie apart: what is between them stays.
  int64_t y_row() const { return size.columns + 3; }
};

struct Form {
  bool transposed = false;  // w lies (columns, inner)
  bool by_steps = false;    // x lies (inner, rows)
  bool bf16 = false;        // y is bfloat16
  bool add = false;
  bool finish = false;  // bias and relu
};
constexpr Form kForms[] = {{},
                           {.by_steps = true, .add = true},
                           {.bf16 = true},
                           {.transposed = true, .bf16 = true, .add = true},
                           {.bf16 = true, .finish = true},
                           {.bf16 = true, .add = true, .finish = true},
                           {.add = true, .finish = true}};

// y as floats.
struct Result {
  std::vector<float> y;
  std::vector<uint16_t> bf16;
  explicit Result(const Operands& o) : y(o.start) {
    for (float v : y) bf16.push_back(bfloat16_of_float(v));
  }
  double at(const Form& form, size_t i) const {
    return form.bf16 ? float_of_bfloat16(bf16[i]) : y[i];
  }
};

PairedProduct product_of(const Operands& o, const Form& form, Result& result) {
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
          .y = form.bf16 ? nullptr : result.y.data(),
          .bf16_y = form.bf16 ? result.bf16.data() : nullptr,
          .y_row = o.y_row(),
          .bf16 = form.bf16,
          .add = form.add,
          .bias = form.finish ? o.bias.data() : nullptr,
          .relu = form.finish};
}

class PairedProducts : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::string isa = read_cpu_info().isa;
    const bool tiles = GetParam();
    if (tiles && !has_tiles(isa)) GTEST_SKIP() << "this processor has no tiles of bfloat16";
    multiply_ = pick_paired_multiply({isa_of(isa), 1, has_pairs(isa), tiles});
    if (multiply_ == nullptr) GTEST_SKIP() << "this processor multiplies no pairs of bfloat16";
  }

  void multiply(const PairedProduct& product) const {
    constexpr size_t kGuard = 64;
    constexpr auto kMark = std::byte{0xAB};
    const auto bytes = static_cast<size_t>(multiply_->bytes(product));
    std::vector<std::byte> scratch(bytes + kGuard, kMark);
    multiply_->run(product, scratch.data());
    for (size_t i = bytes; i < scratch.size(); ++i) EXPECT_EQ(scratch[i], kMark) << i;
  }

  const PairedMultiply* multiply_ = nullptr;
};

double exact(const Operands& o, const Form& form, int64_t r, int64_t c) {
  const Size& s = o.size;
  double sum = form.add ? o.start[static_cast<size_t>(r * o.y_row() + c)] : 0.0;
  for (int64_t k = 0; k < s.inner; ++k) {
    const int64_t x = form.by_steps ? k * s.rows + r : r * s.inner + k;
    const int64_t w = form.transposed ? c * s.inner + k : k * s.columns + c;
    sum += static_cast<double>(float_of_bfloat16(o.x[static_cast<size_t>(x)])) *
           float_of_bfloat16(o.w[static_cast<size_t>(w)]);
  }
  if (form.finish) sum = std::max(sum + o.bias[static_cast<size_t>(c)], 0.0);
  return sum;
}

TEST_P(PairedProducts, AreTheSums) {
  for (const Size& size : kSizes) {
    const Operands operands(size);
    for (const Form& form : kForms) {
      Result result(operands);
      multiply(product_of(operands, form, result));
      const double bound = 8e-6 * std::sqrt(static_cast<double>(size.inner)) + 1e-6;
      for (int64_t r = 0; r < size.rows; ++r) {
        for (int64_t c = 0; c < operands.y_row(); ++c) {
          const auto at = static_cast<size_t>(r * operands.y_row() + c);
          const bool between = c >= size.columns;
          const double expected = between ? operands.start[at] : exact(operands, form, r, c);
          const double rounding = form.bf16 ? std::abs(expected) / 256 : 0;
          ASSERT_NEAR(result.at(form, at), expected, between ? 0 : bound + rounding)
              << size.rows << " " << size.inner << " " << size.columns << " at " << r << " " << c;
        }
      }
    }
  }
}

TEST_P(PairedProducts, RowsAndColumnsAroundChangeNoBit) {
  for (const Size& size : {Size{23, 1100, 75}, Size{21, 301, 275}, Size{18, 8200, 70}}) {
    const Operands operands(size);
    for (const Form& form : kForms) {
      Result whole(operands);
      multiply(product_of(operands, form, whole));
      Result parts(operands);
      for (int64_t row : {0, 5, 16}) {
        for (int64_t column : {0, 16, 64}) {
          PairedProduct p = product_of(operands, form, parts);
          p.rows = (row == 0 ? 5 : row == 5 ? 16 : size.rows) - row;
          p.columns = (column == 0 ? 16 : column == 16 ? 64 : size.columns) - column;
          p.x += row * p.x_row;
          p.w += column * (form.transposed ? p.w_row : 1);
          if (p.bf16) {
            p.bf16_y += row * p.y_row + column;
          } else {
            p.y += row * p.y_row + column;
          }
          if (p.bias != nullptr) p.bias += column;
          multiply(p);
        }
      }
      EXPECT_EQ(std::memcmp(whole.y.data(), parts.y.data(), whole.y.size() * sizeof(float)), 0);
      EXPECT_EQ(whole.bf16, parts.bf16);
    }
  }
}

TEST_P(PairedProducts, NotANumberStays) {
  Operands operands({4, 301, 20});
  operands.x[7] = bfloat16_of_float(NAN);
  for (bool bf16 : {false, true}) {
    const Form form{.bf16 = bf16, .finish = true};
    Result result(operands);
    multiply(product_of(operands, form, result));
    for (size_t i = 0; i < result.y.size(); ++i) {
      EXPECT_EQ(std::isnan(result.at(form, i)), i < 20) << i;
    }
  }
}

// In vectors, and in tiles.
INSTANTIATE_TEST_SUITE_P(Loops, PairedProducts, testing::Bool(),
                         [](const auto& info) { return info.param ? "tiles" : "vectors"; });

}  // namespace
}  // namespace plimsoll::backend::cpu
