// Images resized, flipped, cropped and warped.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "backend/reference/image/image_changes.h"
#include "backend/reference/image_loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// Rows (or columns) of an image that is given another size: where output `at` lies in the input.
// In float32, whatever the numbers are, as TensorFlow computes it.
class Sizes {
 public:
  Sizes(int64_t input, int64_t output)
      : input_(input), scale_(static_cast<float>(input) / static_cast<float>(output)) {}

  int64_t nearest(int64_t at) const {
    const float position = (static_cast<float>(at) + 0.5F) * scale_;
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(position)), 0, input_ - 1);
  }

  // (1 − share) of `low` and `share` of `high`.
  struct Between {
    int64_t low = 0;
    int64_t high = 0;
    float share = 0;
  };
  Between between(int64_t at) const {
    const float position = (static_cast<float>(at) + 0.5F) * scale_ - 0.5F;
    const float below = std::floor(position);
    const int64_t high = std::min(static_cast<int64_t>(std::ceil(position)), input_ - 1);
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(below), 0);
    return {std::min(low, high), high, position - below};
  }

 private:
  int64_t input_;
  float scale_;
};

template <typename T>
void resize_pixel(const Operand& x, int64_t n, const Sizes::Between& row,
                  const Sizes::Between& column, int64_t channels, T* y) {
  const T* a = pixel<const T>(x, n, row.low, column.low);
  const T* b = pixel<const T>(x, n, row.low, column.high);
  const T* c = pixel<const T>(x, n, row.high, column.low);
  const T* d = pixel<const T>(x, n, row.high, column.high);
  const T across = column.share;
  const T down = row.share;
  for (int64_t k = 0; k < channels; ++k) {
    const T top = a[k] + (b[k] - a[k]) * across;
    const T bottom = c[k] + (d[k] - c[k]) * across;
    y[k] = top + (bottom - top) * down;
  }
}

ImageLoop make_resize(const NodeProblem& problem) {
  const bool bilinear = problem.attributes.get_string("interpolation", "bilinear") == "bilinear";
  const Shape& from = problem.inputs[0].shape;
  const Shape& to = problem.outputs[0].shape;
  const Sizes rows(from[1].count, to[1].count);
  const Sizes columns(from[2].count, to[2].count);
  const int64_t height = to[1].count;
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t channels = y.dims[3];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const int64_t i = unit % height;
        for (int64_t j = 0; j < y.dims[2]; ++j) {
          T* to_pixel = pixel<T>(y, n, i, j);
          if (bilinear) {
            resize_pixel(x, n, rows.between(i), columns.between(j), channels, to_pixel);
          } else {
            std::copy_n(pixel<T>(x, n, rows.nearest(i), columns.nearest(j)), channels, to_pixel);
          }
        }
      }
    };
    return ImageLoop{run, height};
  });
}

// Adds a share of one pixel's gradient to another's.
template <typename T>
void add_share(const Operand& dx, int64_t n, int64_t row, int64_t column, const T* dy, T share) {
  if (share == 0) return;
  T* to = pixel<T>(dx, n, row, column);
  for (int64_t k = 0; k < dx.dims[3]; ++k) to[k] += dy[k] * share;
}

