#include "backend/cpu/conv/depthwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/conv/patches.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "ops/image/conv2d.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/depthwise_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// Shares of channels begin at whole lines.
constexpr int64_t kChannelGrain = 16;

// As many groups as channels, a filter each.
bool is_depthwise(const ops::Conv2dGeometry& g) {
  return g.groups > 1 && g.groups == g.channels && g.filters == g.channels;
}

int64_t images_of(const NodeFacts& facts) {
  return facts.samples() * facts.inputs[0].shape[0].count;
}

int64_t image_bytes(const ops::Conv2dGeometry& g) {
  return (g.rows().input * g.columns().input + g.rows().output * g.columns().output) * g.channels *
         kFloat;
}

// Points [first_tap, last_tap) of the kernel's rows that lie in the source.
void find_taps(const ops::Window& rows, int64_t at, DepthwiseRow& r) {
  r.row = rows.position(at, 0);
  r.rows_dilation = rows.dilation;
  r.first_tap = 0;
  r.last_tap = rows.size;
  while (r.first_tap < r.last_tap && rows.position(at, r.first_tap) < 0) ++r.first_tap;
  while (r.last_tap > r.first_tap && rows.position(at, r.last_tap - 1) >= rows.input) --r.last_tap;
}

// Channels that go together along the rows of an image: `row_bytes` of the rows that a kernel meets
// lie in the first cache.
int64_t chunk_of(int64_t row_bytes) {
  constexpr int64_t kNearBytes = 24 << 10;
  constexpr int64_t kLeast = 2 * kChannelGrain;
  return std::max(kLeast, kNearBytes / row_bytes / kLeast * kLeast);
}

// Rows of outputs of some images, from `begin` to `end`, with `rows` to an image: for each image
// and each chunk of its channels body(first row, end, channels).
template <typename Body>
void for_each_chunk(int64_t begin, int64_t end, int64_t rows, int64_t channels, int64_t chunk,
                    const Body& body) {
  while (begin < end) {
    const int64_t last = std::min(end, (begin / rows + 1) * rows);
    for (int64_t c = 0; c < channels; c += chunk) {
      body(begin, last, Range{c, std::min(channels, c + chunk)});
    }
    begin = last;
  }
}

class DepthwiseForward {
 public:
  DepthwiseForward(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        bias_(facts.inputs.size() > 2),
        relu_(facts.attributes.get_string("activation", "linear") == "relu"),
        parts_(parts_for(images_ * image_bytes(g), options.parts)),
        chunk_(chunk_of((g.columns().input * g.rows().size + g.columns().output) * kFloat)),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_row)) {}

  Bytes scratch() const { return Bytes(0); }

  void run(const KernelCall& call) const noexcept {
    const int64_t rows = g_.rows().output;
    for_each_range(images_ * rows, 1, parts_, [&](int64_t begin, int64_t end) {
      for_each_chunk(begin, end, rows, g_.channels, chunk_,
                     [&](int64_t first, int64_t last, const Range& channels) {
                       run_rows(call, first, last, channels);
                     });
    });
  }

 private:
  void run_rows(const KernelCall& call, int64_t begin, int64_t end,
                const Range& channels) const noexcept {
    const int64_t rows = g_.rows().output;
    DepthwiseRow r;
    r.columns = g_.columns();
    r.all_channels = g_.channels;
    r.channels = channels.end - channels.begin;
    r.x_row = g_.columns().input * g_.channels;
    r.w = input_floats(call, 1) + channels.begin;
    r.w_row = g_.columns().size * g_.channels;
    r.w_column = g_.channels;
    r.bias = bias_ ? input_floats(call, 2) + channels.begin : nullptr;
    r.relu = relu_;
    r.y_column = g_.channels;
    r.x = input_floats(call, 0) + begin / rows * g_.rows().input * r.x_row + channels.begin;
    for (int64_t at = begin; at < end; ++at) {
      r.y = output_floats(call, 0) + at * g_.columns().output * g_.channels + channels.begin;
      find_taps(g_.rows(), at % rows, r);
      loop_(r);
    }
  }

  ops::Conv2dGeometry g_;
  int64_t images_;
  bool bias_, relu_;
  int parts_;
  int64_t chunk_;
  decltype(&generic::depthwise_row) loop_;
};

