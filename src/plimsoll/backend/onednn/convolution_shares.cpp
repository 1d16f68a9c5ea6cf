#include "backend/onednn/convolution_shares.h"

#include <algorithm>

#include "backend/cpu/threads/threads.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::onednn {
namespace {

using cpu::Range;
using ops::Window;

// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 1e6;
// Each share of a weight gradient has a buffer for it; all together stay below this where that
// leaves two.
constexpr int64_t kGradientBytes = 16 << 20;

// Bytes of a convolution's result that is about to be pooled: a part of one core's second cache.
constexpr int64_t kPooledBytes = 384 << 10;

// Positions of a row; of volumes a slab is what a row is here.
int64_t row_inputs(const ops::Windows& window) { return window.inputs() / window[0].input; }
int64_t row_outputs(const ops::Windows& window) { return window.outputs() / window[0].output; }

double flops_of(const Convolution& c) {
  const ops::ConvGeometry& g = c.geometry;
  return 2.0 * static_cast<double>(c.samples * g.window[0].output) *
         static_cast<double>(row_outputs(g.window)) * static_cast<double>(g.kernel_elements());
}

int64_t reach(const Window& w) { return (w.size - 1) * w.dilation + 1; }

// Rows [begin, end) of the result, and the rows of the source that they need.
Window rows_of_result(const Window& w, Range rows, int64_t& first_input) {
  const int64_t top = rows.begin * w.stride - w.before;
  const int64_t bottom = (rows.end - 1) * w.stride - w.before + reach(w);
  first_input = std::max<int64_t>(top, 0);
  Window part = w;
  part.input = std::min(bottom, w.input) - first_input;
  part.output = rows.end - rows.begin;
  part.before = first_input - top;
  return part;
}

// Rows [begin, end) of the source's gradient, and the rows of the result's that reach them.
Window rows_of_source(const Window& w, Range rows, int64_t& first_output) {
  const int64_t least = rows.begin + w.before - (reach(w) - 1);
  first_output = least <= 0 ? 0 : (least + w.stride - 1) / w.stride;
  const int64_t last = std::min((rows.end - 1 + w.before) / w.stride, w.output - 1);
  Window part = w;
  part.input = rows.end - rows.begin;
  part.output = last + 1 - first_output;
  part.before = rows.begin + w.before - first_output * w.stride;
  return part;
}

void add_share(Shares& shares, const Convolution& work, int64_t source, int64_t result) {
  size_t at = 0;
  while (at < shares.works.size() && (shares.works[at].samples != work.samples ||
                                      shares.works[at].geometry.window != work.geometry.window)) {
    ++at;
  }
  if (at == shares.works.size()) shares.works.push_back(work);
  shares.shares.push_back({at, source, result});
}

Shares by_samples(const Convolution& call, int parts) {
  const ops::ConvGeometry& g = call.geometry;
  Shares shares;
  for (int part = 0; part < parts; ++part) {
    const Range samples = cpu::part_of(call.samples, 1, part, parts);
    Convolution work = call;
    work.samples = samples.end - samples.begin;
    add_share(shares, work, samples.begin * g.window.inputs() * g.channels,
              samples.begin * g.window.outputs() * g.filters);
  }
  return shares;
}

// Empty where a share would have nothing to do or a window that no other convolution has.
Shares by_rows(const Convolution& call, int parts) {
  const ops::ConvGeometry& g = call.geometry;
  const bool to_source = call.kind == ConvolutionKind::kGradInput;
  const Window& rows = g.window[0];
  const int64_t count = to_source ? rows.input : rows.output;
  Shares shares;
  for (int part = 0; part < parts; ++part) {
    const Range range = cpu::part_of(count, 1, part, parts);
    if (range.begin == range.end) return {};
    Convolution work = call;
    int64_t other = 0;
    Window& window = work.geometry.window[0];
    window = to_source ? rows_of_source(rows, range, other) : rows_of_result(rows, range, other);
    if (window.input < 1 || window.output < 1) return {};
    if (window.before < 0 || window.before >= reach(rows)) return {};
    add_share(shares, work, (to_source ? range.begin : other) * row_inputs(g.window) * g.channels,
              (to_source ? other : range.begin) * row_outputs(g.window) * g.filters);
  }
  return shares;
}

// Images one by one, in as many pieces as the result's rows need to stay in a cache.
Shares by_pooled_rows(const Convolution& call, int most_parts) {
  const ops::ConvGeometry& g = call.geometry;
  const int64_t rows = g.rows().output / call.pool_rows;
  const int64_t columns = g.columns().output / call.pool_columns;
  const int64_t row_bytes =
      call.pool_rows * g.columns().output * g.filters * static_cast<int64_t>(sizeof(float));
  int64_t pieces = (rows * row_bytes + kPooledBytes - 1) / kPooledBytes;
  if (pieces > 1) pieces = round_up(pieces, most_parts);
  if (call.samples == 1 && flops_of(call) >= kFlopsWorthATeam) {
    pieces = std::max<int64_t>(pieces, most_parts);
  }
  pieces = std::min(pieces, rows);
  Shares shares;
  for (int64_t sample = 0; sample < call.samples; ++sample) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const Range pooled = cpu::part_of(rows, 1, static_cast<int>(piece), static_cast<int>(pieces));
      Convolution work = call;
      work.samples = 1;
      int64_t first = 0;
      work.geometry.window[0] = rows_of_result(
          g.rows(), {pooled.begin * call.pool_rows, pooled.end * call.pool_rows}, first);
      add_share(shares, work, (sample * g.rows().input + first) * g.columns().input * g.channels,
                (sample * rows + pooled.begin) * columns * g.filters);
    }
  }
  return shares;
}

}  // namespace

Shares share_out(const Convolution& call, int most_parts) {
  if (call.pools()) return by_pooled_rows(call, most_parts);
  int64_t parts = flops_of(call) < kFlopsWorthATeam ? 1 : most_parts;
  if (call.kind == ConvolutionKind::kGradKernel) {
    const int64_t bytes = call.geometry.kernel_elements() * static_cast<int64_t>(sizeof(float));
    parts = std::min(parts, std::max<int64_t>(kGradientBytes / bytes, 2));
  }
  Shares shares;
  if (parts > 1 && call.samples == 1) shares = by_rows(call, static_cast<int>(parts));
  if (shares.shares.empty()) {
    shares = by_samples(call, static_cast<int>(std::min(parts, call.samples)));
  }
  return shares;
}

}  // namespace plimsoll::backend::onednn
