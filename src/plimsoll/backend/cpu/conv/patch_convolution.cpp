// conv2d, conv3d, conv2d_pool and their gradients but those of conv_pool.h, of any shape, where no
// backend adds kernels of its own: products of patches (patches.h), group by group. Those of
// sequences beside a backend's, too.
//
//   scratch  conv2d, conv3d  [patches and panels] a thread
//            conv2d_pool     [patches and panels, rows that are pooled] a thread
//            …_grad_input    [patches and panels, positions between strides] a thread [kernel as
//            the
//                            phases meet it]
//            …_grad_kernel   [patches] [panels] a thread

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/cpu/conv/conv_pool.h"
#include "backend/cpu/conv/patches.h"
#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr double kFlopsWorthATeam = 4e5;
constexpr int64_t kLineFloats = 16;
// Shares of threads begin at multiples.
constexpr int64_t kPositionGrain = 6;
constexpr int64_t kFilterGrain = 16;

int64_t images_of(const NodeFacts& facts) {
  return facts.samples() * facts.inputs[0].shape[0].count;
}

int parts_of(const ops::ConvGeometry& g, int64_t images, int64_t most, int most_parts) {
  const double flops = 2.0 * static_cast<double>(g.kernel_elements()) *
                       static_cast<double>(images * g.window.outputs());
  if (flops < kFlopsWorthATeam) return 1;
  return static_cast<int>(std::clamp<int64_t>(most, 1, most_parts));
}

Patches patches_of(const ops::ConvGeometry& g) {
  return {.rows = g.rows(),
          .columns = g.columns(),
          .channels = g.channels,
          .count = g.group_channels(),
          .slabs = g.slabs()};
}

class Forward {
 public:
  Forward(const ops::ConvGeometry& g, int64_t images, bool bias, bool relu,
          const CpuOptions& options)
      : g_(g),
        images_(images),
        bias_(bias),
        relu_(relu),
        product_(patches_of(g), images * g.window.outputs(), g.group_filters(), false,
                 options.isa) {
    const int64_t positions = images * g.window.outputs();
    parts_ = parts_of(g, images, ceil_div(positions, kPositionGrain), options.parts);
  }

