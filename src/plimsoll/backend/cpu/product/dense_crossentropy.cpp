// dense_crossentropy and its gradient: chunks of 512 classes, whose logits live in scratch.
//
// Forward, threads share out rows: each goes through its own 256 at a time and merges a chunk into
// their stats. Backward, tiles of 512 rows: threads share out the rows for the gradient of the
// logits and of x, then the classes for those of w and bias. Sums over classes run over chunks in
// order, sums over rows over tiles in order: nothing depends on threads.
//
//   scratch  [what a product packs, logits of some rows] a thread; forward [stats] unless they are
//            an output; backward, logits and their gradients are one tile's, of all threads

#include <algorithm>
#include <cmath>

#include "backend/cpu/families.h"
#include "backend/cpu/product/class_rows.h"
#include "backend/cpu/product/packed_product.h"
#include "backend/cpu/product/product.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
constexpr int64_t kChunk = 512;
constexpr int64_t kForwardRows = 256;
constexpr int64_t kBackwardRows = 512;
constexpr int64_t kChunkRow = spread_row(kChunk);
// Classes of a thread's share are a multiple of this.
constexpr int64_t kClassGrain = 64;
// Below this many products one thread is as fast as several.
constexpr int64_t kProductsWorthATeam = 200'000;

struct Classifier {
  int64_t rows = 1;
  int64_t inner = 1;
  int64_t classes = 1;
  bool bias = false;
  bool wide_labels = true;
  int parts = 1;
  Isa isa = Isa::kGeneric;
  PackedMultiplyFunction multiply = nullptr;
  MultiplyFunction sum_rows = nullptr;
  ClassRowLoops loops;

  size_t label_input() const { return bias ? 3 : 2; }
  int64_t label(const KernelCall& call, int64_t row) const {
    const std::byte* data = call.inputs[label_input()].data;
    return wide_labels ? reinterpret_cast<const int64_t*>(data)[row]
                       : int64_t{reinterpret_cast<const int32_t*>(data)[row]};
  }
  int64_t forward_rows() const { return std::min(kForwardRows, ceil_div(rows, parts)); }
  int64_t backward_rows() const { return std::min(kBackwardRows, rows); }
  int64_t chunk() const { return std::min(kChunk, classes); }

  // Logits of `count` rows of x for the classes [first, first + width), kChunkRow apart.
  PackedProduct logits(const KernelCall& call, int64_t row, int64_t count, int64_t first,
                       int64_t width, float* to) const {
    PackedProduct p = {.rows = count, .inner = inner, .columns = width};
    p.x = input_floats(call, 0) + row * inner;
    p.x_row = inner;
    p.w = input_floats(call, 1) + first;
    p.w_row = classes;
    p.y = to;
    p.y_row = kChunkRow;
    if (bias) p.bias = input_floats(call, 2) + first;
    return p;
  }
  // What the gradients of `count` rows' logits add to that of x.
  PackedProduct source_grads(const KernelCall& call, int64_t row, int64_t count, int64_t first,
                             int64_t width, const float* slopes) const {
    PackedProduct p = {.rows = count, .inner = width, .columns = inner};
    p.x = slopes;
    p.x_row = kChunkRow;
    p.w = input_floats(call, 1) + first;
    p.w_row = classes;
    p.transposed = true;
    p.y = output_floats(call, 0) + row * inner;
    p.y_row = inner;
    p.add = first > 0;
    return p;
  }
  // And to that of w.
  PackedProduct weight_grads(const KernelCall& call, int64_t row, int64_t count, int64_t first,
                             int64_t width, const float* slopes) const {
    PackedProduct p = {.rows = inner, .inner = count, .columns = width, .transposed_x = true};
    p.x = input_floats(call, 0) + row * inner;
    p.x_row = 1;
    p.x_step = inner;
    p.w = slopes;
    p.w_row = kChunkRow;
    p.y = output_floats(call, 1) + first;
    p.y_row = classes;
    p.add = !call.first || row > 0;
    return p;
  }
  int64_t packed_forward() const {
    return packed_floats(isa, {.rows = 1, .inner = inner, .columns = chunk()});
  }
  int64_t packed_backward() const {
    const int64_t source = packed_floats(isa, {.rows = 1, .inner = chunk(), .columns = inner});
    const int64_t weight = packed_floats(
        isa, {.rows = 1, .inner = backward_rows(), .columns = chunk(), .transposed_x = true});
    return std::max({packed_forward(), source, weight});
  }
};

class Forward {
 public:
  Forward(const Classifier& c, const KernelCall& call) : c_(c), call_(call) {
    scratch_ = reinterpret_cast<float*>(call.scratch);
    pairs_ = scratch_ + c.parts * part_floats(c);
    if (call.outputs[1].data != nullptr) pairs_ = output_floats(call, 1);
  }
  static int64_t floats(const Classifier& c) { return c.parts * part_floats(c) + 2 * c.rows; }

  void run() const noexcept {
    for_each_part(c_.parts, [&](int part) {
      const Range range = part_of(c_.rows, 1, part, c_.parts);
      float* packed = scratch_ + part * part_floats(c_);
      for (int64_t row = range.begin; row < range.end; row += kForwardRows) {
        const int64_t count = std::min(kForwardRows, range.end - row);
        for (int64_t first = 0; first < c_.classes; first += kChunk) {
          merge_chunk(row, count, first, std::min(kChunk, c_.classes - first), packed);
        }
      }
    });
    if (call_.outputs[0].data == nullptr) return;
    float* loss = output_floats(call_, 0);
    for (int64_t row = 0; row < c_.rows; ++row) {
      loss[row] = std::log(pairs_[2 * row + 1]) - (loss[row] - pairs_[2 * row]);
    }
  }