// Several outputs are made of one input: a unit is a sample.
ImageLoop make_resize_grad(const NodeProblem& problem) {
  const bool bilinear = problem.attributes.get_string("interpolation", "bilinear") == "bilinear";
  const Shape& small = problem.outputs[0].shape;
  const Shape& large = problem.inputs[0].shape;
  const Sizes rows(small[1].count, large[1].count);
  const Sizes columns(small[2].count, large[2].count);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const Operand& dy = call.inputs[0];
      const Operand& dx = call.outputs[0];
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t i = 0; i < dx.dims[1]; ++i) {
          for (int64_t j = 0; j < dx.dims[2]; ++j) {
            std::fill_n(pixel<T>(dx, n, i, j), dx.dims[3], T(0));
          }
        }
        for (int64_t i = 0; i < dy.dims[1]; ++i) {
          for (int64_t j = 0; j < dy.dims[2]; ++j) {
            const T* from = pixel<const T>(dy, n, i, j);
            if (!bilinear) {
              add_share(dx, n, rows.nearest(i), columns.nearest(j), from, T(1));
              continue;
            }
            const Sizes::Between r = rows.between(i);
            const Sizes::Between c = columns.between(j);
            const T down = r.share;
            const T across = c.share;
            add_share(dx, n, r.low, c.low, from, (1 - down) * (1 - across));
            add_share(dx, n, r.low, c.high, from, (1 - down) * across);
            add_share(dx, n, r.high, c.low, from, down * (1 - across));
            add_share(dx, n, r.high, c.high, from, down * across);
          }
        }
      }
    };
    return ImageLoop{run, 1};
  });
}

ImageLoop make_flip(const NodeProblem& problem) {
  const bool horizontal = problem.attributes.get_bool("horizontal");
  const bool vertical = problem.attributes.get_bool("vertical");
  const int64_t height = problem.outputs[0].shape[1].count;
  const DrawSource source(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t width = y.dims[2];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const int64_t i = unit % height;
        const bool flips = drawn.draws.of_row(drawn.first_row + n, 0) <= 0.5F;
        const int64_t row = flips && vertical ? height - 1 - i : i;
        for (int64_t j = 0; j < width; ++j) {
          const int64_t column = flips && horizontal ? width - 1 - j : j;
          std::copy_n(pixel<T>(x, n, row, column), y.dims[3], pixel<T>(y, n, i, j));
        }
      }
    };
    return ImageLoop{run, height};
  });
}

// The corner of a crop, of as many as there are; as Keras draws it, over float32.
int64_t corner(float draw, int64_t large, int64_t small) {
  const int64_t most = large - small;
  const auto at = static_cast<int64_t>(draw * static_cast<float>(most + 1));
  return std::min(at, most);
}

template <bool kGrad>
ImageLoop make_crop(const NodeProblem& problem) {
  const Shape& from = problem.inputs[0].shape;
  const Shape& to = problem.outputs[0].shape;
  const Shape& large = kGrad ? to : from;
  const Shape& small = kGrad ? from : to;
  const int64_t height = to[1].count;
  const int64_t large_height = large[1].count;
  const int64_t large_width = large[2].count;
  const int64_t small_height = small[1].count;
  const int64_t small_width = small[2].count;
  const DrawSource source(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const int64_t top = corner(drawn.draws.of_batch(0), large_height, small_height);
      const int64_t left = corner(drawn.draws.of_batch(1), large_width, small_width);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const int64_t i = unit % height;
        const int64_t row = kGrad ? i - top : i + top;
        for (int64_t j = 0; j < y.dims[2]; ++j) {
          const int64_t column = kGrad ? j - left : j + left;
          T* to_pixel = pixel<T>(y, n, i, j);
          if (row < 0 || row >= x.dims[1] || column < 0 || column >= x.dims[2]) {
            std::fill_n(to_pixel, y.dims[3], T(0));
          } else {
            std::copy_n(pixel<T>(x, n, row, column), y.dims[3], to_pixel);
          }
        }
      }
    };
    return ImageLoop{run, height};
  });
}

// Where an output pixel (column, row) lies in the input: (a0 · column + a1 · row + a2, b0 · …),
// both over c0 · column + c1 · row + 1.
struct Warp {
  float a0 = 1;
  float a1 = 0;
  float a2 = 0;
  float b0 = 0;
  float b1 = 1;
  float b2 = 0;
  float c0 = 0;
  float c1 = 0;
};

struct Point {
  double x = 0;
  double y = 0;
};

