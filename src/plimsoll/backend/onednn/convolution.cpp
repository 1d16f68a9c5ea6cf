#include "backend/onednn/convolution.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "backend/cpu/conv/conv_pool.h"
#include "backend/cpu/simd/bfloat16.h"
#include "backend/onednn/convolution_operands.h"
#include "backend/onednn/convolution_shares.h"
#include "backend/onednn/convolution_tables.h"
#include "backend/onednn/repack.h"
#include "base/error.h"
#include "base/format.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::onednn {
namespace {

using dnnl::memory;

constexpr Bytes kLine{64};
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

int64_t element_of(const Convolution& c) { return c.bf16 ? 2 : kFloat; }

std::string key_of(const Convolution& c, std::string_view weights) {
  std::string key = fmt::format("conv{}", static_cast<int>(c.kind));
  const ops::Windows& window = c.geometry.window;
  const bool point = window.taps() == 1;
  if (point) key += "point";
  if (!point && c.geometry.groups > 1 && c.geometry.groups == c.geometry.channels) key += "channel";
  const auto add = [&](int64_t value) {
    key += ',';
    key += std::to_string(value);
  };
  const auto add_dimension = [&](const ops::Window& w) {
    for (int64_t value : {w.input, w.output, w.size, w.stride, w.dilation, w.before, w.after}) {
      add(value);
    }
  };
  add_dimension(window.rows());
  add_dimension(window.columns());
  if (window.rank() == 3) add_dimension(window.slabs());
  for (int64_t value : {c.geometry.channels, c.geometry.filters, c.geometry.groups, c.samples,
                        int64_t{c.bias}, int64_t{c.relu}}) {
    add(value);
  }
  if (c.bf16) key += c.pools() ? ",bf16,f32" : ",bf16";
  key += ',';
  key += weights;
  return key;
}

// Through the C functions: the C++ ones insist on a description of the forward pass, which takes
// milliseconds to make and is not needed here.
dnnl::primitive_desc_base describe(const Convolution& c, const memory::desc& weights) {
  const ops::Windows& window = c.geometry.window;
  dnnl_dims_t strides;
  dnnl_dims_t dilations;
  dnnl_dims_t before;
  dnnl_dims_t after;
  for (size_t i = 0; i < window.rank(); ++i) {
    const ops::Window& w = window[i];
    strides[i] = w.stride;
    dilations[i] = w.dilation - 1;
    before[i] = w.before;
    // What the windows do not reach at the end is not padding.
    after[i] = (w.output - 1) * w.stride + (w.size - 1) * w.dilation + 1 - w.input - w.before;
  }
  dnnl::primitive_attr attributes = base_attributes();
  if (c.relu) {
    dnnl::post_ops post_ops;
    append_relu(post_ops);
    attributes.set_post_ops(post_ops);
  }
  const memory::desc source = source_of(c);
  const memory::desc result = result_of(c);
  const memory::desc bias = c.bias ? bias_of(c) : memory::desc();
  const const_dnnl_memory_desc_t bias_handle = c.bias ? bias.get() : nullptr;
  dnnl_primitive_desc_t handle = nullptr;
  dnnl_status_t status = dnnl_success;
  switch (c.kind) {
    case ConvolutionKind::kForward:
      status = dnnl_convolution_forward_primitive_desc_create(
          &handle, engine().get(), dnnl_forward_training, dnnl_convolution_direct, source.get(),
          weights.get(), bias_handle, result.get(), strides, dilations, before, after,
          attributes.get());
      break;
    case ConvolutionKind::kGradInput:
      status = dnnl_convolution_backward_data_primitive_desc_create(
          &handle, engine().get(), dnnl_convolution_direct, source.get(), weights.get(),
          result.get(), strides, dilations, before, after, nullptr, attributes.get());
      break;
    case ConvolutionKind::kGradKernel:
      status = dnnl_convolution_backward_weights_primitive_desc_create(
          &handle, engine().get(), dnnl_convolution_direct, source.get(), weights.get(),
          bias_handle, result.get(), strides, dilations, before, after, nullptr, attributes.get());
      break;
  }
  dnnl::error::wrap_c_api(status, "describing a convolution");
  return dnnl::primitive_desc_base(handle);
}

memory::desc queried(const dnnl::primitive_desc_base& description, dnnl_query_t what) {
  const const_dnnl_memory_desc_t handle = dnnl_primitive_desc_query_md(description.get(), what, 0);
  dnnl_memory_desc_t copy = nullptr;
  dnnl::error::wrap_c_api(dnnl_memory_desc_clone(&copy, handle), "copying a memory description");
  return memory::desc(copy);
}

// Offset of the next piece of scratch after `bytes`.
Bytes aligned(Bytes bytes) { return round_up(bytes, kLine); }

// The primitive of one share and where its operands begin, in bytes.
struct ShareRun {
  PrimitiveRun run;
  size_t work = 0;
  int64_t source = 0;
  int64_t result = 0;
};

Bytes largest_scratch(const std::vector<std::shared_ptr<Compiled>>& compiled) {
  Bytes most;
  for (const auto& each : compiled) most = max(most, each->scratch);
  return most;
}

// y = conv(x, w), or dx = conv'(dy, w).
class MapKernel final : public Kernel {
 public:
  MapKernel(std::vector<ShareRun> shares, Repack::Run repack, Bytes share_scratch,
            ConvolutionKind kind, bool bias)
      : shares_(std::move(shares)),
        repack_(std::move(repack)),
        share_scratch_(aligned(share_scratch).count()),
        to_source_(kind == ConvolutionKind::kGradInput),
        bias_(bias) {}