 private:
  static int64_t part_floats(const Classifier& c) {
    return c.packed_forward() + c.forward_rows() * kChunkRow;
  }

  // The label's logit waits in the place of the loss.
  void merge_chunk(int64_t row, int64_t count, int64_t first, int64_t width,
                   float* packed) const noexcept {
    float* tile = packed + c_.packed_forward();
    c_.multiply(c_.logits(call_, row, count, first, width, tile), packed);
    for (int64_t r = 0; r < count; ++r) {
      const float* logits = tile + r * kChunkRow;
      float* pair = pairs_ + 2 * (row + r);
      float chunk[2];
      c_.loops.log_sum(logits, width, first == 0 ? pair : chunk);
      if (first > 0) c_.loops.merge(pair, chunk);
      if (call_.outputs[0].data == nullptr) continue;
      float& picked = output_floats(call_, 0)[row + r];
      if (first == 0) picked = 0.0f;
      const int64_t label = c_.label(call_, row + r) - first;
      if (label >= 0 && label < width) picked = logits[label];
    }
  }

  const Classifier& c_;
  const KernelCall& call_;
  float* scratch_;
  float* pairs_;
};

class Backward {
 public:
  Backward(const Classifier& c, const KernelCall& call)
      : c_(c),
        call_(call),
        stats_(input_floats(call, c.label_input() + 1)),
        d_(input_floats(call, c.label_input() + 2)) {
    packed_ = reinterpret_cast<float*>(call.scratch);
    slopes_ = packed_ + c.parts * c.packed_backward();
  }
  static int64_t floats(const Classifier& c) {
    return c.parts * c.packed_backward() + c.backward_rows() * kChunkRow;
  }

  void run() const noexcept {
    for (int64_t first = 0; first < c_.classes; first += kChunk) {
      const int64_t width = std::min(kChunk, c_.classes - first);
      for (int64_t row = 0; row < c_.rows; row += kBackwardRows) {
        const int64_t count = std::min(kBackwardRows, c_.rows - row);
        for_each_part(c_.parts, [&](int part) {
          const Range share = part_of(count, 1, part, c_.parts);
          if (share.begin < share.end) add_rows(row, share, first, width, part);
        });
        for_each_part(c_.parts, [&](int part) {
          const Range share = part_of(width, kClassGrain, part, c_.parts);
          if (share.begin < share.end) add_classes(row, count, first, share, part);
        });
      }
    }
  }

 private:
  float* packed(int part) const { return packed_ + part * c_.packed_backward(); }

  // The gradient of the logits of some rows of a tile, and their share of that of x.
  void add_rows(int64_t tile, Range share, int64_t first, int64_t width, int part) const noexcept {
    const int64_t count = share.end - share.begin;
    float* slopes = slopes_ + share.begin * kChunkRow;
    c_.multiply(c_.logits(call_, tile + share.begin, count, first, width, slopes), packed(part));
    for (int64_t r = share.begin; r < share.end; ++r) {
      float* row = slopes_ + r * kChunkRow;
      c_.loops.gradient(row, stats_ + 2 * (tile + r), c_.label(call_, tile + r) - first,
                        d_[tile + r], row, width);
    }
    if (call_.outputs[0].data == nullptr) return;
    c_.multiply(c_.source_grads(call_, tile + share.begin, count, first, width, slopes),
                packed(part));
  }

  // A tile's share of the gradients of w and bias, some classes of the chunk.
  void add_classes(int64_t tile, int64_t count, int64_t first, Range share,
                   int part) const noexcept {
    const int64_t width = share.end - share.begin;
    const float* slopes = slopes_ + share.begin;
    if (call_.outputs[1].data != nullptr) {
      c_.multiply(c_.weight_grads(call_, tile, count, first + share.begin, width, slopes),
                  packed(part));
    }
    if (!c_.bias || call_.outputs[2].data == nullptr) return;
    const float one = 1.0f;
    c_.sum_rows({1, count, width, &one, 0, 0, slopes, kChunkRow,
                 output_floats(call_, 2) + first + share.begin, 0, !call_.first || tile > 0});
  }

  const Classifier& c_;
  const KernelCall& call_;
  const float* stats_;
  const float* d_;
  float* packed_;
  float* slopes_;
};

template <typename Pass>
CpuKernel make_pass(const Classifier& c) {
  return kernel_of([c](const KernelCall& call) { Pass(c, call).run(); },
                   Bytes(Pass::floats(c) * kFloat));
}

}  // namespace

CpuKernel make_dense_crossentropy(const NodeFacts& facts, const CpuOptions& options) {
  const bool forward = facts.computes(OpFamily::kDense, OpPass::kForward, OpFusion::kLoss);
  if (!forward && !facts.computes(OpFamily::kDense, OpPass::kGradients, OpFusion::kLoss)) return {};
  Classifier c;
  c.bias = facts.attributes.get_bool("use_bias", false);
  const DType labels = facts.inputs[c.label_input()].dtype;
  c.wide_labels = labels == DType::kInt64;
  if (facts.inputs[0].dtype != DType::kFloat32 || (!c.wide_labels && labels != DType::kInt32)) {
    return {};
  }
  c.inner = facts.inputs[1].shape[0].count;
  c.classes = facts.inputs[1].shape[1].count;
  c.rows = facts.input_elements(0) / c.inner;
  c.isa = options.isa;
  c.multiply = pick_packed_multiply(options.isa);
  c.sum_rows = pick_multiply(options.isa);
  c.loops = pick_class_rows(options.isa);
  if (c.rows * c.inner * c.classes >= kProductsWorthATeam) c.parts = options.parts;
  return forward ? make_pass<Forward>(c) : make_pass<Backward>(c);
}

}  // namespace plimsoll::backend::cpu
