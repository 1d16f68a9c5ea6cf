// dense_crossentropy and its gradient: chunks of 512 classes, whose logits live in scratch.
//
// A chunk's weights are copied together once a call, so that products read them side by side; the
// gradients want them transposed too. Forward, threads share out rows: each goes through its rows
// 64 at a time and merges a chunk into their stats. Backward, tiles of 512 rows: threads share out
// the rows for the gradient of the logits and of x, then the classes for those of w and bias. Sums
// over classes run over chunks in order, sums over rows over tiles in order: nothing depends on
// threads.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/class_rows.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
constexpr int64_t kChunk = 512;
constexpr int64_t kForwardRows = 64;
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
  MultiplyFunction multiply = nullptr;
  ClassRowLoops loops;

  size_t label_input() const { return bias ? 3 : 2; }
  int64_t label(const KernelCall& call, int64_t row) const {
    const std::byte* data = call.inputs[label_input()].data;
    return wide_labels ? reinterpret_cast<const int64_t*>(data)[row]
                       : int64_t{reinterpret_cast<const int32_t*>(data)[row]};
  }
  int64_t packed() const { return inner * kChunkRow; }
  int64_t transposed_row() const { return spread_row(inner); }
  int64_t transposed() const { return std::min(kChunk, classes) * transposed_row(); }
  int64_t backward_rows() const { return std::min(kBackwardRows, rows); }

  // The weights of classes [first, first + width), rows side by side.
  void pack(const KernelCall& call, int64_t first, int64_t width, float* to) const noexcept {
    for_each_range(inner, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) {
        std::memcpy(to + d * kChunkRow, input_floats(call, 1) + d * classes + first,
                    static_cast<size_t>(width * kFloat));
      }
    });
  }

  // Logits of some rows for a chunk, kChunkRow apart.
  void fill_logits(const KernelCall& call, const float* packed_w, int64_t row, int64_t count,
                   int64_t first, int64_t width, float* to) const noexcept {
    if (bias) {
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(to + r * kChunkRow, input_floats(call, 2) + first,
                    static_cast<size_t>(width * kFloat));
      }
    }
    multiply({count, inner, width, input_floats(call, 0) + row * inner, inner, 1, packed_w,
              kChunkRow, to, kChunkRow, bias});
  }
};

class Forward {
 public:
  Forward(const Classifier& c, const KernelCall& call) : c_(c), call_(call) {
    packed_ = reinterpret_cast<float*>(call.scratch);
    tiles_ = packed_ + c.packed();
    pairs_ = tiles_ + c.parts * kForwardRows * kChunkRow;
    if (call.outputs[1].data != nullptr) pairs_ = output_floats(call, 1);
  }
  static int64_t floats(const Classifier& c) {
    return c.packed() + c.parts * kForwardRows * kChunkRow + 2 * c.rows;
  }

  void run() const noexcept {
    for (int64_t first = 0; first < c_.classes; first += kChunk) {
      const int64_t width = std::min(kChunk, c_.classes - first);
      c_.pack(call_, first, width, packed_);
      for_each_part(c_.parts, [&](int part) {
        const Range range = part_of(c_.rows, 1, part, c_.parts);
        float* tile = tiles_ + part * kForwardRows * kChunkRow;
        for (int64_t row = range.begin; row < range.end; row += kForwardRows) {
          merge_chunk(row, std::min(kForwardRows, range.end - row), first, width, tile);
        }
      });
    }
    float* loss = output_floats(call_, 0);
    for (int64_t row = 0; row < c_.rows; ++row) {
      loss[row] = std::log(pairs_[2 * row + 1]) - (loss[row] - pairs_[2 * row]);
    }
  }

 private:
  // The label's logit waits in the place of the loss.
  void merge_chunk(int64_t row, int64_t count, int64_t first, int64_t width,
                   float* tile) const noexcept {
    c_.fill_logits(call_, packed_, row, count, first, width, tile);
    for (int64_t r = 0; r < count; ++r) {
      const float* logits = tile + r * kChunkRow;
      float* pair = pairs_ + 2 * (row + r);
      float chunk[2];
      c_.loops.log_sum(logits, width, first == 0 ? pair : chunk);
      if (first > 0) c_.loops.merge(pair, chunk);
      float& picked = output_floats(call_, 0)[row + r];
      if (first == 0) picked = 0.0f;
      const int64_t label = c_.label(call_, row + r) - first;
      if (label >= 0 && label < width) picked = logits[label];
    }
  }

