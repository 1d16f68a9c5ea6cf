// Images recoloured, filtered and erased.

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/reference/image/image_changes.h"
#include "backend/reference/image_loops.h"

namespace plimsoll::backend::reference {
namespace {

// The bounds of draws and of values that nodes have in common.
struct Bounds {
  double lower = 0;
  double upper = 0;
  double second_lower = 0;
  double second_upper = 0;
  double low = 0;
  double high = 0;

  explicit Bounds(const NodeProblem& problem)
      : lower(problem.attributes.get_double("lower", 0)),
        upper(problem.attributes.get_double("upper", 0)),
        second_lower(problem.attributes.get_double("second_lower", 0)),
        second_upper(problem.attributes.get_double("second_upper", 0)),
        low(problem.attributes.get_double("value_low", 0)),
        high(problem.attributes.get_double("value_high", 0)) {}

  float draw(float u) const { return ops::between(lower, upper, u); }
  template <typename T>
  T clip(T x) const {
    return std::min(std::max(x, static_cast<T>(low)), static_cast<T>(high));
  }
  // [low, high] as [0, size] and back, as Keras rounds it.
  template <typename T>
  T spread(T x, T size) const {
    if (low == 0 && static_cast<T>(high) == size) return x;
    const T first = static_cast<T>(low);
    return (x - first) / (static_cast<T>(high) - first) * size;
  }
  template <typename T>
  T gather(T x, T size) const {
    if (low == 0 && static_cast<T>(high) == size) return x;
    const T first = static_cast<T>(low);
    return x / size * (static_cast<T>(high) - first) + first;
  }
};

template <typename T>
T gray_of(const T* rgb) {
  return rgb[0] * T(0.2989F) + rgb[1] * T(0.587F) + rgb[2] * T(0.114F);
}

template <typename T>
std::array<T, 3> hsv_of(const T* rgb) {
  const T red = rgb[0];
  const T green = rgb[1];
  const T blue = rgb[2];
  const T value = std::max({red, green, blue});
  const T range = value - std::min({red, green, blue});
  const T saturation = value > 0 ? range / value : T(0);
  if (!(range > 0)) return {T(0), saturation, value};
  const T share = T(1) / (T(6) * range);
  T hue = 0;
  if (red == value) {
    hue = share * (green - blue);
  } else if (green == value) {
    hue = share * (blue - red) + T(2) / T(6);
  } else {
    hue = share * (red - green) + T(4) / T(6);
  }
  return {hue < 0 ? hue + T(1) : hue, saturation, value};
}

template <typename T>
void put_hsv(const std::array<T, 3>& hsv, T* rgb) {
  const T at = hsv[0] * T(6);
  const auto clamp = [](T x) { return std::clamp(x, T(0), T(1)); };
  const std::array<T, 3> shares = {clamp(std::abs(at - T(3)) - T(1)),
                                   clamp(T(2) - std::abs(at - T(2))),
                                   clamp(T(2) - std::abs(at - T(4)))};
  for (size_t c = 0; c < 3; ++c) {
    rgb[c] = ((T(1) - hsv[1]) + hsv[1] * shares[c]) * hsv[2];
  }
}

// A change of each pixel by itself. prepare(draws, row) says what a sample is changed by;
// change(that, x, y, channels) changes a pixel.
template <typename T, typename Prepare, typename Change>
ImageLoop pixel_loop(const NodeProblem& problem, Prepare prepare, Change change) {
  const DrawSource source(problem);
  const int64_t height = problem.outputs[0].shape[1].count;
  const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
    const CallDraws drawn = source.of(call);
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / height;
      const auto by = prepare(drawn.draws, drawn.first_row + n);
      for (int64_t j = 0; j < y.dims[2]; ++j) {
        change(by, pixel<const T>(x, n, unit % height, j), pixel<T>(y, n, unit % height, j),
               y.dims[3]);
      }
    }
  };
  return {run, height};
}