  void run(const KernelCall& call) const noexcept override {
    repack_.prepare(call);
    cpu::for_each_part(static_cast<int>(shares_.size()), [&](int part) {
      const ShareRun& share = shares_[static_cast<size_t>(part)];
      const int64_t in = to_source_ ? share.result : share.source;
      const int64_t out = to_source_ ? share.source : share.result;
      std::array<std::byte*, 4> addresses = {call.inputs[0].data + in,
                                             repack_.weights(call, share.work),
                                             call.outputs[0].data + out, nullptr};
      if (bias_) addresses[3] = call.inputs[2].data;
      share.run.run(std::span(addresses).first(bias_ ? 4 : 3),
                    call.scratch + part * share_scratch_);
    });
  }

 private:
  std::vector<ShareRun> shares_;
  Repack::Run repack_;
  int64_t share_scratch_;
  bool to_source_;
  bool bias_;
};

// A tail as a full block: its rows are copied in front of rows of zeros.
class PaddedKernel final : public Kernel {
 public:
  struct Sizes {
    Bytes input, padded_input, output, padded_output;
  };
  PaddedKernel(std::unique_ptr<Kernel> block, Bytes block_scratch, const Sizes& sizes)
      : block_(std::move(block)), block_scratch_(block_scratch), sizes_(sizes) {}

  static Bytes scratch(Bytes block_scratch, const Sizes& sizes) {
    return aligned(block_scratch) + aligned(sizes.padded_input) + sizes.padded_output;
  }

  void run(const KernelCall& call) const noexcept override {
    std::byte* input = call.scratch + aligned(block_scratch_).size();
    std::byte* output = input + aligned(sizes_.padded_input).size();
    std::memcpy(input, call.inputs[0].data, sizes_.input.size());
    std::memset(input + sizes_.input.size(), 0, (sizes_.padded_input - sizes_.input).size());
    constexpr size_t kMostInputs = 3;
    std::array<Operand, kMostInputs> inputs;
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    inputs[0].data = input;
    Operand result = call.outputs[0];
    result.data = output;
    KernelCall padded = call;
    padded.inputs = std::span(inputs).first(call.inputs.size());
    padded.outputs = std::span(&result, 1);
    block_->run(padded);
    std::memcpy(call.outputs[0].data, output, sizes_.output.size());
  }

