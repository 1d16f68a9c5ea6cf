// BatchNormalization by groups of samples: batch_norm_groups, its gradient, moving_moments.
//
// A call is one group. Its rows are split into as many parts as there are threads; statistics and
// sums of parts go to scratch in double and are merged in part order.

#include <algorithm>
#include <cmath>

#include "backend/cpu/conv/channel_loops.h"
#include "backend/cpu/families.h"
#include "base/bytes.h"

namespace plimsoll::backend::cpu {
namespace {

// The rows of a group, and where things lie in scratch. T: float, or uint16_t for bfloat16.
//
//   [mean, scale, shift or slope, mean of dy, a float a channel] then for each part
//   [4 sums, doubles] [group sums: 2 floats] [its mean: 1]
template <typename T>
class Group {
 public:
  Group(const NodeFacts& facts, const CpuOptions& options, int64_t arrays)
      : loops(channel_loops<T>(options.isa)) {
    const Shape& x = facts.inputs[0].shape;
    channels = x[x.rank() - 1].count;
    rows = facts.input_elements(0) / channels;
    parts = parts_for(rows * channels * 4 * arrays, options.parts);
    shared_ = aligned(channels * 4 * 4);
    part_ = aligned(channels * 4 * 8) + aligned(channels * 3 * 4);
  }

  Bytes scratch() const { return Bytes(shared_ + parts * part_); }
  Range rows_of(int part) const { return part_of(rows, 1, part, parts); }

  // One number a channel, of the whole group.
  float* shared(const KernelCall& call, int which) const {
    return reinterpret_cast<float*>(call.scratch) + which * channels;
  }
  double* sums(const KernelCall& call, int part, int which) const {
    return reinterpret_cast<double*>(call.scratch + shared_ + part * part_) + which * channels;
  }
  float* group(const KernelCall& call, int part) const {
    return reinterpret_cast<float*>(sums(call, part, 0) + 4 * channels);
  }
  float* part_mean(const KernelCall& call, int part) const {
    return group(call, part) + 2 * channels;
  }

  // Sums of a part in slots 0 and 1: its mean, and Σ (x − mean)².
  void find_part(const KernelCall& call, size_t input, int part) const {
    const Range range = rows_of(part);
    const int64_t n = range.end - range.begin;
    const auto count = static_cast<double>(std::max<int64_t>(n, 1));
    const T* x = input_as<T>(call, input) + range.begin * channels;
    double* mean = sums(call, part, 0);
    double* m2 = sums(call, part, 1);
    float* rounded = part_mean(call, part);
    loops.totals(x, n, channels, group(call, part), mean);
    for (int64_t c = 0; c < channels; ++c) {
      mean[c] /= count;
      rounded[c] = static_cast<float>(mean[c]);
    }
    loops.squares(x, rounded, n, channels, group(call, part), m2);
    // The squares are about the rounded mean.
    for (int64_t c = 0; c < channels; ++c) {
      const double rest = mean[c] - static_cast<double>(rounded[c]);
      m2[c] -= rest * rest * count;
    }
  }

  // The moments of all parts, joined in order; visit(channel, mean, variance).
  template <typename Visit>
  void find_moments(const KernelCall& call, size_t input, const Visit& visit) const {
    for_each_part(parts, [&](int part) { find_part(call, input, part); });
    for (int64_t c = 0; c < channels; ++c) {
      ChannelMoments all;
      for (int part = 0; part < parts; ++part) {
        const Range range = rows_of(part);
        if (range.begin == range.end) continue;
        all.add({static_cast<double>(range.end - range.begin), sums(call, part, 0)[c],
                 sums(call, part, 1)[c]});
      }
      visit(c, all.mean, std::max(all.m2, 0.0) / all.rows);
    }
  }

  ChannelLoops<T> loops;
  int64_t channels = 1;
  int64_t rows = 0;
  int parts = 1;

 private:
  static int64_t aligned(int64_t bytes) { return round_up(Bytes(bytes), Bytes(64)).count(); }

  int64_t shared_ = 0;  // bytes
  int64_t part_ = 0;
};

template <typename T>
CpuKernel make_forward(const NodeFacts& facts, const CpuOptions& options) {
  const Group<T> g(facts, options, 2);
  const double epsilon = facts.attributes.get_double("epsilon");
  const bool scaled = facts.attributes.get_bool("scale", true);
  const bool centered = facts.attributes.get_bool("center", true);
  return kernel_of(
      [=](const KernelCall& call) {
        float* mean = g.shared(call, 0);
        float* scale = g.shared(call, 1);
        float* shift = g.shared(call, 2);
        const float* gamma = scaled ? input_floats(call, 1) : nullptr;
        const float* beta = centered ? input_floats(call, scaled ? 2 : 1) : nullptr;
        g.find_moments(call, 0, [&](int64_t c, double m, double variance) {
          const double factor = gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]);
          mean[c] = static_cast<float>(m);
          scale[c] = static_cast<float>(factor / std::sqrt(variance + epsilon));
          shift[c] = beta == nullptr ? 0.0f : beta[c];
        });
        for_each_part(g.parts, [&](int part) {
          const Range range = g.rows_of(part);
          g.loops.normalize(input_as<T>(call, 0), mean, scale, shift, g.channels,
                            output_as<T>(call, 0), range.begin, range.end);
        });
      },
      g.scratch());
}

