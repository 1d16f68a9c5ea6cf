#include "backend/onednn/convolution_tables.h"

#include <algorithm>
#include <string_view>

namespace plimsoll::backend::onednn {
namespace {

// Bytes a column, over rows of 2,000 to 34,000 columns of some 500 shapes with AVX2 and AVX-512:
// the description's table, and those of kernels, tile palettes and last steps that the primitive
// adds.
constexpr Bytes kDescribedColumn{64};
constexpr Bytes kAddedColumn{160};
// The bytes of code that only stores (at most 37 were met), and, for each vector of filters, of
// code that adds a bias, takes a maximum or rounds (135 and 180).
constexpr Bytes kStoringColumn{45};
constexpr Bytes kVectorColumn{156};
constexpr Bytes kHalfVectorColumn{208};
constexpr int64_t kVector = 16;  // of float32 with AVX-512

bool has_tables(std::string_view implementation) {
  return implementation.find("brgconv") != std::string_view::npos &&
         implementation.find("brgconv_1x1") == std::string_view::npos;
}

// What a primitive over volumes takes whose factors are bfloat16, and what each position of its
// kernel adds. With tiles 34 of them with 27 positions took 9 MiB more than those of float32, and 6
// with 125 positions 6 MiB more.
constexpr Bytes kVolumeCode = 320_KiB;
constexpr Bytes kVolumeCodeOfTap{4608};

}  // namespace

Bytes code_bytes(const Convolution& c) {
  if (c.geometry.window.rank() < 3 || !c.bf16) return {};
  return kVolumeCode + kVolumeCodeOfTap * c.geometry.window.taps();
}

Bytes most_described(const Convolution& c) {
  const ops::Window& columns = c.geometry.columns();
  if (c.kind == ConvolutionKind::kForward && c.geometry.window.rank() < 3) {
    return kDescribedColumn * columns.output;
  }
  return Compiled::kMostOfColumn * columns.input;
}

Bytes table_bytes(const Convolution& c, const Compiled& compiled, bool wide_vectors) {
  if (!has_tables(compiled.implementation)) return {};
  const ops::Window& columns = c.geometry.columns();
  const bool forward = c.kind == ConvolutionKind::kForward;
  const int64_t most = forward ? columns.output : columns.input;
  const int64_t at_once = std::min(
      most, (compiled.tables.count() + kDescribedColumn.count() - 1) / kDescribedColumn.count());
  Bytes code = kStoringColumn;
  if (c.bias || c.relu || c.bf16) {
    const int64_t vector = wide_vectors ? kVector : kVector / 2;
    const int64_t numbers = forward ? c.geometry.filters : c.geometry.channels;
    // The library takes up to 64 numbers at once, and makes code for those and for the rest.
    constexpr int64_t kNumbersAtOnce = 64;
    const int64_t made = std::min(numbers, kNumbersAtOnce + numbers % kNumbersAtOnce);
    code = max(code,
               (wide_vectors ? kVectorColumn : kHalfVectorColumn) * ((made + vector - 1) / vector));
  }
  return compiled.tables + (kAddedColumn + code) * at_once;
}

}  // namespace plimsoll::backend::onednn
