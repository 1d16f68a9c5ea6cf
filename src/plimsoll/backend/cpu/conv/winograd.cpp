#include "backend/cpu/conv/winograd.h"

#include <algorithm>
#include <charconv>

#include "backend/cpu/conv/winograd_chunk.h"
#include "backend/cpu/families.h"
#include "backend/kernel/widened.h"
#include "base/ceil_div.h"
#include "base/error.h"
#include "base/format.h"
#include "ops/image/conv2d_pool.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/winograd_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// With fewer channels the transformations take as long as the products that they save.
constexpr int64_t kLeastChannels = 16;
// With smaller images tiles reach beyond the edges, and are too few to pay for the weights' form.
constexpr int64_t kLeastColumns = 7;
constexpr double kFlopsWorthATeam = 1e6;

bool is_3x3(const ops::Window& w) { return w.size == 3 && w.stride == 1 && w.dilation == 1; }

bool pools(const NodeFacts& facts) {
  return facts.computes(OpFamily::kConvolution, OpPass::kForward, OpFusion::kPool);
}
bool goes_forward(const NodeFacts& facts) {
  return facts.computes(OpFamily::kConvolution, OpPass::kForward) || pools(facts);
}
bool goes_to_source(const NodeFacts& facts) {
  return facts.computes(OpFamily::kConvolution, OpPass::kGradInput);
}
bool goes_to_kernel(const NodeFacts& facts) {
  return facts.computes(OpFamily::kConvolution, OpPass::kGradKernel);
}

ops::Conv2dGeometry geometry_of(const NodeFacts& facts) {
  if (pools(facts)) return ops::conv2d_pool_geometry(facts.op(), facts.types()).conv;
  return ops::conv2d_geometry(facts.op(), facts.types());
}

int64_t panel_of(const CpuOptions& options) { return PLIMSOLL_PICK(options.isa, winograd_panel)(); }

bool pools_2x2(const NodeFacts& facts) {
  const ops::Conv2dPoolGeometry g = ops::conv2d_pool_geometry(facts.op(), facts.types());
  return g.pool_rows == 2 && g.pool_columns == 2;
}

// What is left over of the last panel is multiplied too.
bool fills_panels(int64_t filters, int64_t panel) {
  return filters * 5 >= round_up(filters, panel) * 3;
}

void pack(const WinogradPack& p, Isa isa, int most_parts) noexcept {
  const auto loop = PLIMSOLL_PICK(isa, pack_panel);
  const int parts = parts_for(p.weights.bytes().count(), most_parts);
  for_each_range(p.weights.panels(), 1, parts, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) loop(p, panel);
  });
}

class WinogradConvolution {
 public:
  WinogradConvolution(const NodeFacts& facts, const CpuOptions& options)
      : images_(winograd_images(facts)),
        weights_(winograd_weights(facts, options)),
        isa_(options.isa),
        most_parts_(options.parts),
        packed_(facts.inputs[1].dtype == DType::kOpaque),
        bias_(goes_forward(facts) && facts.attributes.get_bool("use_bias", false)),
        relu_(goes_forward(facts) && facts.attributes.get_string("activation", "linear") == "relu"),
        pools_(pools(facts)),
        tiles_(facts.samples() * facts.inputs[0].shape[0].count * images_.tiles()) {
    const double flops = 2.0 * kWinogradProducts * static_cast<double>(tiles_) *
                         static_cast<double>(images_.channels * images_.filters);
    const int64_t most_parts = flops < kFlopsWorthATeam ? 1 : most_parts_;
    const int64_t iterations = ceil_div(tiles_, kWinogradTiles * most_parts);
    chunk_ = ceil_div(tiles_, iterations * most_parts);
    chunks_ = ceil_div(tiles_, chunk_);
    parts_ = static_cast<int>(std::min<int64_t>(most_parts, chunks_));
    part_floats_ = round_up(winograd_scratch(images_, chunk_, weights_.panel).floats(),
                            WinogradScratch::kLine);
  }

  // [a chunk's] a part, then [weights] where they come plain.
  Bytes scratch() const {
    const Bytes parts(parts_ * part_floats_ * static_cast<int64_t>(sizeof(float)));
    return packed_ ? parts : parts + weights_.bytes();
  }

  void run(const KernelCall& call) const noexcept {
    auto* scratch = reinterpret_cast<float*>(call.scratch);
    WinogradChunk chunk;
    chunk.images = images_;
    chunk.x = input_floats(call, 0);
    chunk.y = output_floats(call, 0);
    chunk.bias = bias_ ? input_floats(call, 2) : nullptr;
    chunk.relu = relu_;
    chunk.pools = pools_;
    if (pools_) chunk.winners = output_as<uint8_t>(call, 1);
    chunk.weights = packed_ ? input_floats(call, 1) : scratch + parts_ * part_floats_;
    if (!packed_) {
      pack({weights_, input_floats(call, 1), scratch + parts_ * part_floats_}, isa_, most_parts_);
    }
    const auto loop = PLIMSOLL_PICK(isa_, convolve_chunk);
    for_each_part(parts_, [&](int part) {
      WinogradChunk own = chunk;
      own.scratch = scratch + part * part_floats_;
      const Range range = part_of(chunks_, 1, part, parts_);
      for (int64_t c = range.begin; c < range.end; ++c) {
        own.first = c * chunk_;
        own.count = std::min(chunk_, tiles_ - own.first);
        loop(own);
      }
    });
  }

