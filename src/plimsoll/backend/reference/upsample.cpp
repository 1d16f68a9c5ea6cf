// Images made larger, and the sums that lead back.

#include <algorithm>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// What one output row (or column) is made of: (1 − share) of `low` and `share` of `high`.
struct Source {
  int64_t low = 0;
  int64_t high = 0;
  double share = 0;
};

std::vector<Source> sources(int64_t input, int64_t size, bool bilinear) {
  std::vector<Source> result;
  for (int64_t i = 0; i < input * size; ++i) {
    if (!bilinear) {
      result.push_back({i / size, i / size, 0.0});
      continue;
    }
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(size) - 0.5;
    const double below = std::floor(at);
    const auto low = static_cast<int64_t>(below);
    const auto high = static_cast<int64_t>(std::ceil(at));
    result.push_back({std::max<int64_t>(low, 0), std::min(high, input - 1), at - below});
  }
  return result;
}

// Calls body(sample, row, column, source of the row, source of the column) for each large pixel.
template <typename Body>
void for_each_large(int64_t samples, const std::vector<Source>& rows,
                    const std::vector<Source>& columns, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        body(n, static_cast<int64_t>(i), static_cast<int64_t>(j), rows[i], columns[j]);
      }
    }
  }
}

std::unique_ptr<Kernel> make_upsample2d(const Problem& problem) {
  const std::vector<int64_t>& size = problem.attributes.get_ints("size");
  const bool bilinear = problem.attributes.get_string("interpolation", "nearest") == "bilinear";
  const Shape& x = problem.inputs[0].shape;
  const std::vector<Source> rows = sources(x[1].count, size[0], bilinear);
  const std::vector<Source> columns = sources(x[2].count, size[1], bilinear);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([rows, columns, bilinear](const KernelCall& call) {
      const Operand& in = call.inputs[0];
      const int64_t channels = in.dims[3];
      for_each_large(in.dims[0], rows, columns,
                     [&](int64_t n, int64_t i, int64_t j, const Source& r, const Source& c) {
                       T* y = pixel<T>(call.outputs[0], n, i, j);
                       const T* a = pixel<T>(in, n, r.low, c.low);
                       if (!bilinear) {
                         std::copy(a, a + channels, y);
                         return;
                       }
                       const T* b = pixel<T>(in, n, r.low, c.high);
                       const T* d = pixel<T>(in, n, r.high, c.low);
                       const T* e = pixel<T>(in, n, r.high, c.high);
                       const T across = static_cast<T>(c.share);
                       const T down = static_cast<T>(r.share);
                       for (int64_t k = 0; k < channels; ++k) {
                         const T top = a[k] + (b[k] - a[k]) * across;
                         const T bottom = d[k] + (e[k] - d[k]) * across;
                         y[k] = top + (bottom - top) * down;
                       }
                     });
    });
  });
}

std::unique_ptr<Kernel> make_upsample2d_grad(const Problem& problem) {
  const std::vector<int64_t>& size = problem.attributes.get_ints("size");
  const bool bilinear = problem.attributes.get_string("interpolation", "nearest") == "bilinear";
  const Shape& dx_shape = problem.outputs[0].shape;
  const std::vector<Source> rows = sources(dx_shape[1].count, size[0], bilinear);
  const std::vector<Source> columns = sources(dx_shape[2].count, size[1], bilinear);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([rows, columns](const KernelCall& call) {
      const Operand& dx = call.outputs[0];
      const int64_t channels = dx.dims[3];
      for_each_run<1>(dx.dims, {dx.strides}, [&](const auto& at, int64_t, int64_t count) {
        std::fill_n(data_of<T>(dx) + at[0], count, T(0));
      });
      for_each_large(dx.dims[0], rows, columns,
                     [&](int64_t n, int64_t i, int64_t j, const Source& r, const Source& c) {
                       const T* dy = pixel<T>(call.inputs[0], n, i, j);
                       const auto add = [&](int64_t row, int64_t column, double share) {
                         if (share == 0) return;
                         T* to = pixel<T>(dx, n, row, column);
                         const T part = static_cast<T>(share);
                         for (int64_t k = 0; k < channels; ++k) to[k] += dy[k] * part;
                       };
                       add(r.low, c.low, (1 - r.share) * (1 - c.share));
                       add(r.low, c.high, (1 - r.share) * c.share);
                       add(r.high, c.low, r.share * (1 - c.share));
                       add(r.high, c.high, r.share * c.share);
                     });
    });
  });
}

constexpr KernelEntry kEntries[] = {{"upsample2d", make_upsample2d},
                                    {"upsample2d_grad", make_upsample2d_grad}};

}  // namespace

std::span<const KernelEntry> upsample_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