// The same of each number by itself.
template <typename T, typename Prepare, typename Change>
ImageLoop number_loop(const NodeProblem& problem, Prepare prepare, Change change) {
  return pixel_loop<T>(problem, prepare, [=](const auto& by, const T* x, T* y, int64_t channels) {
    for (int64_t k = 0; k < channels; ++k) y[k] = change(by, x[k]);
  });
}

template <typename T>
ImageLoop brightness(const NodeProblem& problem, const Bounds& b) {
  return number_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        return b.draw(draws.of_row(row, 0)) * static_cast<float>(b.high - b.low);
      },
      [](float by, T x) { return x + static_cast<T>(by); });
}

template <typename T>
ImageLoop invert(const NodeProblem& problem, const Bounds& b) {
  return number_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        return draws.of_row(row, 1) < b.draw(draws.of_row(row, 0));
      },
      [=](bool inverts, T x) { return inverts ? static_cast<T>(b.high) - x : x; });
}

template <typename T>
ImageLoop posterize(const NodeProblem& problem, const Bounds& b) {
  return number_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        const auto bits = static_cast<int>(b.draw(draws.of_row(row, 0)));
        return 8 - std::clamp(bits, 0, 8);
      },
      [=](int dropped, T x) {
        // A number outside of the range has no eight bits: it is the nearest that has.
        const T spread = std::clamp(b.spread(x, T(255)), T(0), T(255));
        const auto bits = static_cast<uint32_t>(spread);
        return b.gather(static_cast<T>(bits >> dropped << dropped), T(255));
      });
}

template <typename T>
ImageLoop solarize(const NodeProblem& problem, const Bounds& b) {
  struct By {
    T addition;
    T threshold;
  };
  return number_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        return By{
            static_cast<T>(b.draw(draws.of_row(row, 0))),
            static_cast<T>(ops::between(b.second_lower, b.second_upper, draws.of_row(row, 1)))};
      },
      [=](const By& by, T x) {
        const T sum = std::clamp(b.spread(x, T(255)) + by.addition, T(0), T(255));
        return b.gather(sum < by.threshold ? sum : T(255) - sum, T(255));
      });
}

template <typename T>
ImageLoop degenerate(const NodeProblem& problem, const Bounds& b) {
  return pixel_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) { return b.draw(draws.of_row(row, 0)); },
      [=](float by, const T* x, T* y, int64_t) {
        const T gray = gray_of(x);
        for (int c = 0; c < 3; ++c) y[c] = b.clip(x[c] + static_cast<T>(by) * (gray - x[c]));
      });
}

template <typename T>
ImageLoop grayscale(const NodeProblem& problem, const Bounds& b) {
  return pixel_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        return draws.of_row(row, 0) < static_cast<float>(b.upper);
      },
      [](bool gray, const T* x, T* y, int64_t) {
        const std::array<T, 3> rgb = {x[0], x[1], x[2]};
        for (size_t c = 0; c < 3; ++c) y[c] = gray ? gray_of(rgb.data()) : rgb[c];
      });
}

template <typename T>
ImageLoop saturation(const NodeProblem& problem, const Bounds& b) {
  return pixel_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        const float factor = b.draw(draws.of_row(row, 0));
        return factor / (1.0F - factor + 1e-7F);
      },
      [=](float by, const T* x, T* y, int64_t) {
        std::array<T, 3> hsv = hsv_of(x);
        hsv[1] = b.clip(hsv[1] * static_cast<T>(by));
        put_hsv(hsv, y);
      });
}