 private:
  WinogradImages images_;
  WinogradWeights weights_;
  Isa isa_;
  int most_parts_;
  bool packed_, bias_, relu_, pools_;
  int64_t tiles_;  // of all images
  int64_t chunk_ = 1, chunks_ = 1;
  int parts_ = 1;
  int64_t part_floats_ = 0;
};

// The number after `name` at the front of what is left of a layout, which it is taken off.
int64_t take_number(std::string_view& left, std::string_view name) {
  if (!left.starts_with(name)) return -1;
  left.remove_prefix(name.size());
  int64_t number = -1;
  const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), number);
  if (error != std::errc()) return -1;
  left.remove_prefix(static_cast<size_t>(end - left.data()));
  return number;
}

constexpr std::string_view kPrefix = "winograd";
constexpr std::string_view kRotated = ":turned";
constexpr int64_t kMostUnits = int64_t{1} << 24;  // of a layout that comes from a file

}  // namespace

bool is_winograd_node(const NodeFacts& facts, const CpuOptions& options) {
  if (!kHasVariants || options.isa == Isa::kGeneric || facts.cut_inside_samples()) {
    return false;
  }
  const bool to_kernel = goes_to_kernel(facts);
  if (!goes_forward(facts) && !goes_to_source(facts) && !to_kernel) return false;
  if (!ops::convolves_images(facts.types())) return false;
  if (facts.inputs[0].dtype != DType::kFloat32) return false;
  const DType second = facts.inputs[1].dtype;
  if (second != DType::kFloat32 && (to_kernel || second != DType::kOpaque)) return false;
  if (pools(facts) && !pools_2x2(facts)) return false;
  const ops::Conv2dGeometry g = geometry_of(facts);
  if (!is_3x3(g.rows()) || !is_3x3(g.columns()) || g.groups != 1) return false;
  if (g.channels < kLeastChannels || g.filters < kLeastChannels) return false;
  const int64_t filters = goes_to_source(facts) ? g.channels : g.filters;
  if (!fills_panels(filters, panel_of(options))) return false;
  // Rows may be a block's: what computes a node does not depend on them.
  const WinogradImages images = winograd_images(facts);
  return images.columns >= kLeastColumns && images.rows > 0;
}

bool becomes_winograd_node(const NodeFacts& facts, const CpuOptions& options) {
  const bool pairs =
      options.pairs &&
      (!options.alone || facts.computes(graph::OpFamily::kConvolution, graph::OpPass::kGradKernel));
  if (pairs || !has_bfloat16(facts.inputs, facts.outputs)) {
    return is_winograd_node(facts, options);
  }
  NodeFacts widened = facts;
  widen(widened);
  return is_winograd_node(widened, options);
}

WinogradImages winograd_images(const NodeFacts& facts) {
  const ops::Conv2dGeometry g = geometry_of(facts);
  if (goes_to_source(facts)) {
    return {.source_rows = g.rows().output,
            .source_columns = g.columns().output,
            .channels = g.filters,
            .before_rows = 2 - g.rows().before,
            .before_columns = 2 - g.columns().before,
            .rows = g.rows().input,
            .columns = g.columns().input,
            .filters = g.channels};
  }
  // What fills no window of a pooling is left out.
  const int64_t grain = pools(facts) ? 2 : 1;
  return {.source_rows = g.rows().input,
          .source_columns = g.columns().input,
          .channels = g.channels,
          .before_rows = g.rows().before,
          .before_columns = g.columns().before,
          .rows = g.rows().output / grain * grain,
          .columns = g.columns().output / grain * grain,
          .filters = g.filters};
}

WinogradWeights winograd_weights(const NodeFacts& facts, const CpuOptions& options) {
  const ops::Conv2dGeometry g = geometry_of(facts);
  const bool rotated = goes_to_source(facts);
  return {.channels = rotated ? g.filters : g.channels,
          .filters = rotated ? g.channels : g.filters,
          .panel = panel_of(options),
          .rotated = rotated};
}

std::string print(const WinogradWeights& weights) {
  std::string text =
      fmt::format("{}:c{}:f{}:panel{}", kPrefix, weights.channels, weights.filters, weights.panel);
  if (weights.rotated) text += kRotated;
  return text;
}

bool is_winograd(std::string_view layout) { return layout.starts_with(kPrefix); }

WinogradWeights parse_winograd(std::string_view layout, const CpuOptions& options) {
  std::string_view left = layout;
  if (is_winograd(left)) left.remove_prefix(kPrefix.size());
  WinogradWeights w;
  w.channels = take_number(left, ":c");
  w.filters = take_number(left, ":f");
  w.panel = take_number(left, ":panel");
  w.rotated = left == kRotated;
  const auto fits = [](int64_t count) { return count > 0 && count <= kMostUnits; };
  if ((!w.rotated && !left.empty()) || !fits(w.channels) || !fits(w.filters) ||
      w.channels > kMostUnits * 64 / w.filters || w.panel != panel_of(options)) {
    throw Error(ErrorKind::kModel, fmt::format("layout \"{}\": expected winograd:c…:f…:panel{} of "
                                               "this kernel set. Make the graph again for it.",
                                               layout, panel_of(options)));
  }
  return w;
}

CpuKernel make_winograd_pack(const WinogradWeights& weights, const CpuOptions& options) {
  return kernel_of([weights, options](const KernelCall& call) {
    pack({weights, input_floats(call, 0), output_floats(call, 0)}, options.isa, options.parts);
  });
}

CpuKernel make_winograd(const NodeFacts& facts, const CpuOptions& options) {
  if (goes_to_kernel(facts)) return {};
  if (!is_winograd_node(facts, options)) return {};
  const WinogradConvolution kernel(facts, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace plimsoll::backend::cpu