// The warp that takes each of four points `to` where the one of `from` is: eight equations,
// eliminated with pivots of the largest magnitude.
Warp perspective_of(const std::array<Point, 4>& from, const std::array<Point, 4>& to) {
  constexpr size_t kUnknown = 8;
  std::array<std::array<double, kUnknown + 1>, kUnknown> rows;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto& [x, y] = from[i];
    const auto& [u, v] = to[i];
    rows[2 * i] = {u, v, 1, 0, 0, 0, -x * u, -x * v, x};
    rows[2 * i + 1] = {0, 0, 0, u, v, 1, -y * u, -y * v, y};
  }
  for (size_t k = 0; k < kUnknown; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < kUnknown; ++i) {
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    }
    std::swap(rows[k], rows[pivot]);
    for (size_t i = 0; i < kUnknown; ++i) {
      const double factor = i == k ? 0.0 : rows[i][k] / rows[k][k];
      for (size_t j = k; factor != 0 && j <= kUnknown; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  const auto solution = [&](size_t k) {
    return static_cast<float>(rows[k][kUnknown] / rows[k][k]);
  };
  return {solution(0), solution(1), solution(2), solution(3),
          solution(4), solution(5), solution(6), solution(7)};
}

enum class Motion : uint8_t { kRotation, kZoom, kTranslation, kShear, kPerspective };

// What a warp is drawn from, and the numbers of Keras's layers made of it, in float32 like theirs.
class Motions {
 public:
  explicit Motions(const NodeProblem& problem)
      : motion_(motion_of(problem.attributes.get_string("motion"))),
        joined_(problem.attributes.get_bool("joined")),
        height_lower_(problem.attributes.get_double("height_lower")),
        height_upper_(problem.attributes.get_double("height_upper")),
        width_lower_(problem.attributes.get_double("width_lower")),
        width_upper_(problem.attributes.get_double("width_upper")),
        height_(static_cast<float>(problem.inputs[0].shape[1].count)),
        width_(static_cast<float>(problem.inputs[0].shape[2].count)) {}

  Warp of(const ops::ImageDraws& draws, int64_t row) const {
    const float first = draws.of_row(row, 0);
    const float second = joined_ ? first : draws.of_row(row, 1);
    switch (motion_) {
      case Motion::kRotation:
        return rotation(first);
      case Motion::kZoom:
        return zoom(first, second);
      case Motion::kTranslation: {
        const float down = ops::between(height_lower_, height_upper_, first) * height_;
        const float across = ops::between(width_lower_, width_upper_, second) * width_;
        return {.a2 = -across, .b2 = -down};
      }
      case Motion::kShear: {
        const float sign = draws.of_row(row, 2) > 0.5F ? -1.0F : 1.0F;
        return {.a1 = ops::between(width_lower_, width_upper_, second) * sign,
                .b0 = ops::between(height_lower_, height_upper_, first) * sign};
      }
      case Motion::kPerspective:
        return second < ops::between(height_lower_, height_upper_, first) ? perspective(draws, row)
                                                                          : Warp{};
    }
    return {};
  }

 private:
  static Motion motion_of(std::string_view name) {
    if (name == "rotation") return Motion::kRotation;
    if (name == "zoom") return Motion::kZoom;
    if (name == "perspective") return Motion::kPerspective;
    return name == "translation" ? Motion::kTranslation : Motion::kShear;
  }

  // Around the image's middle, by degrees.
  Warp rotation(float draw) const {
    constexpr auto kRadians = static_cast<float>(std::numbers::pi / 180.0);
    const float angle = ops::between(height_lower_ * 360.0, height_upper_ * 360.0, draw) * kRadians;
    const float x = 0.5F * (width_ - 1);
    const float y = 0.5F * (height_ - 1);
    const float cosine = std::cos(angle);
    const float sine = std::sin(angle);
    return {.a0 = cosine,
            .a1 = -sine,
            .a2 = x - x * cosine + y * sine,
            .b0 = sine,
            .b1 = cosine,
            .b2 = y - x * sine - y * cosine};
  }

  Warp zoom(float first, float second) const {
    const float down = ops::between(1 + height_lower_, 1 + height_upper_, first);
    const float across = joined_ ? down : ops::between(1 + width_lower_, 1 + width_upper_, second);
    return {.a0 = across,
            .a2 = (width_ - 1) / 2 * (1 - across),
            .b1 = down,
            .b2 = (height_ - 1) / 2 * (1 - down)};
  }

  // Each corner's coordinates grow or shrink by a share of their own; the first corner's are 0.
  Warp perspective(const ops::ImageDraws& draws, int64_t row) const {
    const double right = width_ - 1;
    const double bottom = height_ - 1;
    const std::array<Point, 4> from = {{{0, 0}, {right, 0}, {0, bottom}, {right, bottom}}};
    std::array<Point, 4> to = from;
    const auto grown = [&](double at, int k) {
      return at + at * ops::between(width_lower_, width_upper_, draws.of_row(row, k));
    };
    to[1].x = grown(right, 2);
    to[2].y = grown(bottom, 3);
    to[3] = {grown(right, 4), grown(bottom, 5)};
    return perspective_of(from, to);
  }

  Motion motion_;
  bool joined_;
  double height_lower_;
  double height_upper_;
  double width_lower_;
  double width_upper_;
  float height_;
  float width_;
};

enum class FillMode : uint8_t { kConstant, kNearest, kReflect, kWrap };

FillMode fill_mode_of(std::string_view name) {
  if (name == "nearest") return FillMode::kNearest;
  if (name == "reflect") return FillMode::kReflect;
  return name == "wrap" ? FillMode::kWrap : FillMode::kConstant;
}

// Whole multiples of `size` in `distance` (0 or more); no image is so far away that it matters.
float times(float distance, float size) { return std::floor(std::min(distance / size, 1e9F)); }

// A position outside of `count` pixels as one inside, as TensorFlow's ImageProjectiveTransform has
// it: d c b a | a b c d | d c b a, and a b c d | a b c d | a b c d.
float fold_position(float at, int64_t count, FillMode mode) {
  if (mode == FillMode::kConstant) return at;
  const auto size = static_cast<float>(count);
  const float last = size - 1;
  if (mode == FillMode::kReflect && count > 1) {
    const float period = 2 * size;
    if (at < 0) {
      at = period * times(-at, period) + at;
      at = at < -size ? at + period : -at - 1;
    } else if (at > last) {
      at -= period * times(at, period);
      if (at >= size) at = period - at - 1;
    }
  } else if (mode == FillMode::kWrap && count > 1) {
    if (at < 0) {
      at += size * (times(-at, last) + 1);
    } else if (at > last) {
      at -= size * times(at, last);
    }
  }
  return std::clamp(at, 0.0F, last);
}

// One image of a call, read at positions that may lie outside.
template <typename T>
class Picture {
 public:
  Picture(const Operand& image, int64_t n, T fill) : image_(image), n_(n), fill_(fill) {}

  // nullptr: outside.
  const T* at(float row, float column) const {
    const bool inside = row >= 0 && row < static_cast<float>(image_.dims[1]) && column >= 0 &&
                        column < static_cast<float>(image_.dims[2]);
    if (!inside) return nullptr;
    return pixel<const T>(image_, n_, static_cast<int64_t>(row), static_cast<int64_t>(column));
  }

  void take_nearest(float row, float column, T* y) const {
    const T* from = at(std::round(row), std::round(column));
    for (int64_t k = 0; k < image_.dims[3]; ++k) y[k] = from == nullptr ? fill_ : from[k];
  }

  void take_between(float row, float column, T* y) const {
    const float top = std::floor(row);
    const float left = std::floor(column);
    const T* a = at(top, left);
    const T* b = at(top, left + 1);
    const T* c = at(top + 1, left);
    const T* d = at(top + 1, left + 1);
    const T right_share = column - left;
    const T left_share = left + 1 - column;
    const T lower_share = row - top;
    const T upper_share = top + 1 - row;
    const auto blend = [&](T p, T q, T r, T s) {
      return upper_share * (left_share * p + right_share * q) +
             lower_share * (left_share * r + right_share * s);
    };
    const int64_t channels = image_.dims[3];
    if (a != nullptr && b != nullptr && c != nullptr && d != nullptr) {
      for (int64_t k = 0; k < channels; ++k) y[k] = blend(a[k], b[k], c[k], d[k]);
      return;
    }
    for (int64_t k = 0; k < channels; ++k) {
      const auto value = [&](const T* p) { return p == nullptr ? fill_ : p[k]; };
      y[k] = blend(value(a), value(b), value(c), value(d));
    }
  }

 private:
  const Operand& image_;
  int64_t n_;
  T fill_;
};

ImageLoop make_warp(const NodeProblem& problem) {
  const bool bilinear = problem.attributes.get_string("interpolation", "bilinear") == "bilinear";
  const FillMode mode = fill_mode_of(problem.attributes.get_string("fill_mode", "reflect"));
  const double fill = problem.attributes.get_double("fill_value");
  const int64_t height = problem.outputs[0].shape[1].count;
  const DrawSource source(problem);
  const Motions motions(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const auto i = static_cast<float>(unit % height);
        const Warp warp = motions.of(drawn.draws, drawn.first_row + n);
        const Picture<T> picture(x, n, static_cast<T>(fill));
        for (int64_t j = 0; j < y.dims[2]; ++j) {
          const auto across = static_cast<float>(j);
          const float depth = warp.c0 * across + warp.c1 * i + 1;
          const float column =
              fold_position((warp.a0 * across + warp.a1 * i + warp.a2) / depth, x.dims[2], mode);
          const float row =
              fold_position((warp.b0 * across + warp.b1 * i + warp.b2) / depth, x.dims[1], mode);
          T* to = pixel<T>(y, n, unit % height, j);
          bilinear ? picture.take_between(row, column, to) : picture.take_nearest(row, column, to);
        }
      }
    };
    return ImageLoop{run, height};
  });
}