template <typename T>
ImageLoop hue(const NodeProblem& problem, const Bounds& b) {
  return pixel_loop<T>(
      problem,
      [=](const ops::ImageDraws& draws, int64_t row) {
        const float sign = draws.of_row(row, 1) > 0.5F ? -1.0F : 1.0F;
        return sign * b.draw(draws.of_row(row, 0)) * 0.5F;
      },
      [=](float by, const T* x, T* y, int64_t) {
        std::array<T, 3> rgb;
        for (size_t c = 0; c < 3; ++c) rgb[c] = b.spread(x[c], T(1));
        std::array<T, 3> hsv = hsv_of(rgb.data());
        hsv[0] += static_cast<T>(by);
        if (hsv[0] > 1) hsv[0] -= 1;
        if (hsv[0] < 0) hsv[0] += 1;
        put_hsv(hsv, rgb.data());
        for (size_t c = 0; c < 3; ++c) y[c] = b.gather(std::clamp(rgb[c], T(0), T(1)), T(1));
      });
}

template <typename T>
ImageLoop color(const NodeProblem& problem) {
  struct Row {
    std::string_view kind;
    ImageLoop (*make)(const NodeProblem&, const Bounds&);
  };
  constexpr std::array kKinds = {
      Row{"brightness", brightness<T>}, Row{"degenerate", degenerate<T>},
      Row{"grayscale", grayscale<T>},   Row{"hue", hue<T>},
      Row{"invert", invert<T>},         Row{"posterize", posterize<T>},
      Row{"saturation", saturation<T>}, Row{"solarize", solarize<T>},
  };
  const std::string& kind = problem.attributes.get_string("kind");
  return std::ranges::find(kKinds, kind, &Row::kind)->make(problem, Bounds(problem));
}

ImageLoop make_color(const NodeProblem& problem) {
  return image_loop_of(problem, [&](auto zero) { return color<decltype(zero)>(problem); });
}

// Calls body(pixel of x, pixel of y) for the pixels of a sample, in order.
template <typename T, typename Body>
void for_each_pixel(const Operand& x, const Operand& y, int64_t n, Body body) {
  for (int64_t i = 0; i < y.dims[1]; ++i) {
    for (int64_t j = 0; j < y.dims[2]; ++j) body(pixel<const T>(x, n, i, j), pixel<T>(y, n, i, j));
  }
}

// A unit is a sample, which has to be read before it is written. Channels one by one: there are
// few.
ImageLoop make_contrast(const NodeProblem& problem) {
  const DrawSource source(problem);
  const Bounds b(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t n = begin; n < end; ++n) {
        const T factor = b.draw(drawn.draws.of_row(drawn.first_row + n, 0));
        for (int64_t k = 0; k < y.dims[3]; ++k) {
          double sum = 0;
          for_each_pixel<T>(x, y, n, [&](const T* in, T*) { sum += static_cast<double>(in[k]); });
          const T mean = static_cast<T>(sum / static_cast<double>(y.dims[1] * y.dims[2]));
          for_each_pixel<T>(x, y, n,
                            [&](const T* in, T* out) { out[k] = (in[k] - mean) * factor + mean; });
        }
      }
    };
    return ImageLoop{run, 1};
  });
}

ImageLoop make_auto_contrast(const NodeProblem& problem) {
  const Bounds b(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t k = 0; k < y.dims[3]; ++k) {
          T low = b.spread(pixel<const T>(x, n, 0, 0)[k], T(255));
          T high = low;
          for_each_pixel<T>(x, y, n, [&](const T* in, T*) {
            low = std::min(low, b.spread(in[k], T(255)));
            high = std::max(high, b.spread(in[k], T(255)));
          });
          const T scale = T(255) / (high - low);
          const T offset = -low * scale;
          for_each_pixel<T>(x, y, n, [&](const T* in, T* out) {
            const T stretched = std::clamp(b.spread(in[k], T(255)) * scale + offset, T(0), T(255));
            // A channel of one number stays what it is.
            out[k] = low == high ? in[k] : b.gather(stretched, T(255));
          });
        }
      }
    };
    return ImageLoop{run, 1};
  });
}

// The weights of a filter, row by row.
struct Window {
  static constexpr int64_t kMost = 63;
  int64_t height = 0;
  int64_t width = 0;
  std::array<float, kMost * kMost> weights;
};