  const Classifier& c_;
  const KernelCall& call_;
  float* packed_;
  float* tiles_;
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
    transposed_ = packed_ + c.packed();
    slopes_ = transposed_ + c.transposed();
  }
  static int64_t floats(const Classifier& c) {
    return c.packed() + c.transposed() + c.backward_rows() * kChunkRow;
  }

  void run() const noexcept {
    for (int64_t first = 0; first < c_.classes; first += kChunk) {
      const int64_t width = std::min(kChunk, c_.classes - first);
      c_.pack(call_, first, width, packed_);
      transpose(width);
      for (int64_t row = 0; row < c_.rows; row += kBackwardRows) {
        const int64_t count = std::min(kBackwardRows, c_.rows - row);
        for_each_range(count, 1, c_.parts, [&](int64_t begin, int64_t end) {
          add_rows(row, begin, end, first, width);
        });
        for_each_range(width, kClassGrain, c_.parts, [&](int64_t begin, int64_t end) {
          add_classes(row, count, first, begin, end);
        });
      }
    }
  }

 private:
  void transpose(int64_t width) const noexcept {
    constexpr int64_t kTile = 16;
    for_each_range(width, kTile, c_.parts, [&](int64_t begin, int64_t end) {
      for (int64_t d0 = 0; d0 < c_.inner; d0 += kTile) {
        const int64_t d1 = std::min(c_.inner, d0 + kTile);
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t d = d0; d < d1; ++d) {
            transposed_[i * c_.transposed_row() + d] = packed_[d * kChunkRow + i];
          }
        }
      }
    });
  }

  // The gradient of the logits of rows [begin, end) of a tile, and their share of that of x.
  void add_rows(int64_t tile, int64_t begin, int64_t end, int64_t first,
                int64_t width) const noexcept {
    float* slopes = slopes_ + begin * kChunkRow;
    c_.fill_logits(call_, packed_, tile + begin, end - begin, first, width, slopes);
    for (int64_t r = begin; r < end; ++r) {
      float* row = slopes_ + r * kChunkRow;
      c_.loops.gradient(row, stats_ + 2 * (tile + r), c_.label(call_, tile + r) - first,
                        d_[tile + r], row, width);
    }
    if (call_.outputs[0].data == nullptr) return;
    c_.multiply({end - begin, width, c_.inner, slopes, kChunkRow, 1, transposed_,
                 c_.transposed_row(), output_floats(call_, 0) + (tile + begin) * c_.inner, c_.inner,
                 first > 0});
  }

  // A tile's share of the gradients of w and bias, classes [begin, end) of the chunk.
  void add_classes(int64_t tile, int64_t count, int64_t first, int64_t begin,
                   int64_t end) const noexcept {
    const bool add = !call_.first || tile > 0;
    if (float* dw = output_floats(call_, 1); dw != nullptr) {
      c_.multiply({c_.inner, count, end - begin, input_floats(call_, 0) + tile * c_.inner, 1,
                   c_.inner, slopes_ + begin, kChunkRow, dw + first + begin, c_.classes, add});
    }
    if (!c_.bias || call_.outputs[2].data == nullptr) return;
    const float one = 1.0f;
    c_.multiply({1, count, end - begin, &one, 0, 0, slopes_ + begin, kChunkRow,
                 output_floats(call_, 2) + first + begin, 0, add});
  }

  const Classifier& c_;
  const KernelCall& call_;
  const float* stats_;
  const float* d_;
  float* packed_;
  float* transposed_;
  float* slopes_;
};

template <typename Pass>
CpuKernel make_pass(const Classifier& c) {
  return kernel_of([c](const KernelCall& call) { Pass(c, call).run(); },
                   Bytes(Pass::floats(c) * kFloat));
}

}  // namespace

CpuKernel make_dense_crossentropy(const NodeFacts& facts, const CpuOptions& options) {
  const std::string_view op = facts.op();
  const bool forward = op == "dense_crossentropy";
  if (!forward && op != "dense_crossentropy_grad") return {};
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
  c.multiply = pick_multiply(options.isa);
  c.loops = pick_class_rows(options.isa);
  if (c.rows * c.inner * c.classes >= kProductsWorthATeam) c.parts = options.threads;
  return forward ? make_pass<Forward>(c) : make_pass<Backward>(c);
}

}  // namespace plimsoll::backend::cpu
