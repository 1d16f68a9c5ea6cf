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

class DepthwiseForward {
 public:
  DepthwiseForward(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        bias_(facts.inputs.size() > 2),
        relu_(facts.attributes.get_string("activation", "linear") == "relu"),
        parts_(parts_for(images_ * image_bytes(g), options.threads)),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_row)) {}

  Bytes scratch() const { return Bytes(0); }

  void run(const KernelCall& call) const noexcept {
    const int64_t rows = g_.rows().output;
    for_each_range(images_ * rows, 1, parts_, [&](int64_t begin, int64_t end) {
      DepthwiseRow r;
      r.columns = g_.columns();
      r.channels = g_.channels;
      r.x_row = g_.columns().input * g_.channels;
      r.w = input_floats(call, 1);
      r.w_row = g_.columns().size * g_.channels;
      r.w_column = g_.channels;
      r.bias = bias_ ? input_floats(call, 2) : nullptr;
      r.relu = relu_;
      r.y_column = g_.channels;
      for (int64_t at = begin; at < end; ++at) {
        r.x = input_floats(call, 0) + at / rows * g_.rows().input * r.x_row;
        r.y = output_floats(call, 0) + at * g_.columns().output * g_.channels;
        find_taps(g_.rows(), at % rows, r);
        loop_(r);
      }
    });
  }

 private:
  ops::Conv2dGeometry g_;
  int64_t images_;
  bool bias_, relu_;
  int parts_;
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
        parts_(parts_for(images_ * image_bytes(g), options.threads)),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_row)) {}

  Bytes scratch() const { return Bytes(0); }

  void run(const KernelCall& call) const noexcept {
    for_each_range(images_ * g_.rows().input, 1, parts_, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) run_row(call, at);
    });
  }

 private:
  void run_row(const KernelCall& call, int64_t at) const noexcept {
    const int64_t row = at % g_.rows().input;
    const auto strides = std::ssize(rows_);
    const GradientPhase& rows = rows_[static_cast<size_t>(row % strides)];
    DepthwiseRow r;
    r.channels = g_.channels;
    r.x_row = g_.columns().output * g_.channels;
    r.x = input_floats(call, 0) + at / g_.rows().input * g_.rows().output * r.x_row;
    const int64_t kernel_row = g_.columns().size * g_.channels;
    r.w_row = rows.tap_step * kernel_row;
    find_taps(rows.window, row / strides, r);
    for (const GradientPhase& columns : columns_) {
      r.columns = columns.window;
      r.w = input_floats(call, 1) + rows.tap * kernel_row + columns.tap * g_.channels;
      r.w_column = columns.tap_step * g_.channels;
      r.y = output_floats(call, 0) + (at * g_.columns().input + columns.first) * g_.channels;
      r.y_column = columns.step * g_.channels;
      loop_(r);
    }
  }

  ops::Conv2dGeometry g_;
  int64_t images_;
  std::vector<GradientPhase> rows_, columns_;
  int parts_;
  decltype(&generic::depthwise_row) loop_;
};

// Threads share out channels. An image's sums are added up before they are added to the others'.
class DepthwiseGradKernel {
 public:
  DepthwiseGradKernel(const NodeFacts& facts, const ops::Conv2dGeometry& g,
                      const CpuOptions& options)
      : g_(g),
        images_(images_of(facts)),
        bias_(facts.outputs.size() > 1),
        parts_(parts_for(images_ * image_bytes(g), options.threads)),
        bias_sums_(images_ * g.rows().output * g.columns().output, g.channels, options.isa,
                   options.threads),
        loop_(PLIMSOLL_PICK(options.isa, depthwise_grad_row)) {}

  Bytes scratch() const { return Bytes(points() * g_.channels * kFloat); }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      for_each_range(g_.channels, kChannelGrain, parts_, [&](int64_t begin, int64_t end) {
        for (int64_t image = 0; image < images_; ++image) add_image(call, image, begin, end);
      });
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  int64_t points() const { return g_.rows().size * g_.columns().size; }

  void add_image(const KernelCall& call, int64_t image, int64_t begin, int64_t end) const noexcept {
    auto* sums = reinterpret_cast<float*>(call.scratch);
    const auto bytes = static_cast<size_t>((end - begin) * kFloat);
    for (int64_t p = 0; p < points(); ++p) std::memset(sums + p * g_.channels + begin, 0, bytes);
    DepthwiseGradRow r;
    r.columns = g_.columns();
    r.all_channels = g_.channels;
    r.channels = end - begin;
    r.sums_column = g_.channels;
    const int64_t x_row = g_.columns().input * g_.channels;
    const int64_t dy_row = g_.columns().output * g_.channels;
    for (int64_t at = 0; at < g_.rows().output; ++at) {
      r.dy = input_floats(call, 1) + (image * g_.rows().output + at) * dy_row + begin;
      for (int64_t i = 0; i < g_.rows().size; ++i) {
        const int64_t row = g_.rows().position(at, i);
        if (!g_.rows().inside(row)) continue;
        r.x = input_floats(call, 0) + (image * g_.rows().input + row) * x_row + begin;
        r.sums = sums + i * g_.columns().size * g_.channels + begin;
        loop_(r);
      }
    }
    const bool add = !call.first || image > 0;
    for (int64_t p = 0; p < points(); ++p) {
      float* to = output_floats(call, 0) + p * g_.channels;
      const float* from = sums + p * g_.channels;
      for (int64_t c = begin; c < end; ++c) to[c] = add ? to[c] + from[c] : from[c];
    }
  }

  ops::Conv2dGeometry g_;
  int64_t images_;
  bool bias_;
  int parts_;
  ColumnSums bias_sums_;
  decltype(&generic::depthwise_grad_row) loop_;
};

template <typename Body>
CpuKernel made_of(const Body& body) {
  return kernel_of([body](const KernelCall& call) { body.run(call); }, body.scratch());
}

}  // namespace

CpuKernel make_depthwise(const NodeFacts& facts, const CpuOptions& options) {
  using graph::OpFamily;
  using graph::OpPass;
  const bool forward = facts.computes(OpFamily::kConvolution, OpPass::kForward);
  const bool to_source = facts.computes(OpFamily::kConvolution, OpPass::kGradInput);
  const bool to_kernel = facts.computes(OpFamily::kConvolution, OpPass::kGradKernel);
  if (!options.alone || (!forward && !to_source && !to_kernel)) return {};
  if (!ops::convolves_images(facts.types())) return {};
  if (facts.inputs[0].dtype != DType::kFloat32 || facts.inputs[1].dtype != DType::kFloat32) {
    return {};
  }
  const ops::Conv2dGeometry g = ops::conv2d_geometry(facts.op(), facts.types());
  if (g.groups == 1 || g.groups != g.channels || g.filters != g.channels) return {};
  if (forward) return made_of(DepthwiseForward(facts, g, options));
  if (to_source) return made_of(DepthwiseGradInput(facts, g, options));
  return made_of(DepthwiseGradKernel(facts, g, options));
}

}  // namespace plimsoll::backend::cpu
