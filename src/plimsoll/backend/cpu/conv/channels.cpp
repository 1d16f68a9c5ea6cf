// Per-channel reductions and maps: bias gradients, BatchNormalization, global mean pooling.
//
// A reduction splits the rows of its block into as many parts as there are threads; each part's
// sums go to scratch in double, and are folded in part order.

#include <algorithm>
#include <cmath>

#include "backend/cpu/conv/channel_loops.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/channels_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

struct Channels {
  int64_t rows = 0;  // in the call
  int64_t channels = 1;
  int64_t batch = 1;            // of the program; 1 where there is no axis of samples
  int64_t rows_per_sample = 1;  // of the whole image
  int64_t width = 0;            // rows of an image's row; 0: nothing is cut along them
  int batch_axis = -1;
  int image_axis = -1;
  int parts = 1;

  double of_batch(const KernelCall& call) const {
    const int64_t samples = batch_axis < 0 ? 1 : call.all_samples(batch);
    return static_cast<double>(rows_per_sample) * static_cast<double>(samples);
  }
};

Channels read_channels(const NodeFacts& facts, const CpuOptions& options, int64_t arrays) {
  const Shape& x = facts.inputs[0].shape;
  Channels c;
  c.channels = x[x.rank() - 1].count;
  c.rows = facts.input_elements(0) / c.channels;
  c.rows_per_sample = facts.whole_inputs[0].shape.elements_per_sample() / c.channels;
  c.image_axis = facts.rows_axis;
  if (c.image_axis >= 0) c.width = x[2].count;
  c.batch_axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  c.batch = c.batch_axis < 0 ? 1 : facts.batch;
  c.parts = parts_for(c.rows * c.channels * 4 * arrays, options.parts);
  return c;
}

// Rows before this block, in its lane.
double rows_before(const Channels& c, const KernelCall& call) {
  if (c.batch_axis < 0) return 0.0;
  // Rows are cut of one sample only.
  const int64_t above =
      c.image_axis < 0 ? 0 : call.begin[static_cast<size_t>(c.image_axis)] * c.width;
  const int64_t samples = call.begin[static_cast<size_t>(c.batch_axis)] - call.lane;
  return static_cast<double>(samples * c.rows_per_sample + above);
}

// Scratch of one part of a reduction: `doubles` and `floats` numbers a channel.
struct PartScratch {
  int64_t doubles, floats, channels;
  int64_t bytes() const { return channels * (doubles * 8 + floats * 4 + 63) / 64 * 64 + 64; }
  double* sums(const KernelCall& call, int part) const {
    return reinterpret_cast<double*>(call.scratch + part * bytes());
  }
  float* group(const KernelCall& call, int part) const {
    return reinterpret_cast<float*>(sums(call, part) + doubles * channels);
  }
};

// Means, and after them M2s, of all channels over so many rows.
struct ManyMoments {
  double rows;
  double* means;
};

// The moments of both, in the place of the first.
void merge_moments(const ManyMoments& all, const ManyMoments& more, int64_t channels) {
  const double share = more.rows / (all.rows + more.rows);
  const double weight = all.rows * share;
  for (int64_t i = 0; i < channels; ++i) {
    const double apart = more.means[i] - all.means[i];
    all.means[i] += apart * share;
    all.means[channels + i] += more.means[channels + i] + apart * apart * weight;
  }
}

template <typename T>
CpuKernel make_bias_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 1);
  const ColumnSums sums(c.rows, c.channels, options.isa, options.parts);
  return kernel_of([sums](const KernelCall& call) {
    sums.run(input_as<T>(call, 0), output_floats(call, 0), !call.first);
  });
}