 private:
  std::unique_ptr<Kernel> block_;
  Bytes block_scratch_;
  Sizes sizes_;
};

// Where the pieces of a weight gradient's scratch begin in a share's.
struct GradientScratch {
  Bytes kernel, bias, all;
};
GradientScratch gradient_scratch(const Convolution& c,
                                 const std::vector<std::shared_ptr<Compiled>>& compiled) {
  GradientScratch s;
  s.kernel = aligned(largest_scratch(compiled));
  s.bias = aligned(s.kernel + packed_layout(compiled[0]->weights).bytes());
  const int64_t bias_elements = c.bias ? c.geometry.filters : 0;
  s.all = aligned(s.bias + Bytes(bias_elements * kFloat));
  return s;
}

// Rows of a convolution, pooled as they come.
class PooledKernel final : public Kernel {
 public:
  // `runs`: for each part, one per size of share.
  PooledKernel(std::vector<PrimitiveRun> runs, Repack::Run repack, const Shares& shares,
               const Convolution& c, int parts, Bytes primitive_scratch, Bytes pooled_scratch,
               Bytes part_scratch, cpu::Isa isa)
      : runs_(std::move(runs)),
        repack_(std::move(repack)),
        shares_(shares),
        pooling_({c.geometry, c.pool_rows, c.pool_columns, c.relu}, isa),
        pool_rows_(c.pool_rows),
        pooled_row_(c.geometry.columns().output / c.pool_columns * c.geometry.filters),
        parts_(parts),
        primitive_scratch_(primitive_scratch.count()),
        pooled_scratch_(pooled_scratch.count()),
        part_scratch_(part_scratch.count()),
        isa_(isa),
        element_(element_of(c)),
        bf16_(c.bf16),
        bias_(c.bias) {}

  void run(const KernelCall& call) const noexcept override {
    repack_.prepare(call);
    const auto count = static_cast<int64_t>(shares_.shares.size());
    cpu::for_each_part(parts_, [&](int part) {
      const cpu::Range mine = cpu::part_of(count, 1, part, parts_);
      for (int64_t i = mine.begin; i < mine.end; ++i) run_share(call, part, i);
    });
  }

 private:
  void run_share(const KernelCall& call, int part, int64_t i) const noexcept {
    const Share& share = shares_.shares[static_cast<size_t>(i)];
    const size_t run = static_cast<size_t>(part) * shares_.works.size() + share.work;
    std::byte* scratch = call.scratch + part * part_scratch_;
    std::byte* result = scratch + primitive_scratch_;
    std::array<std::byte*, 4> addresses = {call.inputs[0].data + share.source * element_,
                                           repack_.weights(call, share.work), result, nullptr};
    if (bias_) addresses[3] = call.inputs[2].data;
    runs_[run].run(std::span(addresses).first(bias_ ? 4 : 3), scratch);
    const int64_t rows = shares_.works[share.work].geometry.rows().output / pool_rows_;
    std::byte* y = call.outputs[0].data;
    std::byte* winners = call.outputs[1].data;
    float* pooled = nullptr;
    if (y != nullptr) {
      pooled = bf16_ ? reinterpret_cast<float*>(scratch + pooled_scratch_)
                     : reinterpret_cast<float*>(y) + share.result;
    }
    pooling_.run(reinterpret_cast<const float*>(result), rows, pooled,
                 winners == nullptr ? nullptr : reinterpret_cast<uint8_t*>(winners) + share.result);
    if (bf16_ && y != nullptr) {
      cpu::round_numbers(pooled, reinterpret_cast<uint16_t*>(y) + share.result, rows * pooled_row_,
                         isa_);
    }
  }

  std::vector<PrimitiveRun> runs_;
  Repack::Run repack_;
  Shares shares_;
  cpu::ConvPooling pooling_;
  int64_t pool_rows_;
  int64_t pooled_row_;
  int parts_;
  int64_t primitive_scratch_;
  int64_t pooled_scratch_;
  int64_t part_scratch_;
  cpu::Isa isa_;
  int64_t element_;
  bool bf16_;
  bool bias_;
};

class GradKernelKernel final : public Kernel {
 public:
  GradKernelKernel(std::vector<ShareRun> shares, const Convolution& c, const PackedLayout& layout,
                   const GradientScratch& scratch, int most_parts)
      : shares_(std::move(shares)),
        mover_(layout, most_parts),
        scratch_(scratch),
        elements_(layout.bytes().count() / kFloat),
        parts_(cpu::parts_for(layout.bytes().count(), most_parts)),
        filters_(c.bias ? c.geometry.filters : 0) {}