class DepthwiseGradInput {
 public:
  DepthwiseGradInput(const NodeFacts& facts, const ops::Conv2dGeometry& g,
                     const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        rows_(gradient_phases(g.rows())),
        columns_(gradient_phases(g.columns())),
        parts_(parts_for(images_ * image_bytes(g), options.parts)),
        chunk_(chunk_of((g.columns().output * g.rows().size + g.columns().input) * kFloat)),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_row)) {}

  Bytes scratch() const { return Bytes(0); }

  void run(const KernelCall& call) const noexcept {
    const int64_t rows = g_.rows().input;
    for_each_range(images_ * rows, 1, parts_, [&](int64_t begin, int64_t end) {
      for_each_chunk(begin, end, rows, g_.channels, chunk_,
                     [&](int64_t first, int64_t last, const Range& channels) {
                       for (int64_t at = first; at < last; ++at) run_row(call, at, channels);
                     });
    });
  }

 private:
  void run_row(const KernelCall& call, int64_t at, const Range& channels) const noexcept {
    const int64_t row = at % g_.rows().input;
    const auto strides = std::ssize(rows_);
    const GradientPhase& rows = rows_[static_cast<size_t>(row % strides)];
    DepthwiseRow r;
    r.all_channels = g_.channels;
    r.channels = channels.end - channels.begin;
    r.x_row = g_.columns().output * g_.channels;
    r.x =
        input_floats(call, 0) + at / g_.rows().input * g_.rows().output * r.x_row + channels.begin;
    const int64_t kernel_row = g_.columns().size * g_.channels;
    r.w_row = rows.tap_step * kernel_row;
    find_taps(rows.window, row / strides, r);
    for (const GradientPhase& columns : columns_) {
      r.columns = columns.window;
      r.w = input_floats(call, 1) + rows.tap * kernel_row + columns.tap * g_.channels +
            channels.begin;
      r.w_column = columns.tap_step * g_.channels;
      r.y = output_floats(call, 0) + (at * g_.columns().input + columns.first) * g_.channels +
            channels.begin;
      r.y_column = columns.step * g_.channels;
      loop_(r);
    }
  }

  ops::Conv2dGeometry g_;
  int64_t images_;
  std::vector<GradientPhase> rows_, columns_;
  int parts_;
  int64_t chunk_;
  decltype(&generic::depthwise_row) loop_;
};

// Threads share out channels, or where those are few the rows of an image, each with sums of its
// own. An image's sums are added up before they are added to the others'.
class DepthwiseGradKernel {
 public:
  DepthwiseGradKernel(const NodeFacts& facts, const ops::Conv2dGeometry& g,
                      const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        bias_(facts.outputs.size() > 1),
        parts_(parts_for(images_ * image_bytes(g), options.parts)),
        bias_sums_(images_ * g.rows().output * g.columns().output, g.channels, options.isa,
                   options.parts),
        chunk_(chunk_of((g.columns().input * g.rows().size + g.columns().output) * kFloat)),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_grad_row)) {
    if (ceil_div(g.channels, kChannelGrain) < kLinesOfAPart * parts_ &&
        g.rows().output >= kLinesOfAPart * parts_) {
      row_parts_ = parts_;
    }
  }

  Bytes scratch() const { return Bytes(row_parts_ * part_floats() * kFloat); }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      if (row_parts_ > 1) {
        for (int64_t image = 0; image < images_; ++image) share_out_rows(call, image);
      } else {
        for_each_range(g_.channels, kChannelGrain, parts_, [&](int64_t begin, int64_t end) {
          for (int64_t image = 0; image < images_; ++image) {
            sum_rows(call, image, 0, {0, g_.rows().output}, {begin, end});
            add_image(call, image, {begin, end});
          }
        });
      }
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  static constexpr int64_t kLinesOfAPart = 2;

  int64_t points() const { return g_.rows().size * g_.columns().size; }
  int64_t part_floats() const {
    return ceil_div(points() * g_.channels, kChannelGrain) * kChannelGrain;
  }
  float* sums_of(const KernelCall& call, int part) const {
    return reinterpret_cast<float*>(call.scratch) + part * part_floats();
  }

  void share_out_rows(const KernelCall& call, int64_t image) const noexcept {
    const Range all{0, g_.channels};
    for_each_part(row_parts_, [&](int part) {
      const Range rows = part_of(g_.rows().output, 1, part, row_parts_);
      sum_rows(call, image, part, rows, all);
    });
    add_image(call, image, all);
  }

  // The sums of some rows of dy, and some channels, in a part's scratch.
  void sum_rows(const KernelCall& call, int64_t image, int part, const Range& rows,
                const Range& channels) const noexcept {
    float* sums = sums_of(call, part);
    const auto bytes = static_cast<size_t>((channels.end - channels.begin) * kFloat);
    for (int64_t p = 0; p < points(); ++p) {
      std::memset(sums + p * g_.channels + channels.begin, 0, bytes);
    }
    for (int64_t begin = channels.begin; begin < channels.end; begin += chunk_) {
      const Range chunk{begin, std::min(channels.end, begin + chunk_)};
      for (int64_t at = rows.begin; at < rows.end; ++at) add_row(call, image, at, chunk, sums);
    }
  }

  void add_row(const KernelCall& call, int64_t image, int64_t at, const Range& channels,
               float* sums) const noexcept {
    DepthwiseGradRow r;
    r.columns = g_.columns();
    r.all_channels = g_.channels;
    r.channels = channels.end - channels.begin;
    r.sums_column = g_.channels;
    const int64_t x_row = g_.columns().input * g_.channels;
    const int64_t dy_row = g_.columns().output * g_.channels;
    r.dy = input_floats(call, 1) + (image * g_.rows().output + at) * dy_row + channels.begin;
    for (int64_t i = 0; i < g_.rows().size; ++i) {
      const int64_t row = g_.rows().position(at, i);
      if (!g_.rows().inside(row)) continue;
      r.x = input_floats(call, 0) + (image * g_.rows().input + row) * x_row + channels.begin;
      r.sums = sums + i * g_.columns().size * g_.channels + channels.begin;
      loop_(r);
    }
  }

  void add_image(const KernelCall& call, int64_t image, const Range& channels) const noexcept {
    const bool add = !call.first || image > 0;
    for (int64_t p = 0; p < points(); ++p) {
      float* to = output_floats(call, 0) + p * g_.channels;
      for (int64_t c = channels.begin; c < channels.end; ++c) {
        float sum = sums_of(call, 0)[p * g_.channels + c];
        for (int part = 1; part < row_parts_; ++part) {
          sum += sums_of(call, part)[p * g_.channels + c];
        }
        to[c] = add ? to[c] + sum : sum;
      }
    }
  }

  ops::Conv2dGeometry g_;
  int64_t images_;
  bool bias_;
  int parts_;
  int row_parts_ = 1;  // that rows are summed in
  ColumnSums bias_sums_;
  int64_t chunk_;
  decltype(&generic::depthwise_grad_row) loop_;
};