template <typename T>
CpuKernel make_channel_moments(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 2);
  const auto totals = PLIMSOLL_PICK(options.isa, channel_totals<T>);
  const auto squares = PLIMSOLL_PICK(options.isa, channel_squares<T>);
  // Rows that are read twice lie in the second cache.
  constexpr int64_t kNearBytes = 256 << 10;
  const int64_t chunk =
      std::max<int64_t>(1, kNearBytes / (c.channels * 4 * kChannelGroupRows)) * kChannelGroupRows;
  const PartScratch scratch{4, 2, c.channels};
  return kernel_of(
      [=](const KernelCall& call) {
        // A chunk's mean is rounded to float before it is subtracted; the correction of its M2 and
        // mean by the rest is below their own rounding.
        const auto find = [&](const T* x, int64_t count, int part, double* mean) {
          float* group = scratch.group(call, part);
          float* rounded = group + c.channels;
          totals(x, count, c.channels, group, mean);
          for (int64_t i = 0; i < c.channels; ++i) {
            mean[i] /= static_cast<double>(std::max<int64_t>(count, 1));
            rounded[i] = static_cast<float>(mean[i]);
          }
          squares(x, rounded, count, c.channels, group, mean + c.channels);
          for (int64_t i = 0; i < c.channels; ++i) {
            const double rest = mean[i] - static_cast<double>(rounded[i]);
            mean[c.channels + i] -= rest * rest * static_cast<double>(count);
          }
        };
        for_each_part(c.parts, [&](int part) {
          const Range rows = part_of(c.rows, 1, part, c.parts);
          const T* x = input_as<T>(call, 0);
          double* all = scratch.sums(call, part);
          double* more = all + 2 * c.channels;
          const int64_t first = std::min(rows.end, rows.begin + chunk);
          find(x + rows.begin * c.channels, first - rows.begin, part, all);
          for (int64_t begin = first; begin < rows.end; begin += chunk) {
            const int64_t end = std::min(rows.end, begin + chunk);
            find(x + begin * c.channels, end - begin, part, more);
            merge_moments({static_cast<double>(begin - rows.begin), all},
                          {static_cast<double>(end - begin), more}, c.channels);
          }
        });
        float* out = output_floats(call, 0);
        for (int64_t i = 0; i < c.channels; ++i) {
          ChannelMoments all;
          if (!call.first) {
            all = {rows_before(c, call), static_cast<double>(out[i]),
                   static_cast<double>(out[c.channels + i])};
          }
          for (int part = 0; part < c.parts; ++part) {
            const Range rows = part_of(c.rows, 1, part, c.parts);
            if (rows.begin == rows.end) continue;
            const double* mean = scratch.sums(call, part);
            all.add({static_cast<double>(rows.end - rows.begin), mean[i], mean[c.channels + i]});
          }
          out[i] = static_cast<float>(all.mean);
          out[c.channels + i] = static_cast<float>(all.m2);
        }
      },
      Bytes(c.parts * scratch.bytes()));
}

// Where mean, variance, gamma and beta of a normalization are found.
struct Statistics {
  bool given = false;  // mean and variance are operands; else one operand of moments
  size_t first = 1;    // operand of the mean or the moments
  size_t gamma = 0;    // 0: none
  size_t beta = 0;     // 0: none
  double epsilon = 0;
  Channels rows{};
  int64_t channels = 1;

  const float* mean(const KernelCall& call) const { return input_floats(call, first); }
  // gamma / sqrt(variance + epsilon), gamma 1 where there is none.
  double scale(const KernelCall& call, int64_t channel) const {
    return factor(gamma, call, channel, 1.0) * inverse(call, channel);
  }
  double inverse(const KernelCall& call, int64_t channel) const {
    const double variance =
        given ? static_cast<double>(input_floats(call, first + 1)[channel])
              : static_cast<double>(input_floats(call, first)[channels + channel]) /
                    rows.of_batch(call);
    return 1.0 / std::sqrt(variance + epsilon);
  }
  double shift(const KernelCall& call, int64_t channel) const {
    return factor(beta, call, channel, 0.0);
  }

 private:
  static double factor(size_t operand, const KernelCall& call, int64_t channel, double none) {
    return operand == 0 ? none : static_cast<double>(input_floats(call, operand)[channel]);
  }
};

Statistics read_statistics(const NodeFacts& facts, const Channels& c, bool given, size_t first,
                           size_t gamma, bool forward = false) {
  Statistics s;
  s.given = given;
  s.first = first;
  s.epsilon = facts.attributes.get_double("epsilon");
  s.rows = c;
  s.channels = c.channels;
  size_t next = gamma;
  if (facts.attributes.get_bool("scale", true) && gamma != 0) s.gamma = next++;
  if (forward && facts.attributes.get_bool("center", true)) s.beta = next;
  return s;
}

Bytes floats_per_channel(const Channels& c, int64_t count) { return Bytes(c.channels * count * 4); }