  void run(const KernelCall& call) const noexcept override {
    cpu::for_each_part(static_cast<int>(shares_.size()), [&](int part) {
      const ShareRun& share = shares_[static_cast<size_t>(part)];
      std::byte* scratch = call.scratch + part * scratch_.all.count();
      const std::array<std::byte*, 4> addresses = {
          call.inputs[0].data + share.source, call.inputs[1].data + share.result,
          scratch + scratch_.kernel.count(), scratch + scratch_.bias.count()};
      share.run.run(std::span(addresses).first(filters_ > 0 ? 4 : 3), scratch);
    });
    const FlushDenormals flush;
    if (call.outputs[0].data != nullptr) {
      cpu::for_each_range(elements_, kLine.count(), parts_, [&](int64_t begin, int64_t end) {
        add_shares(call.scratch + scratch_.kernel.count(), begin, end);
      });
      mover_.unpack(reinterpret_cast<const float*>(call.scratch + scratch_.kernel.count()),
                    reinterpret_cast<float*>(call.outputs[0].data), !call.first);
    }
    if (filters_ > 0 && call.outputs[1].data != nullptr) {
      add_shares(call.scratch + scratch_.bias.count(), 0, filters_);
      const auto* from = reinterpret_cast<const float*>(call.scratch + scratch_.bias.count());
      auto* to = reinterpret_cast<float*>(call.outputs[1].data);
      for (int64_t i = 0; i < filters_; ++i) to[i] = call.first ? from[i] : to[i] + from[i];
    }
  }

 private:
  // Adds the other shares' numbers to the first one's.
  void add_shares(std::byte* first, int64_t begin, int64_t end) const noexcept {
    auto* sums = reinterpret_cast<float*>(first);
    for (size_t share = 1; share < shares_.size(); ++share) {
      const auto* more = reinterpret_cast<const float*>(first + static_cast<int64_t>(share) *
                                                                    scratch_.all.count());
      for (int64_t i = begin; i < end; ++i) sums[i] += more[i];
    }
  }

  std::vector<ShareRun> shares_;
  WeightMover mover_;
  GradientScratch scratch_;
  int64_t elements_;
  int parts_;
  int64_t filters_;  // 0: no bias
};

Bytes sample_bytes(const memory::desc& description, const Convolution& c) {
  return Bytes(static_cast<int64_t>(description.get_size()) / c.samples);
}

PaddedKernel::Sizes padded_sizes(const Convolution& c) {
  const bool forward = c.kind == ConvolutionKind::kForward;
  const Bytes source = sample_bytes(source_of(c), c);
  const Bytes result = sample_bytes(result_of(c), c);
  const Bytes in = forward ? source : result;
  const Bytes out = forward ? result : source;
  return {in * c.samples, in * c.block_samples, out * c.samples, out * c.block_samples};
}

Convolution full_block(Convolution c) {
  c.samples = c.block_samples;
  if (c.model_rows) c.geometry.window[0] = *c.model_rows;
  return c;
}

std::vector<Argument> arguments_of(const Convolution& c, const memory::desc& weights) {
  const memory::desc source = source_of(c);
  const memory::desc result = result_of(c);
  std::vector<Argument> arguments;
  switch (c.kind) {
    case ConvolutionKind::kForward:
      arguments = {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}};
      if (c.bias) arguments.push_back({DNNL_ARG_BIAS, bias_of(c)});
      break;
    case ConvolutionKind::kGradInput:
      arguments = {
          {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, source}};
      break;
    case ConvolutionKind::kGradKernel:
      arguments = {
          {DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_DIFF_WEIGHTS, weights}};
      if (c.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, bias_of(c)});
      break;
  }
  return arguments;
}

// Threads that share out the pieces of a pooled convolution, and what each of them needs.
int pooled_parts(const Shares& shares, int most_parts) {
  double flops = 0;
  for (const Share& share : shares.shares) {
    const ops::ConvGeometry& g = shares.works[share.work].geometry;
    flops +=
        2.0 * static_cast<double>(g.window.outputs()) * static_cast<double>(g.kernel_elements());
  }
  constexpr double kFlopsWorthATeam = 1e6;
  if (flops < kFlopsWorthATeam) return 1;
  return static_cast<int>(std::min<size_t>(static_cast<size_t>(most_parts), shares.shares.size()));
}
struct PooledScratch {
  Bytes pooled, all;
};
PooledScratch pooled_scratch(const Shares& shares,
                             const std::vector<std::shared_ptr<Compiled>>& compiled) {
  Bytes result;
  Bytes pooled;
  for (const Convolution& work : shares.works) {
    const Bytes bytes(static_cast<int64_t>(result_of(work).get_size()));
    result = max(result, bytes);
    if (!work.bf16) continue;
    pooled = max(pooled, Bytes(bytes.count() / (work.pool_rows * work.pool_columns)));
  }
  PooledScratch s;
  s.pooled = aligned(aligned(largest_scratch(compiled)) + result);
  s.all = s.pooled + aligned(pooled);
  return s;
}