void fill_gaussian(float deviation, int64_t size, std::array<float, Window::kMost>& weights) {
  float sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float at = (static_cast<float>(i) - static_cast<float>(size - 1) / 2) / deviation;
    weights[static_cast<size_t>(i)] = std::exp(-0.5F * at * at);
    sum += weights[static_cast<size_t>(i)];
  }
  for (int64_t i = 0; i < size; ++i) weights[static_cast<size_t>(i)] /= sum;
}

// Keras's: a product of (second size, first size) numbers, read as (first, second).
void fill_blur(float first, float second, Window& window) {
  std::array<float, Window::kMost> across;
  std::array<float, Window::kMost> down;
  fill_gaussian(first, window.height, across);
  fill_gaussian(second, window.width, down);
  for (int64_t at = 0; at < window.height * window.width; ++at) {
    window.weights[static_cast<size_t>(at)] = down[static_cast<size_t>(at / window.height)] *
                                              across[static_cast<size_t>(at % window.height)];
  }
}

void fill_mean(Window& window) {
  for (int64_t at = 0; at < window.height * window.width; ++at) {
    window.weights[static_cast<size_t>(at)] = (at == 4 ? 5.0F : 1.0F) / 13.0F;
  }
}

template <typename T>
T filtered(const Operand& x, const Window& window, int64_t n, int64_t row, int64_t column,
           int64_t channel) {
  T sum = 0;
  for (int64_t i = 0; i < window.height; ++i) {
    const int64_t r = row + i - window.height / 2;
    if (r < 0 || r >= x.dims[1]) continue;
    for (int64_t j = 0; j < window.width; ++j) {
      const int64_t c = column + j - window.width / 2;
      if (c < 0 || c >= x.dims[2]) continue;
      sum += pixel<const T>(x, n, r, c)[channel] *
             static_cast<T>(window.weights[static_cast<size_t>(i * window.width + j)]);
    }
  }
  return sum;
}

ImageLoop make_filter(const NodeProblem& problem) {
  const bool blurs = problem.attributes.get_string("kind") == "blur";
  const std::vector<int64_t> size =
      blurs ? problem.attributes.get_ints("size") : std::vector<int64_t>{3, 3};
  const Bounds b(problem);
  const DrawSource source(problem);
  const int64_t height = problem.outputs[0].shape[1].count;
  return image_loop_of(problem, [=, size = std::array{size[0], size[1]}](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const auto deviation = [&](int k) {
        return ops::between(b.second_lower, b.second_upper, drawn.draws.of_batch(k)) + 1e-6F;
      };
      Window window{size[0], size[1], {}};
      blurs ? fill_blur(deviation(0), deviation(1), window) : fill_mean(window);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const int64_t i = unit % height;
        const float u = b.draw(drawn.draws.of_row(drawn.first_row + n, 0));
        const bool applies = !blurs || drawn.draws.of_row(drawn.first_row + n, 1) < u;
        const T away = blurs ? T(1) : static_cast<T>(1.0F - u * 2);
        for (int64_t j = 0; j < y.dims[2]; ++j) {
          const T* in = pixel<const T>(x, n, i, j);
          for (int64_t k = 0; k < y.dims[3]; ++k) {
            T out = in[k];
            if (applies && blurs) out = filtered<T>(x, window, n, i, j, k);
            if (!blurs) out = in[k] + away * (filtered<T>(x, window, n, i, j, k) - in[k]);
            pixel<T>(y, n, i, j)[k] = b.clip(out);
          }
        }
      }
    };
    return ImageLoop{run, height};
  });
}

// From where to where an axis is erased.
struct Stretch {
  float begin = 0;
  float end = 0;
  bool holds(int64_t at) const {
    return static_cast<float>(at) >= begin && static_cast<float>(at) < end;
  }
};
Stretch stretch_of(float share, float place, int64_t extent) {
  const float length = std::sqrt(share) * static_cast<float>(extent);
  const float begin = place * (static_cast<float>(extent) - length);
  return {begin, begin + length};
}

