#include "backend/onednn/convolution_shares.h"

#include <algorithm>

#include "backend/cpu/threads.h"

namespace plimsoll::backend::onednn {
namespace {

using cpu::Range;
using ops::Window;

// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 1e6;
// Each share of a weight gradient has a buffer for it; all together stay below this where that
// leaves two.
constexpr int64_t kGradientBytes = 16 << 20;

double flops_of(const Convolution& c) {
  const ops::Conv2dGeometry& g = c.geometry;
  return 2.0 * static_cast<double>(c.samples * g.rows().output) *
         static_cast<double>(g.columns().output) * static_cast<double>(g.kernel_elements());
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

std::vector<Share> by_samples(const Convolution& call, int parts) {
  const ops::Conv2dGeometry& g = call.geometry;
  std::vector<Share> shares;
  for (int part = 0; part < parts; ++part) {
    const Range samples = cpu::part_of(call.samples, 1, part, parts);
    Share share{call, 0, 0};
    share.work.samples = samples.end - samples.begin;
    share.source = samples.begin * g.rows().input * g.columns().input * g.channels;
    share.result = samples.begin * g.rows().output * g.columns().output * g.filters;
    shares.push_back(share);
  }
  return shares;
}

// Empty where a share would have nothing to do or a window that no other convolution has.
std::vector<Share> by_rows(const Convolution& call, int parts) {
  const ops::Conv2dGeometry& g = call.geometry;
  const bool to_source = call.kind == ConvolutionKind::kGradInput;
  const Window& rows = g.rows();
  const int64_t count = to_source ? rows.input : rows.output;
  std::vector<Share> shares;
  for (int part = 0; part < parts; ++part) {
    const Range range = cpu::part_of(count, 1, part, parts);
    if (range.begin == range.end) return {};
    Share share{call, 0, 0};
    int64_t other = 0;
    Window& window = share.work.geometry.window[0];
    window = to_source ? rows_of_source(rows, range, other) : rows_of_result(rows, range, other);
    if (window.input < 1 || window.output < 1 || window.before >= reach(rows)) return {};
    share.source = (to_source ? range.begin : other) * g.columns().input * g.channels;
    share.result = (to_source ? other : range.begin) * g.columns().output * g.filters;
    shares.push_back(share);
  }
  return shares;
}

}  // namespace

std::vector<Share> share_out(const Convolution& call, int threads) {
  int64_t parts = flops_of(call) < kFlopsWorthATeam ? 1 : threads;
  if (call.kind == ConvolutionKind::kGradKernel) {
    const int64_t bytes = call.geometry.kernel_elements() * static_cast<int64_t>(sizeof(float));
    parts = std::min(parts, std::max<int64_t>(kGradientBytes / bytes, 2));
  }
  std::vector<Share> shares;
  if (parts > 1 && call.samples == 1) shares = by_rows(call, static_cast<int>(parts));
  if (shares.empty()) shares = by_samples(call, static_cast<int>(std::min(parts, call.samples)));
  return shares;
}

}  // namespace plimsoll::backend::onednn