// The library's gradient of single points with strides writes beyond its scratch where the channels
// do not fill its vectors (oneDNN 3.2, jit_1x1).
bool overruns(const Convolution& c) {
  const ops::ConvGeometry& g = c.geometry;
  constexpr int64_t kVector = 16;
  const auto strides = [](const ops::Window& w) { return w.stride > 1; };
  return c.kind == ConvolutionKind::kGradKernel && g.window.taps() == 1 &&
         std::ranges::any_of(g.window, strides) && g.group_channels() % kVector != 0;
}

// What is tried weighs up to 2.4 KiB a column, which a start has room for where rows are short. It
// was met for weights in a layout of its own choice, unless channel and filter are single.
bool tries_much(const Convolution& c) {
  constexpr int64_t kLongRow = 512;
  const ops::ConvGeometry& g = c.geometry;
  return c.kind == ConvolutionKind::kGradInput && g.columns().input >= kLongRow &&
         g.rows().stride == 1 && g.columns().stride == 1 && (g.channels > 1 || g.filters > 1);
}

}  // namespace

std::optional<Convolution> read_convolution(const cpu::NodeFacts& facts, int64_t block_samples,
                                            bool bf16) {
  const graph::OpWork work = facts.work();
  const bool pools = work.fusion == graph::OpFusion::kPool;
  if (work.family != graph::OpFamily::kConvolution) return std::nullopt;
  if (pools && work.pass != graph::OpPass::kForward) return std::nullopt;
  Convolution c;
  c.kind = work.pass == graph::OpPass::kForward     ? ConvolutionKind::kForward
           : work.pass == graph::OpPass::kGradInput ? ConvolutionKind::kGradInput
                                                    : ConvolutionKind::kGradKernel;
  c.bf16 = facts.inputs[0].dtype == DType::kBFloat16;
  if (c.bf16 ? !bf16 : facts.inputs[0].dtype != DType::kFloat32) return std::nullopt;
  if (pools) {
    const ops::Conv2dPoolGeometry g = ops::conv2d_pool_geometry(facts.op(), facts.types());
    c.geometry = g.conv;
    c.pool_rows = g.pool_rows;
    c.pool_columns = g.pool_columns;
  } else {
    c.geometry = ops::conv_geometry(facts.op(), facts.types());
  }
  if (overruns(c)) return std::nullopt;
  c.samples = facts.samples() * facts.inputs[0].shape[0].count;
  c.block_samples = block_samples * facts.inputs[0].shape[0].count;
  c.bias = facts.attributes.get_bool("use_bias", false) && c.kind != ConvolutionKind::kGradInput;
  c.relu = c.kind == ConvolutionKind::kForward &&
           facts.attributes.get_string("activation", "linear") == "relu";
  c.packed = c.kind != ConvolutionKind::kGradKernel && facts.inputs[1].dtype == DType::kOpaque;
  return c;
}

int64_t columns_of_key(std::string_view key) {
  // "conv0,input,output,size,stride,dilation,before,after,input,…": rows, then columns, then slabs.
  constexpr int kNumbersOfRows = 7;
  if (!key.starts_with("conv")) return 0;
  for (int i = 0; i <= kNumbersOfRows; ++i) {
    const size_t comma = key.find(',');
    if (comma == std::string_view::npos) return 0;
    key.remove_prefix(comma + 1);
  }
  int64_t columns = 0;
  std::from_chars(key.data(), key.data() + key.size(), columns);
  return columns;
}