ImageLoop make_erase(const NodeProblem& problem) {
  const graph::Attributes& options = problem.attributes;
  const double least = options.get_double("scale_lower");
  const double most = options.get_double("scale_upper");
  const bool filled = options.get_bool("filled");
  const std::array<double, 3> fill = {options.get_double("fill_0", 0),
                                      options.get_double("fill_1", 0),
                                      options.get_double("fill_2", 0)};
  const Bounds b(problem);
  const DrawSource source(problem);
  const int64_t height = problem.outputs[0].shape[1].count;
  const int64_t per_row =
      problem.outputs[0].shape.elements_per_sample() / problem.outputs[0].shape[0].count;
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const CallDraws drawn = source.of(call);
      const ops::ImageDraws& draws = drawn.draws;
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / height;
        const int64_t i = unit % height;
        const int64_t row = drawn.first_row + n;
        const bool erases = draws.of_row(row, 5) < b.draw(draws.of_row(row, 4));
        const Stretch columns = stretch_of(ops::between(least, most, draws.of_row(row, 0)),
                                           draws.of_row(row, 2), y.dims[2]);
        const Stretch rows = stretch_of(ops::between(least, most, draws.of_row(row, 1)),
                                        draws.of_row(row, 3), y.dims[1]);
        for (int64_t j = 0; j < y.dims[2]; ++j) {
          const T* in = pixel<const T>(x, n, i, j);
          T* out = pixel<T>(y, n, i, j);
          if (!erases || !rows.holds(i) || !columns.holds(j)) {
            std::copy_n(in, y.dims[3], out);
            continue;
          }
          for (int64_t k = 0; k < y.dims[3]; ++k) {
            const int64_t element = row * per_row + (i * y.dims[2] + j) * y.dims[3] + k;
            const T noise = static_cast<T>(draws.noise(element)) * static_cast<T>(b.high);
            const T given = static_cast<T>(fill[static_cast<size_t>(std::min<int64_t>(k, 2))]);
            out[k] = b.clip(filled ? given : noise);
          }
        }
      }
    };
    return ImageLoop{run, height};
  });
}

// Values have any rank: a unit is a row of the batch.
template <bool kGrad>
ImageLoop make_clip(const NodeProblem& problem) {
  const Bounds b(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      const Operand& x = call.inputs[kGrad ? 1 : 0];
      const Operand& dy = call.inputs[0];
      const Operand& y = call.outputs[0];
      for (int64_t n = begin; n < end; ++n) {
        for_each_run<3>(y.dims.subspan(1),
                        {x.strides.subspan(1), dy.strides.subspan(1), y.strides.subspan(1)},
                        [&](const auto& at, int64_t, int64_t count) {
                          const T* in = data_of<const T>(x) + n * x.strides[0] + at[0];
                          const T* d = data_of<const T>(dy) + n * dy.strides[0] + at[1];
                          T* out = data_of<T>(y) + n * y.strides[0] + at[2];
                          for (int64_t i = 0; i < count; ++i) {
                            const T clipped = b.clip(in[i]);
                            out[i] = !kGrad ? clipped : clipped == in[i] ? d[i] : T(0);
                          }
                        });
      }
    };
    return ImageLoop{run, 1};
  });
}

constexpr ImageLoopEntry kEntries[] = {
    {"auto_contrast", make_auto_contrast},
    {"clip_range", make_clip<false>},
    {"equalize_tiles", make_equalized_tiles},
    {"clip_range_grad", make_clip<true>},
    {"image_color", make_color},
    {"image_contrast", make_contrast},
    {"image_erase", make_erase},
    {"image_filter", make_filter},
};

}  // namespace

std::span<const ImageLoopEntry> image_color_loops() { return kEntries; }

}  // namespace plimsoll::backend::reference