constexpr ImageLoopEntry kEntries[] = {
    {"image_crop", make_crop<false>}, {"image_crop_grad", make_crop<true>},
    {"image_flip", make_flip},        {"image_warp", make_warp},
    {"resize2d", make_resize},        {"resize2d_grad", make_resize_grad},
};

std::unique_ptr<Kernel> make_image(const Problem& problem) {
  const ImageLoop loop = image_loop(problem.node.op->name(), problem);
  return kernel_of([loop](const KernelCall& call) { loop.run(call, 0, loop.units(call)); });
}

constexpr KernelEntry kKernels[] = {
    {"auto_contrast", make_image},  {"clip_range", make_image},
    {"equalize_tiles", make_image}, {"clip_range_grad", make_image},
    {"image_color", make_image},    {"image_contrast", make_image},
    {"image_crop", make_image},     {"image_crop_grad", make_image},
    {"image_erase", make_image},    {"image_filter", make_image},
    {"image_flip", make_image},     {"image_warp", make_image},
    {"resize2d", make_image},       {"resize2d_grad", make_image},
};

}  // namespace

std::span<const ImageLoopEntry> image_move_loops() { return kEntries; }

ImageLoop image_loop(std::string_view op, const NodeProblem& problem) {
  for (const std::span<const ImageLoopEntry> family : {image_move_loops(), image_color_loops()}) {
    for (const ImageLoopEntry& entry : family) {
      if (entry.op == op) return entry.make(problem);
    }
  }
  return {};
}

DrawSource::DrawSource(const NodeProblem& problem)
    : site_(problem.attributes.get_int("site")),
      batch_axis_(graph::find_axis(problem.axes, graph::kBatchAxis)),
      rows_per_sample_(problem.inputs[0].shape[0].count) {}

CallDraws DrawSource::of(const KernelCall& call) const {
  return {ops::ImageDraws(call.step->seed, call.step->step, site_),
          call.first_sample(batch_axis_) * rows_per_sample_};
}

std::span<const KernelEntry> image_kernels() { return kKernels; }

}  // namespace plimsoll::backend::reference