// Rows of few channels, several of which stand side by side as one, so that they fill vectors: what
// is the same in all rows is repeated as often.
struct WideRows {
  explicit WideRows(const Channels& c) : channels(c.channels), rows(c.rows) {
    constexpr int64_t kFew = 16;
    constexpr int64_t kWidth = 64;
    if (channels < kFew) together = std::min(kWidth / channels, std::max<int64_t>(rows, 1));
  }
  int64_t width() const { return channels * together; }
  void repeat(float* numbers) const {
    for (int64_t i = channels; i < width(); ++i) numbers[i] = numbers[i - channels];
  }
  // body(first number, numbers of a row, begin, end) for shares of the rows, and for what is left.
  template <typename Body>
  void share_out(int parts, const Body& body) const noexcept {
    const int64_t whole = rows / together;
    for_each_range(whole, 1, parts,
                   [&](int64_t begin, int64_t end) { body(int64_t{0}, width(), begin, end); });
    const int64_t rest = rows - whole * together;
    if (rest > 0) body(whole * width(), channels, int64_t{0}, rest);
  }

  int64_t channels;
  int64_t rows;
  int64_t together = 1;
};

template <typename T>
CpuKernel make_batch_norm(const NodeFacts& facts, const CpuOptions& options, bool given) {
  const Channels c = read_channels(facts, options, 2);
  const Statistics s = read_statistics(facts, c, given, 1, given ? 3 : 2, true);
  const WideRows rows(c);
  const auto loop = PLIMSOLL_PICK(options.isa, normalize_rows<T>);
  return kernel_of(
      [=](const KernelCall& call) {
        auto* scale = reinterpret_cast<float*>(call.scratch);
        float* shift = scale + rows.width();
        float* mean = shift + rows.width();
        std::copy_n(s.mean(call), c.channels, mean);
        for (int64_t i = 0; i < c.channels; ++i) {
          scale[i] = static_cast<float>(s.scale(call, i));
          shift[i] = static_cast<float>(s.shift(call, i));
        }
        for (float* numbers : {scale, shift, mean}) rows.repeat(numbers);
        rows.share_out(c.parts, [&](int64_t first, int64_t width, int64_t begin, int64_t end) {
          loop(input_as<T>(call, 0) + first, mean, scale, shift, width,
               output_as<T>(call, 0) + first, begin, end);
        });
      },
      Bytes(3 * rows.width() * 4));
}

template <typename T>
CpuKernel make_batch_norm_sums(const NodeFacts& facts, const CpuOptions& options, bool given) {
  const Channels c = read_channels(facts, options, 2);
  const Statistics s = read_statistics(facts, c, given, 2, 0);
  const auto loop = PLIMSOLL_PICK(options.isa, channel_products<T>);
  const PartScratch scratch{2, 2, c.channels};
  return kernel_of(
      [=](const KernelCall& call) {
        for_each_part(c.parts, [&](int part) {
          const Range rows = part_of(c.rows, 1, part, c.parts);
          const int64_t offset = rows.begin * c.channels;
          double* sums = scratch.sums(call, part);
          loop(input_as<T>(call, 0) + offset, input_as<T>(call, 1) + offset, s.mean(call),
               rows.end - rows.begin, c.channels, scratch.group(call, part), sums,
               sums + c.channels);
        });
        float* out = output_floats(call, 0);
        for (int64_t i = 0; i < c.channels; ++i) {
          double sum = 0, product = 0;
          for (int part = 0; part < c.parts; ++part) {
            sum += scratch.sums(call, part)[i];
            product += scratch.sums(call, part)[c.channels + i];
          }
          const auto first = static_cast<float>(sum);
          const auto second = static_cast<float>(product * s.inverse(call, i));
          out[i] = call.first ? first : out[i] + first;
          out[c.channels + i] = call.first ? second : out[c.channels + i] + second;
        }
      },
      Bytes(c.parts * scratch.bytes()));
}

template <typename T>
CpuKernel make_batch_norm_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 3);
  const Statistics s = read_statistics(facts, c, false, 2, 4);
  const WideRows rows(c);
  const auto loop = PLIMSOLL_PICK(options.isa, normalize_grad_rows<T>);
  return kernel_of(
      [=](const KernelCall& call) {
        auto* scale = reinterpret_cast<float*>(call.scratch);
        float* slope = scale + rows.width();
        float* dy_mean = slope + rows.width();
        float* mean = dy_mean + rows.width();
        std::copy_n(s.mean(call), c.channels, mean);
        const float* sums = input_floats(call, 3);
        for (int64_t i = 0; i < c.channels; ++i) {
          const double product = static_cast<double>(sums[c.channels + i]) / c.of_batch(call);
          scale[i] = static_cast<float>(s.scale(call, i));
          slope[i] = static_cast<float>(s.inverse(call, i) * product);
          dy_mean[i] = static_cast<float>(static_cast<double>(sums[i]) / c.of_batch(call));
        }
        for (float* numbers : {scale, slope, dy_mean, mean}) rows.repeat(numbers);
        rows.share_out(c.parts, [&](int64_t first, int64_t width, int64_t begin, int64_t end) {
          loop(input_as<T>(call, 0) + first, input_as<T>(call, 1) + first, mean, dy_mean, slope,
               scale, width, output_as<T>(call, 0) + first, begin, end);
        });
      },
      Bytes(4 * rows.width() * 4));
}