// Σ dy and Σ dy (x − mean) of a part, in its slots 2 and 3.
template <typename T>
void add_products(const Group<T>& g, const KernelCall& call, const float* mean, int part) {
  const Range range = g.rows_of(part);
  const int64_t first = range.begin * g.channels;
  g.loops.products(input_as<T>(call, 0) + first, input_as<T>(call, 1) + first, mean,
                   range.end - range.begin, g.channels, g.group(call, part), g.sums(call, part, 2),
                   g.sums(call, part, 3));
}

template <typename T>
CpuKernel make_gradient(const NodeFacts& facts, const CpuOptions& options) {
  const Group<T> g(facts, options, 3);
  const double epsilon = facts.attributes.get_double("epsilon");
  const bool scaled = facts.attributes.get_bool("scale", true);
  return kernel_of(
      [=](const KernelCall& call) {
        float* mean = g.shared(call, 0);
        float* inverse = g.shared(call, 1);
        float* slope = g.shared(call, 2);
        float* dy_mean = g.shared(call, 3);
        const float* gamma = scaled ? input_floats(call, 2) : nullptr;
        float* out = call.outputs[1].data == nullptr ? nullptr : output_floats(call, 1);
        g.find_moments(call, 1, [&](int64_t c, double m, double variance) {
          mean[c] = static_cast<float>(m);
          inverse[c] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
        });
        for_each_part(g.parts, [&](int part) { add_products(g, call, mean, part); });
        const auto rows = static_cast<double>(g.rows);
        for (int64_t c = 0; c < g.channels; ++c) {
          double sum = 0, product = 0;
          for (int part = 0; part < g.parts; ++part) {
            sum += g.sums(call, part, 2)[c];
            product += g.sums(call, part, 3)[c];
          }
          product *= static_cast<double>(inverse[c]);
          dy_mean[c] = static_cast<float>(sum / rows);
          slope[c] = static_cast<float>(static_cast<double>(inverse[c]) * product / rows);
          if (out == nullptr) continue;
          const auto first = static_cast<float>(sum);
          const auto second = static_cast<float>(product);
          out[c] = call.first ? first : out[c] + first;
          float& scale_sum = out[g.channels + c];
          scale_sum = call.first ? second : scale_sum + second;
        }
        if (call.outputs[0].data == nullptr) return;
        float* scale = inverse;
        for (int64_t c = 0; gamma != nullptr && c < g.channels; ++c) scale[c] *= gamma[c];
        for_each_part(g.parts, [&](int part) {
          const Range range = g.rows_of(part);
          g.loops.normalize_grad(input_as<T>(call, 0), input_as<T>(call, 1), mean, dy_mean, slope,
                                 scale, g.channels, output_as<T>(call, 0), range.begin, range.end);
        });
      },
      g.scratch());
}

template <typename T>
CpuKernel make_moving(const NodeFacts& facts, const CpuOptions& options) {
  const double momentum = facts.attributes.get_double("momentum");
  const Group<T> g(facts, options, 2);
  const int64_t channels = facts.input_elements(1);
  return kernel_of(
      [=](const KernelCall& call) {
        const auto keep = static_cast<float>(momentum);
        const auto take = static_cast<float>(1.0 - momentum);
        // Channels of later steps come later.
        const auto move = [&](size_t o, int64_t i, double value) {
          if (call.outputs[o].data == nullptr) return;
          const int64_t c = i % channels;
          float* out = output_floats(call, o);
          const float moving = call.first && i < channels ? input_floats(call, 1 + o)[c] : out[c];
          out[c] = moving * keep + static_cast<float>(value) * take;
        };
        g.find_moments(call, 0, [&](int64_t c, double mean, double variance) {
          move(0, c, mean);
          move(1, c, variance);
        });
      },
      g.scratch());
}

// Values of the batch may be bfloat16, all else is float32.
bool is_ours(const NodeFacts& facts) {
  const DType values = facts.inputs[0].dtype;
  if (values != DType::kFloat32 && values != DType::kBFloat16) return false;
  return std::ranges::all_of(facts.inputs, [&](const graph::ValueType& type) {
    return type.dtype == DType::kFloat32 || (type.shape.has_batch() && type.dtype == values);
  });
}

template <typename T>
constexpr CpuEntry kEntries[] = {
    {"batch_norm_groups", make_forward<T>},
    {"batch_norm_groups_grad", make_gradient<T>},
    {"moving_moments", make_moving<T>},
};

}  // namespace

CpuKernel make_channel_groups(const NodeFacts& facts, const CpuOptions& options) {
  if (find_entry(kEntries<float>, facts.op()) == nullptr || !is_ours(facts)) return {};
  return facts.inputs[0].dtype == DType::kFloat32 ? make_listed(kEntries<float>, facts, options)
                                                  : make_listed(kEntries<uint16_t>, facts, options);
}

}  // namespace plimsoll::backend::cpu
