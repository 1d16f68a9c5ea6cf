// Images made larger, and the sums that lead back.

#include <algorithm>
#include <array>

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

// The sources of the rows (or columns) of an image that is made `size` times as large. They are
// worked out as they are needed: a table of them would be as long as the axis.
class Sources {
 public:
  Sources(int64_t input, int64_t size, bool bilinear)
      : input_(input), size_(size), bilinear_(bilinear) {}

  int64_t count() const { return input_ * size_; }

  // Calls body(position, source) for each of them, in order.
  template <typename Body>
  void for_each(Body body) const {
    for (int64_t at = 0, i = 0; i < input_; ++i) {
      for (int64_t end = at + size_; at < end; ++at) {
        body(at, bilinear_ ? between(at) : Source{i, i, 0.0});
      }
    }
  }

 private:
  // `at` lies at (at + ½) / size − ½ of the input, which is −½ or more.
  Source between(int64_t at) const {
    const double position = (static_cast<double>(at) + 0.5) / static_cast<double>(size_) - 0.5;
    const int64_t low = position < 0 ? -1 : static_cast<int64_t>(position);
    const double share = position - static_cast<double>(low);
    const int64_t high = share > 0 ? low + 1 : low;
    return {std::max<int64_t>(low, 0), std::min(high, input_ - 1), share};
  }

  int64_t input_;
  int64_t size_;
  bool bilinear_;
};

// Calls body(sample, row, column, source of the row, source of the column) for each large pixel.
// Columns of usual images are worked out once a call, on the stack.
template <typename Body>
void for_each_large(int64_t samples, const Sources& rows, const Sources& columns, Body body) {
  constexpr size_t kUsual = 1024;
  std::array<Source, kUsual> known;
  const auto width = static_cast<size_t>(columns.count());
  const bool usual = width <= kUsual;
  if (usual) {
    columns.for_each(
        [&](int64_t j, const Source& column) { known[static_cast<size_t>(j)] = column; });
  }
  for (int64_t n = 0; n < samples; ++n) {
    rows.for_each([&](int64_t i, const Source& row) {
      if (usual) {
        for (size_t j = 0; j < width; ++j) body(n, i, static_cast<int64_t>(j), row, known[j]);
      } else {
        columns.for_each([&](int64_t j, const Source& column) { body(n, i, j, row, column); });
      }
    });
  }
}

std::unique_ptr<Kernel> make_upsample2d(const Problem& problem) {
  const std::vector<int64_t>& size = problem.attributes.get_ints("size");
  const bool bilinear = problem.attributes.get_string("interpolation", "nearest") == "bilinear";
  const Shape& x = problem.inputs[0].shape;
  const Sources rows(x[1].count, size[0], bilinear);
  const Sources columns(x[2].count, size[1], bilinear);
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
  const Sources rows(dx_shape[1].count, size[0], bilinear);
  const Sources columns(dx_shape[2].count, size[1], bilinear);
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