template <typename Body>
CpuKernel made_of(const Body& body) {
  return kernel_of([body](const KernelCall& call) { body.run(call); }, body.scratch());
}

}  // namespace

bool is_depthwise_node(const NodeFacts& facts, const CpuOptions& options) {
  const bool to_source = facts.computes(graph::OpFamily::kConvolution, graph::OpPass::kGradInput);
  const bool to_kernel = facts.computes(graph::OpFamily::kConvolution, graph::OpPass::kGradKernel);
  if (!to_source && !to_kernel) return false;
  if (options.isa == Isa::kGeneric) return options.alone;
  if (facts.cut_inside_samples() || !ops::convolves_images(facts.types())) return false;
  const ops::Conv2dGeometry g = ops::conv2d_geometry(facts.op(), facts.types());
  if (!is_depthwise(g)) return false;
  const int64_t points = g.rows().size * g.columns().size;
  if (to_kernel) return points > 1;
  // The vendor has plain loops alone for bfloat16: it is widened, for whoever is faster then.
  if (facts.inputs[0].dtype == DType::kBFloat16) return points > 1;
  return points > 9 && g.rows().stride == 1 && g.columns().stride == 1;
}

CpuKernel make_depthwise(const NodeFacts& facts, const CpuOptions& options) {
  using graph::OpFamily;
  using graph::OpPass;
  const bool forward = facts.computes(OpFamily::kConvolution, OpPass::kForward);
  const bool to_source = facts.computes(OpFamily::kConvolution, OpPass::kGradInput);
  const bool to_kernel = facts.computes(OpFamily::kConvolution, OpPass::kGradKernel);
  if (!forward && !to_source && !to_kernel) return {};
  if (!options.alone && !is_depthwise_node(facts, options)) return {};
  if (!ops::convolves_images(facts.types())) return {};
  if (facts.inputs[0].dtype != DType::kFloat32 || facts.inputs[1].dtype != DType::kFloat32) {
    return {};
  }
  const ops::Conv2dGeometry g = ops::conv2d_geometry(facts.op(), facts.types());
  if (!is_depthwise(g)) return {};
  if (forward) return made_of(DepthwiseForward(facts, g, options));
  if (to_source) return made_of(DepthwiseGradInput(facts, g, options));
  return made_of(DepthwiseGradKernel(facts, g, options));
}

}  // namespace plimsoll::backend::cpu