template <typename T>
CpuKernel make_batch_norm_inference_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 2);
  // The variance is operand 1, so the mean that is never read would be operand 0.
  const Statistics s = read_statistics(facts, c, true, 0, 2);
  const auto loop = PLIMSOLL_PICK(options.isa, scale_rows<T>);
  return kernel_of(
      [=](const KernelCall& call) {
        auto* scale = reinterpret_cast<float*>(call.scratch);
        for (int64_t i = 0; i < c.channels; ++i) scale[i] = static_cast<float>(s.scale(call, i));
        for_each_range(c.rows, 1, c.parts, [&](int64_t begin, int64_t end) {
          loop(input_as<T>(call, 0), scale, c.channels, output_as<T>(call, 0), begin, end);
        });
      },
      floats_per_channel(c, 1));
}

template <typename T>
CpuKernel make_global_average(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 1);
  const Shape& x = facts.inputs[0].shape;
  constexpr int64_t kLine = 16;
  const int64_t positions = x[1].count * x[2].count;
  const auto loop = PLIMSOLL_PICK(options.isa, mean_positions<T>);
  return kernel_of([=](const KernelCall& call) {
    // Threads share out lines of channels.
    const int64_t lines = ceil_div(c.channels, kLine);
    for_each_range(c.rows / positions * lines, 1, c.parts, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t sample = begin / lines;
        const int64_t line = begin % lines;
        const int64_t count = std::min(lines - line, end - begin);
        loop(input_as<T>(call, 0) + sample * positions * c.channels, positions, c.channels,
             output_as<T>(call, 0) + sample * c.channels, line * kLine,
             std::min(c.channels, (line + count) * kLine));
        begin += count;
      }
    });
  });
}

template <typename T>
CpuKernel make_global_average_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Channels c = read_channels(facts, options, 1);
  const std::vector<int64_t>& shape = facts.attributes.get_ints("input_shape");
  const int64_t positions = shape[0] * shape[1];
  const int parts = parts_for(facts.output_elements(0) * 4, options.parts);
  const auto loop = PLIMSOLL_PICK(options.isa, spread_positions<T>);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(c.rows * positions, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_as<T>(call, 0), positions, c.channels, output_as<T>(call, 0), begin, end);
    });
  });
}

template <typename T, bool kGiven>
CpuKernel make_norm(const NodeFacts& facts, const CpuOptions& options) {
  return make_batch_norm<T>(facts, options, kGiven);
}

template <typename T, bool kGiven>
CpuKernel make_sums(const NodeFacts& facts, const CpuOptions& options) {
  return make_batch_norm_sums<T>(facts, options, kGiven);
}

template <typename T>
constexpr CpuEntry kEntries[] = {
    {"bias_grad", make_bias_grad<T>},
    {"channel_moments", make_channel_moments<T>},
    {"batch_norm", make_norm<T, false>},
    {"batch_norm_inference", make_norm<T, true>},
    {"batch_norm_sums", make_sums<T, false>},
    {"batch_norm_inference_sums", make_sums<T, true>},
    {"batch_norm_grad", make_batch_norm_grad<T>},
    {"batch_norm_inference_grad", make_batch_norm_inference_grad<T>},
    {"global_average_pool2d", make_global_average<T>},
    {"global_average_pool2d_grad", make_global_average_grad<T>},
};

}  // namespace

template <typename T>
ChannelLoops<T> channel_loops(Isa isa) {
  return {PLIMSOLL_PICK(isa, channel_totals<T>), PLIMSOLL_PICK(isa, channel_squares<T>),
          PLIMSOLL_PICK(isa, channel_products<T>), PLIMSOLL_PICK(isa, normalize_rows<T>),
          PLIMSOLL_PICK(isa, normalize_grad_rows<T>)};
}
template ChannelLoops<float> channel_loops(Isa isa);
template ChannelLoops<uint16_t> channel_loops(Isa isa);

CpuKernel make_channels(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.all_float32()) return make_listed(kEntries<float>, facts, options);
  if (facts.leads_with_bfloat16()) return make_listed(kEntries<uint16_t>, facts, options);
  return {};
}

}  // namespace plimsoll::backend::cpu