std::shared_ptr<Compiled> Convolutions::compiled_with(const Convolution& c,
                                                      const memory::desc& weights,
                                                      std::string_view weights_key) const {
  return cache_.get(key_of(c, weights_key), [&] {
    auto result = std::make_shared<Compiled>();
    guarded("a convolution", [&] {
      result->take([c, weights] { return describe(c, weights); }, most_described(c));
      const bool gradient = c.kind == ConvolutionKind::kGradKernel;
      result->weights = queried(result->description,
                                gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
      if (weights_key != "plain" && tries_much(c)) {
        result->take_tried(c.geometry.columns().input);
      }
    });
    return result;
  });
}

// A call's shares, what each size of them runs, and the weights that are laid out for them.
struct Convolutions::Prepared {
  Shares shares;
  AllCompiled all;
  Repack repack;
  AllCompiled rejected;  // whose place others take
};

// Every weight gradient has the layout of the first share, every packed weight that of the first
// share of a full block.
Convolutions::AllCompiled Convolutions::compiled(const Convolution& c,
                                                 const std::vector<Convolution>& works) const {
  const bool gradient = c.kind == ConvolutionKind::kGradKernel;
  AllCompiled all;
  if (!gradient && !c.packed) {
    for (const Convolution& work : works) {
      all.push_back(compiled_with(work, plain_weights(c), "plain"));
    }
    return all;
  }
  const Convolution model = gradient ? works[0] : share_out(full_block(c), most_parts_).works[0];
  const std::shared_ptr<Compiled> liked = compiled_with(model, any_weights(c), "any");
  const std::string layout = print(packed_layout(liked->weights));
  for (const Convolution& work : works) {
    const bool same = key_of(work, "any") == key_of(model, "any");
    all.push_back(same ? liked : compiled_with(work, liked->weights, layout));
  }
  return all;
}

// What would be slow runs on weights in the layout that it likes (repack.h).
Convolutions::Prepared Convolutions::prepare(const Convolution& c) const {
  Prepared p;
  p.shares = share_out(c, most_parts_);
  p.all = compiled(c, p.shares.works);
  const memory::desc given = p.all[0]->weights;
  if (c.kind != ConvolutionKind::kGradKernel && !c.bf16) {
    for (size_t i = 0; i < p.all.size(); ++i) {
      if (!is_slow(*p.all[i])) continue;
      const auto own = compiled_with(p.shares.works[i], any_weights(c), "any");
      if (is_slow(*own)) continue;
      p.all[i]->forget_description();
      p.rejected.push_back(p.all[i]);
      p.all[i] = own;
    }
  }
  p.repack = Repack(given, p.all, c.packed);
  return p;
}

bool Convolutions::runs_padded(const Convolution& c) const {
  if (!c.packed || c.pools() || c.samples == c.block_samples) return false;
  const AllCompiled tail = compiled(c, share_out(c, most_parts_).works);
  return std::ranges::any_of(tail, [](const auto& each) { return is_slow(*each); });
}

std::optional<PackedLayout> Convolutions::wanted_layout(const Convolution& c) const {
  if (c.kind == ConvolutionKind::kGradKernel) return std::nullopt;
  const std::vector<Convolution> works = share_out(full_block(c), most_parts_).works;
  const Convolution& block = works[0];
  const std::shared_ptr<Compiled> liked = compiled_with(block, any_weights(c), "any");
  const std::shared_ptr<Compiled> plain = compiled_with(block, plain_weights(c), "plain");
  bool pays = liked->implementation != plain->implementation;
  if (pays && !is_slow(*liked)) {
    const std::string layout = print(packed_layout(liked->weights));
    for (const Convolution& work : works) {
      if (key_of(work, "any") == key_of(block, "any")) continue;
      pays = pays && !is_slow(*compiled_with(work, liked->weights, layout));
    }
  }
  // Nobody is going to run the other one.
  (pays ? plain : liked)->forget_description();
  return pays ? std::optional(packed_layout(liked->weights)) : std::nullopt;
}

// Counts those that are only described to be compared, by wanted_layout() too where both live at
// once.
Bytes Convolutions::passing(const Convolution& c, const Prepared& p) const {
  if (c.kind == ConvolutionKind::kGradKernel) return {};
  AllCompiled rejected = p.rejected;
  const Convolution block = share_out(full_block(c), most_parts_).works[0];
  rejected.push_back(compiled_with(block, any_weights(c), "any"));
  rejected.push_back(compiled_with(block, plain_weights(c), "plain"));
  std::ranges::sort(rejected);
  rejected.erase(std::unique(rejected.begin(), rejected.end()), rejected.end());
  Bytes total;
  for (const auto& each : rejected) {
    if (std::ranges::find(p.all, each) != p.all.end()) continue;
    each->forget_description();
    total += each->most_tables();
  }
  return total;
}

std::vector<PrimitiveUse> Convolutions::uses(const Convolution& c, cpu::Isa isa) const {
  const Prepared p = prepare(c);
  const Bytes passing = this->passing(c, p);
  std::vector<PrimitiveUse> uses;
  for (size_t w = 0; w < p.shares.works.size(); ++w) {
    const Compiled& compiled = *p.all[w];
    const Bytes tables = table_bytes(p.shares.works[w], compiled, isa == cpu::Isa::kAvx512);
    // What is tried is gone before its own tables are there.
    uses.push_back({key_of(p.shares.works[w], c.packed ? "packed" : "plain"),
                    compiled.multiplies_matrices(),
                    compiled.tables,
                    tables,
                    max(passing, compiled.tried - tables),
                    compiled.making(tables),
                    code_bytes(p.shares.works[w]),
                    {},
                    compiled.is_direct()});
  }
  std::vector<PackedLayout> moved = p.repack.layouts();
  if (c.kind == ConvolutionKind::kGradKernel) moved.push_back(packed_layout(p.all[0]->weights));
  for (const PackedLayout& layout : moved) {
    uses[0].moves.emplace_back(print(layout), offset_table_bytes(layout));
  }
  return uses;
}

Bytes Convolutions::scratch(const Convolution& c) const {
  if (runs_padded(c)) return PaddedKernel::scratch(scratch(full_block(c)), padded_sizes(c));
  const Prepared p = prepare(c);
  if (c.kind == ConvolutionKind::kGradKernel) {
    return gradient_scratch(c, p.all).all * static_cast<int64_t>(p.shares.shares.size());
  }
  return share_scratch(c, p) + p.repack.scratch();
}

Bytes Convolutions::share_scratch(const Convolution& c, const Prepared& p) const {
  if (c.pools()) return pooled_scratch(p.shares, p.all).all * pooled_parts(p.shares, most_parts_);
  return aligned(largest_scratch(p.all)) * static_cast<int64_t>(p.shares.shares.size());
}

std::unique_ptr<Kernel> Convolutions::make_pooled(const Convolution& c, cpu::Isa isa) const {
  const Prepared p = prepare(c);
  const int parts = pooled_parts(p.shares, most_parts_);
  std::vector<PrimitiveRun> runs;
  for (int part = 0; part < parts; ++part) {
    for (size_t w = 0; w < p.shares.works.size(); ++w) {
      runs.emplace_back(p.all[w], arguments_of(p.shares.works[w], p.all[w]->weights));
    }
  }
  const PooledScratch scratch = pooled_scratch(p.shares, p.all);
  return std::make_unique<PooledKernel>(
      std::move(runs), Repack::Run(p.repack, share_scratch(c, p), most_parts_), p.shares, c, parts,
      aligned(largest_scratch(p.all)), scratch.pooled, scratch.all, isa);
}

std::unique_ptr<Kernel> Convolutions::make(const Convolution& c, cpu::Isa isa) const {
  if (c.pools()) return make_pooled(c, isa);
  if (runs_padded(c)) {
    return std::make_unique<PaddedKernel>(make(full_block(c), isa), scratch(full_block(c)),
                                          padded_sizes(c));
  }
  const Prepared p = prepare(c);
  std::vector<ShareRun> runs;
  for (const Share& share : p.shares.shares) {
    const std::shared_ptr<Compiled>& compiled = p.all[share.work];
    runs.push_back(
        {PrimitiveRun(compiled, arguments_of(p.shares.works[share.work], compiled->weights)),
         share.work, share.source * element_of(c), share.result * element_of(c)});
  }
  if (c.kind != ConvolutionKind::kGradKernel) {
    return std::make_unique<MapKernel>(std::move(runs),
                                       Repack::Run(p.repack, share_scratch(c, p), most_parts_),
                                       largest_scratch(p.all), c.kind, c.bias);
  }
  return std::make_unique<GradKernelKernel>(std::move(runs), c, packed_layout(p.all[0]->weights),
                                            gradient_scratch(c, p.all), most_parts_);
}

}  // namespace plimsoll::backend::onednn