  int64_t part_floats() const { return product_.scratch_floats(); }
  Bytes scratch() const {
    return Bytes(parts_ * part_floats() * static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    const int64_t positions = images_ * g_.window.outputs();
    for_each_part(parts_, [&](int part) {
      const Range range = part_of(positions, kPositionGrain, part, parts_);
      run_positions(call, range, output_floats(call, 0) + range.begin * g_.filters,
                    reinterpret_cast<float*>(call.scratch) + part * part_floats());
    });
  }

  // `y`: of the first.
  void run_positions(const KernelCall& call, const Range& range, float* y,
                     float* scratch) const noexcept {
    for (int64_t group = 0; group < g_.groups; ++group) {
      const int64_t first = group * g_.group_filters();
      product_.run(input_floats(call, 0) + group * g_.group_channels(), range.begin, range.end,
                   {.kernel = input_floats(call, 1) + first,
                    .kernel_row = g_.filters,
                    .bias = bias_ ? input_floats(call, 2) + first : nullptr,
                    .relu = relu_,
                    .y = y + first,
                    .y_row = g_.filters},
                   scratch);
    }
  }

 private:
  ops::ConvGeometry g_;
  int64_t images_;
  bool bias_, relu_;
  PatchProduct product_;
  int parts_ = 1;
};

// Some pooled rows at a time, whose convolution stays in a thread's cache.
class Pooled {
 public:
  Pooled(const NodeFacts& facts, const ops::Conv2dPoolGeometry& g, const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        forward_(g.conv, images_, facts.inputs.size() > 2, g.relu, options),
        pooling_(g, options.isa),
        parts_(parts_of(g.conv, images_, images_ * g.rows(), options.parts)) {
    constexpr int64_t kResultFloats = 64 << 10;
    rows_ = std::clamp<int64_t>(kResultFloats / std::max<int64_t>(result_row(), 1), 1,
                                std::max<int64_t>(g.rows(), 1));
    part_floats_ = forward_.part_floats() + round_up(rows_ * result_row(), kLineFloats);
  }

  Bytes scratch() const {
    return Bytes(parts_ * part_floats_ * static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    const int64_t iterations = ceil_div(g_.rows(), rows_);
    for_each_part(parts_, [&](int part) {
      const Range range = part_of(images_ * iterations, 1, part, parts_);
      for (int64_t iteration = range.begin; iteration < range.end; ++iteration) {
        const int64_t row = iteration % iterations * rows_;
        run_rows(call, iteration / iterations, row, std::min(rows_, g_.rows() - row),
                 reinterpret_cast<float*>(call.scratch) + part * part_floats_);
      }
    });
  }

 private:
  // Numbers of the convolution's result under a pooled row.
  int64_t result_row() const { return g_.pool_rows * g_.conv.columns().output * g_.conv.filters; }

  void run_rows(const KernelCall& call, int64_t image, int64_t row, int64_t rows,
                float* scratch) const noexcept {
    const int64_t columns = g_.conv.columns().output;
    const int64_t first = (image * g_.conv.rows().output + row * g_.pool_rows) * columns;
    float* result = scratch + forward_.part_floats();
    forward_.run_positions(call, {first, first + rows * g_.pool_rows * columns}, result, scratch);
    const int64_t at = (image * g_.rows() + row) * g_.columns() * g_.conv.filters;
    float* y = output_floats(call, 0);
    auto* winners = output_as<uint8_t>(call, 1);
    pooling_.run(result, rows, y == nullptr ? nullptr : y + at,
                 winners == nullptr ? nullptr : winners + at);
  }

  ops::Conv2dPoolGeometry g_;
  int64_t images_;
  Forward forward_;
  ConvPooling pooling_;
  int parts_;
  int64_t rows_ = 1;  // pooled, of an iteration
  int64_t part_floats_ = 0;
};

class GradInput {
 public:
  GradInput(const NodeFacts& facts, const ops::ConvGeometry& g, const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        parts_(
            parts_of(g, images_, ceil_div(images_ * positions(), kPositionGrain), options.parts)) {
    for (const GradientPhase& slabs : gradient_phases(g.slabs())) {
      for (const GradientPhase& rows : gradient_phases(g.rows())) {
        for (const GradientPhase& columns : gradient_phases(g.columns())) {
          add_phase(slabs, rows, columns, options.isa);
        }
      }
    }
    part_floats_ = round_up(product_floats_ + result_floats_, kLineFloats);
  }

  Bytes scratch() const {
    return Bytes((parts_ * part_floats_ + g_.kernel_elements()) *
                 static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    auto* scratch = reinterpret_cast<float*>(call.scratch);
    float* kernel = scratch + parts_ * part_floats_;
    for_each_range(g_.channels, 1, parts_, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        copy_kernel(input_floats(call, 1), channel, kernel);
      }
    });
    for_each_part(parts_, [&](int part) {
      for (const Phase& phase : phases_) {
        const int64_t all = images_ * phase.positions();
        const Range range = part_of(all, kPositionGrain, part, parts_);
        run_phase(call, phase, range, kernel, scratch + part * part_floats_);
      }
    });
  }

 private:
  struct Phase {
    GradientPhase slabs, rows, columns;
    std::optional<PatchProduct> product;  // of a group; none: nothing reaches it
    int64_t kernel = 0;                   // where its part begins
    int64_t numbers() const {
      return slabs.window.size * rows.window.size * columns.window.size;  // points of the kernel
    }
    int64_t positions() const {  // of an image
      return slabs.window.output * rows.window.output * columns.window.output;
    }
  };

  int64_t positions() const { return g_.window.inputs(); }
  bool strides() const {
    return g_.slabs().stride > 1 || g_.rows().stride > 1 || g_.columns().stride > 1;
  }

  void add_phase(const GradientPhase& slabs, const GradientPhase& rows,
                 const GradientPhase& columns, Isa isa) {
    Phase phase{.slabs = slabs, .rows = rows, .columns = columns, .product = {}, .kernel = 0};
    if (!phases_.empty()) {
      const Phase& last = phases_.back();
      phase.kernel = last.kernel + last.numbers() * g_.group_filters() * g_.channels;
    }
    if (phase.numbers() > 0) {
      const Patches patches = {.rows = rows.window,
                               .columns = columns.window,
                               .channels = g_.filters,
                               .count = g_.group_filters(),
                               .slabs = slabs.window};
      const int64_t positions = images_ * patches.positions();
      phase.product.emplace(patches, positions, g_.group_channels(), true, isa);
      product_floats_ = std::max(product_floats_, phase.product->scratch_floats());
      if (strides()) {
        result_floats_ =
            std::max(result_floats_,
                     std::min(patch_positions(patches.numbers()), positions) * g_.group_channels());
      }
    }
    phases_.push_back(phase);
  }

  // What one channel of the source meets, phase by phase: (points, filters of its group).
  void copy_kernel(const float* w, int64_t channel, float* to) const noexcept {
    const int64_t filters = g_.group_filters();
    const float* from =
        w + channel % g_.group_channels() * g_.filters + channel / g_.group_channels() * filters;
    for (const Phase& phase : phases_) {
      float* row = to + phase.kernel + channel * phase.numbers() * filters;
      for_each_point(phase, [&](int64_t point) {
        std::memcpy(row, from + point * g_.group_channels() * g_.filters,
                    static_cast<size_t>(filters) * sizeof(float));
        row += filters;
      });
    }
  }

  // The points of the kernel that the phase meets, in its order.
  template <typename Body>
  void for_each_point(const Phase& phase, Body body) const noexcept {
    for (int64_t s = 0; s < phase.slabs.window.size; ++s) {
      const int64_t slab = phase.slabs.tap + s * phase.slabs.tap_step;
      for (int64_t i = 0; i < phase.rows.window.size; ++i) {
        const int64_t row = slab * g_.rows().size + phase.rows.tap + i * phase.rows.tap_step;
        for (int64_t j = 0; j < phase.columns.window.size; ++j) {
          body(row * g_.columns().size + phase.columns.tap + j * phase.columns.tap_step);
        }
      }
    }
  }

  void run_phase(const KernelCall& call, const Phase& phase, const Range& range,
                 const float* kernel, float* scratch) const noexcept {
    if (!phase.product) return fill_zeros(call, phase, range);
    const int64_t row = phase.numbers() * g_.group_filters();
    const int64_t channels = g_.group_channels();
    for (int64_t group = 0; group < g_.groups; ++group) {
      const int64_t first = group * channels;
      const float* dy = input_floats(call, 0) + group * g_.group_filters();
      PatchProduct::Target target = {
          .kernel = kernel + phase.kernel + first * row,
          .kernel_row = row,
          .bias = nullptr,
          .relu = false,
          .y = output_floats(call, 0) + range.begin * g_.channels + first,
          .y_row = g_.channels};
      if (!strides()) {
        phase.product->run(dy, range.begin, range.end, target, scratch);
        continue;
      }
      target.y = scratch + product_floats_;
      target.y_row = channels;
      const int64_t each = patch_positions(row);
      for (int64_t from = range.begin; from < range.end; from += each) {
        const int64_t to = std::min(from + each, range.end);
        phase.product->run(dy, from, to, target, scratch);
        for (int64_t p = from; p < to; ++p) {
          std::memcpy(place_of(call, phase, p) + first, target.y + (p - from) * channels,
                      static_cast<size_t>(channels) * sizeof(float));
        }
      }
    }
  }

  void fill_zeros(const KernelCall& call, const Phase& phase, const Range& range) const noexcept {
    for (int64_t p = range.begin; p < range.end; ++p) {
      std::memset(place_of(call, phase, p), 0, static_cast<size_t>(g_.channels) * sizeof(float));
    }
  }

  // Where a position of a phase lies in dx.
  float* place_of(const KernelCall& call, const Phase& phase, int64_t position) const noexcept {
    const int64_t columns = phase.columns.window.output;
    const int64_t rows = phase.rows.window.output;
    const int64_t image = position / phase.positions();
    const int64_t slab = phase.slabs.first +
                         position / (rows * columns) % phase.slabs.window.output * phase.slabs.step;
    const int64_t row = phase.rows.first + position / columns % rows * phase.rows.step;
    const int64_t at = (slab * g_.rows().input + row) * g_.columns().input + phase.columns.first +
                       position % columns * phase.columns.step;
    return output_floats(call, 0) + (image * positions() + at) * g_.channels;
  }

  ops::ConvGeometry g_;
  int64_t images_;
  int parts_;
  std::vector<Phase> phases_;
  int64_t product_floats_ = 0;
  int64_t result_floats_ = 0;
  int64_t part_floats_ = 0;
};

// Threads copy patches together, and share out what meets them: points of the kernel, or filters.
class GradKernel {
 public:
  GradKernel(const NodeFacts& facts, const ops::ConvGeometry& g, const CpuOptions& options)
      : g_(g),
        patches_(patches_of(g)),
        all_(images_of(facts) * patches_.positions()),
        at_once_(std::max<int64_t>(patch_positions(patches_.numbers()), 256)),
        by_columns_(g.group_filters() > patches_.numbers()),
        parts_(parts_of(
            g, images_of(facts),
            by_columns_ ? g.group_filters() / kFilterGrain : patches_.numbers() / kPositionGrain,
            options.parts)),
        most_parts_(parts_of(g, images_of(facts), options.parts, options.parts)),
        bias_(facts.outputs.size() > 1),
        bias_sums_(all_, g.filters, options.isa, options.parts),
        multiply_(pick_packed_multiply(options.isa)) {
    patch_floats_ = round_up(std::min(at_once_, all_) * patches_.numbers(), kLineFloats);
    PackedProduct p;
    p.rows = patches_.numbers();
    p.inner = std::min(at_once_, all_);
    p.columns = g.group_filters();
    p.transposed_x = true;
    panel_floats_ = round_up(packed_floats(options.isa, p), kLineFloats);
  }

  Bytes scratch() const {
    return Bytes((patch_floats_ + parts_ * panel_floats_) * static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      for (int64_t group = 0; group < g_.groups; ++group) {
        for (int64_t at = 0; at < all_; at += at_once_) {
          add_positions(call, group, at, std::min(at_once_, all_ - at));
        }
      }
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  void add_positions(const KernelCall& call, int64_t group, int64_t at,
                     int64_t count) const noexcept {
    auto* scratch = reinterpret_cast<float*>(call.scratch);
    for_each_range(count, 1, most_parts_, [&](int64_t begin, int64_t end) {
      patches_.copy(input_floats(call, 0) + group * patches_.count, at + begin, at + end,
                    scratch + begin * patches_.numbers());
    });
    const int64_t first = group * g_.group_filters();
    PackedProduct whole;
    whole.rows = patches_.numbers();
    whole.inner = count;
    whole.columns = g_.group_filters();
    whole.x = scratch;
    whole.x_row = 1;
    whole.x_step = patches_.numbers();
    whole.transposed_x = true;
    whole.w = input_floats(call, 1) + at * g_.filters + first;
    whole.w_row = g_.filters;
    whole.y = output_floats(call, 0) + first;
    whole.y_row = g_.filters;
    whole.add = !call.first || at > 0;
    for_each_part(parts_, [&](int part) {
      PackedProduct p = whole;
      const Range share = by_columns_ ? part_of(p.columns, kFilterGrain, part, parts_)
                                      : part_of(p.rows, kPositionGrain, part, parts_);
      if (share.begin == share.end) return;
      if (by_columns_) {
        p.columns = share.end - share.begin;
        p.w += share.begin;
        p.y += share.begin;
      } else {
        p.rows = share.end - share.begin;
        p.x += share.begin;
        p.y += share.begin * p.y_row;
      }
      multiply_(p, scratch + patch_floats_ + part * panel_floats_);
    });
  }

  ops::ConvGeometry g_;
  Patches patches_;
  int64_t all_;
  int64_t at_once_;
  bool by_columns_;
  int parts_;
  int most_parts_;
  bool bias_;
  ColumnSums bias_sums_;
  PackedMultiplyFunction multiply_;
  int64_t patch_floats_ = 0;
  int64_t panel_floats_ = 0;
};

template <typename Body>
CpuKernel made_of(Body body) {
  const Bytes scratch = body.scratch();
  return kernel_of([body = std::move(body)](const KernelCall& call) { body.run(call); }, scratch);
}

}  // namespace

bool is_sequence_convolution(const NodeFacts& facts, const CpuOptions& options) {
  constexpr int64_t kLeastChannels = 16;
  constexpr int64_t kMostPatchFloats = 128 << 10;  // of a thread
  if (options.isa == Isa::kGeneric || facts.inputs.size() < 2) return false;
  const graph::OpWork work = facts.work();
  if (work.family != graph::OpFamily::kConvolution || work.fusion != graph::OpFusion::kNone ||
      work.pass == graph::OpPass::kGradKernel || facts.inputs[0].dtype != DType::kFloat32) {
    return false;
  }
  const ops::ConvGeometry g = ops::conv_geometry(facts.op(), facts.types());
  if (g.window.rank() != 2 || g.columns() != ops::kOnePosition || g.groups > 1) return false;
  const int64_t most_numbers = g.rows().size * std::max(g.channels, g.filters);
  return g.rows().size > 1 && std::min(g.channels, g.filters) >= kLeastChannels &&
         patch_positions(most_numbers) * most_numbers <= kMostPatchFloats;
}

bool is_heavy_convolution(const NodeFacts& facts, const CpuOptions& options) {
  constexpr int64_t kLeastKernelBytes = 4 << 20;
  constexpr int64_t kMostColumns = 4;
  if (options.isa != Isa::kAvx512 || !kHasVariants || facts.inputs.size() < 2) return false;
  const graph::OpWork work = facts.work();
  if (work.family != graph::OpFamily::kConvolution || work.fusion != graph::OpFusion::kNone ||
      work.pass != graph::OpPass::kForward || facts.inputs[0].dtype != DType::kFloat32 ||
      facts.inputs[1].dtype != DType::kFloat32 || facts.cut_inside_samples()) {
    return false;
  }
  const ops::ConvGeometry g = ops::conv_geometry(facts.op(), facts.types());
  if (g.window.rank() != 2 || g.groups > 1 || g.window.taps() == 1) return false;
  return g.columns().output <= kMostColumns &&
         g.kernel_elements() * static_cast<int64_t>(sizeof(float)) >= kLeastKernelBytes &&
         !is_winograd_node(facts, options);
}

int64_t heavy_convolution_samples(const NodeFacts& facts, const CpuOptions& options) {
  constexpr int kMostParts = 4;  // more of them would need memory for many samples
  const ops::ConvGeometry g = ops::conv_geometry(facts.op(), facts.types());
  const int64_t positions = kLeastPositions * std::min(options.parts, kMostParts);
  return ceil_div(positions, std::max<int64_t>(g.window.outputs(), 1));
}

bool is_patch_convolution(const NodeFacts& facts, const CpuOptions& options) {
  return is_sequence_convolution(facts, options) || is_heavy_convolution(facts, options);
}

CpuKernel make_patch_convolution(const NodeFacts& facts, const CpuOptions& options) {
  using graph::OpFamily;
  using graph::OpFusion;
  using graph::OpPass;
  if (facts.work().family != OpFamily::kConvolution || facts.inputs.size() < 2) return {};
  if (!options.alone && !is_patch_convolution(facts, options)) return {};
  if (facts.inputs[0].dtype != DType::kFloat32 || facts.inputs[1].dtype != DType::kFloat32) {
    return {};
  }
  const graph::OpWork work = facts.work();
  if (work.fusion == OpFusion::kPool) {
    if (work.pass != OpPass::kForward) return {};
    return made_of(Pooled(facts, ops::conv2d_pool_geometry(facts.op(), facts.types()), options));
  }
  const ops::ConvGeometry g = ops::conv_geometry(facts.op(), facts.types());
  if (work.pass == OpPass::kGradInput) return made_of(GradInput(facts, g, options));
  if (work.pass == OpPass::kGradKernel) return made_of(GradKernel(facts, g, options));
  const bool relu = facts.attributes.get_string("activation", "linear") == "relu";
  return made_of(Forward(g, images_of(facts), facts.inputs.size() > 2, relu, options));
}

}  // namespace plimsoll::backend::cpu
