// attention and its gradients.
//
// One head of one sample at a time: keys are taken in tiles of 64 counted from the start of the
// block, transposed into scratch, so that a query's scores are sums of vectors; a tile's scores
// stay in scratch. Rows of queries do not depend on each other. Sums are in the element type, in an
// order that only the block's keys decide.

#include "ops/attention.h"

#include <algorithm>
#include <limits>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/dropout_mask.h"

namespace plimsoll::backend::reference {
namespace {

constexpr int64_t kTile = 64;

template <typename T>
PLIMSOLL_VECTOR_LOOP void add_scaled(T* __restrict y, T a, const T* __restrict x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

template <typename T>
PLIMSOLL_VECTOR_LOOP void add_wide(double* __restrict y, T a, const T* __restrict x,
                                   int64_t count) {
  const auto factor = static_cast<double>(a);
  for (int64_t i = 0; i < count; ++i) y[i] += factor * static_cast<double>(x[i]);
}

template <typename T>
T dot_product(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<T>(sum);
}

// What a node says once for all calls.
struct Facts {
  ops::AttentionOperands operands{};
  double scale = 1;
  bool causal = false;
  double rate = 0;
  int64_t site = 0;
  int64_t rows = 1;     // of a sample (fold_batch)
  int64_t queries = 1;  // of the whole value
  int64_t keys = 1;
  int batch_axis = -1;
  int queries_axis = -1;
  int keys_axis = -1;
};

Facts read_facts(const Problem& problem, bool gradient) {
  Facts facts;
  facts.operands = ops::read_attention(problem.attributes, gradient);
  facts.scale = problem.attributes.get_double("scale");
  facts.causal = problem.attributes.get_bool("causal", false);
  facts.rate = problem.attributes.get_double("rate", 0.0);
  if (facts.rate > 0) facts.site = problem.attributes.get_int("site");
  facts.rows = problem.inputs[0].shape[0].count;
  facts.queries = problem.inputs[0].shape[1].count;
  facts.keys = problem.inputs[1].shape[1].count;
  facts.batch_axis = problem.axis(graph::kBatchAxis);
  facts.queries_axis = problem.axis(ops::kQueriesAxis);
  facts.keys_axis = problem.axis(ops::kKeysAxis);
  return facts;
}

// Scratch in elements: the transposed tile, and four rows of a tile.
int64_t tile_elements(int64_t columns) { return kTile * (columns + 4); }

// One call of any of the three nodes: rows of operands by sample, place and head, and the scores
// of a tile.
template <typename T>
class Heads {
 public:
  Heads(const Facts& facts, const KernelCall& call)
      : facts_(facts),
        call_(call),
        samples_(call.inputs[0].dims[0]),
        queries_(call.inputs[0].dims[1]),
        heads_(call.inputs[0].dims[2]),
        width_(call.inputs[0].dims[3]),
        keys_(call.inputs[1].dims[1]),
        values_(call.inputs[2].dims[3]),
        scratch_(reinterpret_cast<T*>(call.scratch)),
        scale_(static_cast<T>(facts.scale)),
        masked_score_(static_cast<T>(-0.7 * std::numeric_limits<float>::max())),
        kept_(static_cast<T>(1.0 / (1.0 - facts.rate))) {
    if (facts.rate > 0) {
      stream_ = ops::dropout_stream(call.step->seed, call.step->step, facts.site);
    }
  }

 protected:
  const T* in(int operand, int64_t b, int64_t t, int64_t h) const {
    return place<const T>(call_.inputs[static_cast<size_t>(operand)], b, t, h);
  }
  T* out(size_t operand, int64_t b, int64_t t, int64_t h) const {
    return place<T>(call_.outputs[operand], b, t, h);
  }
  bool wanted(size_t operand) const { return call_.outputs[operand].data != nullptr; }
  int64_t begin(int axis) const { return axis < 0 ? 0 : call_.begin[static_cast<size_t>(axis)]; }

  // Columns of a tile of k (or v): scratch[c][s] of `count` keys from `first`.
  T* transpose_tile(int operand, int64_t b, int64_t h, int64_t first, int64_t count,
                    int64_t columns) {
    for (int64_t s = 0; s < count; ++s) {
      const T* row = in(operand, b, first + s, h);
      for (int64_t c = 0; c < columns; ++c) scratch_[c * kTile + s] = row[c];
    }
    return scratch_;
  }
  T* tile_row(int64_t index, int64_t columns) { return scratch_ + kTile * (columns + index); }

  // score[s] = row · tile, for a transposed tile.
  void multiply(const T* row, const T* tile, int64_t columns, int64_t count, T* score) const {
    std::fill_n(score, count, T(0));
    for (int64_t c = 0; c < columns; ++c) add_scaled(score, row[c], tile + c * kTile, count);
  }

  bool sees(int64_t b, int64_t t, int64_t s) const {
    if (facts_.causal && begin(facts_.keys_axis) + s > begin(facts_.queries_axis) + t) return false;
    const auto is_set = [&](int operand, int64_t i, int64_t j) {
      if (operand < 0) return true;
      const Operand& mask = call_.inputs[static_cast<size_t>(operand)];
      const int64_t last = mask.dims.size() > 2 ? j * mask.strides[2] : 0;
      return data_of<const uint8_t>(mask)[b * mask.strides[0] + i * mask.strides[1] + last] != 0;
    };
    return is_set(facts_.operands.key_mask, s, 0) && is_set(facts_.operands.query_mask, t, 0) &&
           is_set(facts_.operands.mask, t, s);
  }

  // Scales a tile's products and puts in what is masked; seen[s] says which.
  void finish_scores(int64_t b, int64_t t, int64_t first, int64_t count, T* score) {
    for (int64_t s = 0; s < count; ++s) {
      seen_[s] = sees(b, t, first + s);
      score[s] = seen_[s] ? score[s] * scale_ : masked_score_;
    }
  }

  // What dropout multiplies the probability of a pair by.
  T factor(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (facts_.rate == 0) return T(1);
    const int64_t sample = call_.first_sample(facts_.batch_axis) * facts_.rows + b;
    const int64_t row = (sample * heads_ + h) * facts_.queries + begin(facts_.queries_axis) + t;
    const int64_t element = row * facts_.keys + begin(facts_.keys_axis) + s;
    return stream_.uniform(static_cast<uint64_t>(element)) >= static_cast<float>(facts_.rate)
               ? kept_
               : T(0);
  }

  template <typename Body>
  void for_each_head(Body body) {
    for (int64_t b = 0; b < samples_; ++b) {
      for (int64_t h = 0; h < heads_; ++h) body(b, h);
    }
  }

  const Facts& facts_;
  const KernelCall& call_;
  int64_t samples_, queries_, heads_, width_, keys_, values_;
  T* scratch_;
  T scale_;
  T masked_score_;
  T kept_;
  std::array<bool, kTile> seen_{};

 private:
  template <typename E>
  static E* place(const Operand& operand, int64_t b, int64_t t, int64_t h) {
    return data_of<E>(operand) + b * operand.strides[0] + t * operand.strides[1] +
           h * operand.strides[2];
  }

  Philox stream_{0, 0};
};

template <typename T>
class Forward final : Heads<T> {
  using Base = Heads<T>;

 public:
  using Base::Base;

  void run() {
    this->for_each_head([&](int64_t b, int64_t h) {
      for (int64_t first = 0; first < this->keys_; first += kTile) {
        const int64_t count = std::min(kTile, this->keys_ - first);
        const T* tile = this->transpose_tile(1, b, h, first, count, this->width_);
        for (int64_t t = 0; t < this->queries_; ++t) {
          merge(b, h, t, first, count, tile);
        }
      }
      if (!this->wanted(1)) return;
      for (int64_t t = 0; t < this->queries_; ++t) {
        T* const kept = this->out(1, b, t, h);
        kept[0] = stats_of(t)[0];
        kept[1] = T(1) + stats_of(t)[1];
      }
    });
  }

 private:
  // After the tile: a row of values in double, then the stats.
  double* mean_row() { return reinterpret_cast<double*>(this->tile_row(4, this->width_)); }
  T* stats_of(int64_t t) { return reinterpret_cast<T*>(mean_row() + this->values_) + 2 * t; }

  // Adds a tile of keys to what a query has seen: `out` is always the mean of it.
  void merge(int64_t b, int64_t h, int64_t t, int64_t first, int64_t count, const T* tile) {
    const bool start = first == 0;
    T* const score = this->tile_row(0, this->width_);
    this->multiply(this->in(0, b, t, h), tile, this->width_, count, score);
    this->finish_scores(b, t, first, count, score);
    T* const stats = stats_of(t);
    T most = start ? score[0] : stats[0];
    for (int64_t s = 0; s < count; ++s) most = std::max(most, score[s]);
    // The largest is counted apart, so that what is small beside it adds up.
    const bool raised = start || most > stats[0];
    T rest = start ? T(0) : stats[1];
    if (raised && !start) rest = (rest + T(1)) * std::exp(stats[0] - most);
    const T before = start ? T(0) : raised ? rest : rest + T(1);
    T largest = raised ? T(-1) : T(0);
    for (int64_t s = 0; s < count; ++s) {
      const bool is_largest = score[s] == most;
      score[s] = std::exp(score[s] - most);
      (is_largest ? largest : rest) += score[s];
    }
    rest += largest;
    stats[0] = most;
    stats[1] = rest;
    const T sum = T(1) + rest;
    if (!this->wanted(0)) return;
    T* const out = this->out(0, b, t, h);
    // The mean of the values in double: gradients need Σ d out · out as exactly as it can be had.
    double* const mean = mean_row();
    const double keep = static_cast<double>(before) / static_cast<double>(sum);
    for (int64_t c = 0; c < this->values_; ++c) {
      mean[c] = start ? 0.0 : static_cast<double>(out[c]) * keep;
    }
    for (int64_t s = 0; s < count; ++s) {
      const T share = score[s] / sum * this->factor(b, h, t, first + s);
      if (share != T(0)) add_wide(mean, share, this->in(2, b, first + s, h), this->values_);
    }
    for (int64_t c = 0; c < this->values_; ++c) out[c] = static_cast<T>(mean[c]);
  }
};

// For each query and tile: probabilities, and the gradients of the scores.
template <typename T>
class Backward : protected Heads<T> {
  using Base = Heads<T>;

 public:
  using Base::Base;

 protected:
  // probability[s] of the tile, and into `gradient` that of scale · score. Both tiles are
  // transposed: keys of width_ columns, values after them.
  // Beside a probability of 1 all others are 2⁻²⁴ together at most, and the gradient is nearer to 0
  // than to what rounding leaves of dot − dot.
  void score_gradient(int64_t b, int64_t h, int64_t t, int64_t first, int64_t count, const T* keys,
                      const T* values, T* probability, T* gradient) {
    const auto& at = this->facts_.operands;
    this->multiply(this->in(0, b, t, h), keys, this->width_, count, probability);
    this->finish_scores(b, t, first, count, probability);
    const T* stats = this->in(at.stats, b, t, h);
    for (int64_t s = 0; s < count; ++s) {
      probability[s] = std::exp(probability[s] - stats[0]) / stats[1];
    }
    this->multiply(this->in(at.dout, b, t, h), values, this->values_, count, gradient);
    const T dot = *this->in(at.dot, b, t, h);
    for (int64_t s = 0; s < count; ++s) {
      const T factor = this->factor(b, h, t, first + s);
      const bool moves = this->seen_[s] && probability[s] != T(1);
      gradient[s] = moves ? probability[s] * (gradient[s] * factor - dot) * this->scale_ : T(0);
      probability[s] *= factor;
    }
  }

  // Both tiles, one after the other in scratch.
  const T* load_tiles(int64_t b, int64_t h, int64_t first, int64_t count) {
    for (int64_t s = 0; s < count; ++s) {
      const T* key = this->in(1, b, first + s, h);
      const T* value = this->in(2, b, first + s, h);
      T* column = this->scratch_ + s;
      for (int64_t c = 0; c < this->width_; ++c) column[c * kTile] = key[c];
      column += this->width_ * kTile;
      for (int64_t c = 0; c < this->values_; ++c) column[c * kTile] = value[c];
    }
    return this->scratch_;
  }
  T* row(int64_t index) { return this->tile_row(index, this->width_ + this->values_); }
};

template <typename T>
class QueryGradient final : Backward<T> {
 public:
  using Backward<T>::Backward;

  // A block's own sum, folded: in scratch, because the output may hold the earlier blocks'.
  void run() {
    T* const sums = this->row(4);
    this->for_each_head([&](int64_t b, int64_t h) {
      std::fill_n(sums, this->queries_ * this->width_, T(0));
      for (int64_t first = 0; first < this->keys_; first += kTile) {
        const int64_t count = std::min(kTile, this->keys_ - first);
        const T* keys = this->load_tiles(b, h, first, count);
        for (int64_t t = 0; t < this->queries_; ++t) {
          T* const gradient = this->row(1);
          this->score_gradient(b, h, t, first, count, keys, keys + this->width_ * kTile,
                               this->row(0), gradient);
          for (int64_t s = 0; s < count; ++s) {
            if (gradient[s] == T(0)) continue;
            add_scaled(sums + t * this->width_, gradient[s], this->in(1, b, first + s, h),
                       this->width_);
          }
        }
      }
      for (int64_t t = 0; t < this->queries_; ++t) {
        T* const dq = this->out(0, b, t, h);
        for (int64_t c = 0; c < this->width_; ++c) {
          const T sum = sums[t * this->width_ + c];
          dq[c] = this->call_.first ? sum : dq[c] + sum;
        }
      }
    });
  }
};

template <typename T>
class KeyGradient final : Backward<T> {
 public:
  using Backward<T>::Backward;

  void run() {
    const int64_t columns = this->width_ + this->values_;
    T* const sums = this->row(4);  // d k and d v of a tile's keys
    this->for_each_head([&](int64_t b, int64_t h) {
      for (int64_t first = 0; first < this->keys_; first += kTile) {
        const int64_t count = std::min(kTile, this->keys_ - first);
        const T* keys = this->load_tiles(b, h, first, count);
        std::fill_n(sums, count * columns, T(0));
        for (int64_t t = 0; t < this->queries_; ++t) {
          T* const probability = this->row(0);
          T* const gradient = this->row(1);
          this->score_gradient(b, h, t, first, count, keys, keys + this->width_ * kTile,
                               probability, gradient);
          const T* query = this->in(0, b, t, h);
          const T* dout = this->in(this->facts_.operands.dout, b, t, h);
          for (int64_t s = 0; s < count; ++s) {
            T* const place = sums + s * columns;
            if (gradient[s] != T(0)) add_scaled(place, gradient[s], query, this->width_);
            if (probability[s] != T(0)) {
              add_scaled(place + this->width_, probability[s], dout, this->values_);
            }
          }
        }
        for (int64_t s = 0; s < count; ++s) {
          store(0, b, first + s, h, sums + s * columns, this->width_);
          store(1, b, first + s, h, sums + s * columns + this->width_, this->values_);
        }
      }
    });
  }

 private:
  void store(size_t output, int64_t b, int64_t s, int64_t h, const T* sum, int64_t count) {
    if (!this->wanted(output)) return;
    T* const place = this->out(output, b, s, h);
    for (int64_t c = 0; c < count; ++c) place[c] = this->call_.first ? sum[c] : place[c] + sum[c];
  }
};

template <template <typename> typename Pass, bool kGradient>
std::unique_ptr<Kernel> make_pass(const Problem& problem) {
  const Facts facts = read_facts(problem, kGradient);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([facts](const KernelCall& call) { Pass<T>(facts, call).run(); });
  });
}

int64_t element_size(const Problem& problem) {
  return element_bytes(problem.inputs[0].dtype).count();
}

Bytes forward_scratch(const Problem& problem) {
  const Shape& q = problem.inputs[0].shape;
  const int64_t rows = problem.extent(ops::kQueriesAxis, q[1].count);
  return Bytes((tile_elements(q[3].count) + 2 * rows) * element_size(problem) +
               problem.inputs[2].shape[3].count * int64_t{sizeof(double)});
}

int64_t both_widths(const Problem& problem) {
  return problem.inputs[0].shape[3].count + problem.inputs[2].shape[3].count;
}

Bytes query_scratch(const Problem& problem) {
  const Shape& q = problem.inputs[0].shape;
  const int64_t rows = problem.extent(ops::kQueriesAxis, q[1].count);
  return Bytes((tile_elements(both_widths(problem)) + rows * q[3].count) * element_size(problem));
}

Bytes keys_scratch(const Problem& problem) {
  const int64_t columns = both_widths(problem);
  return Bytes((tile_elements(columns) + kTile * columns) * element_size(problem));
}

std::unique_ptr<Kernel> make_dot(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& a = call.inputs[0];
      const Operand& b = call.inputs[1];
      const Operand& y = call.outputs[0];
      for_each_index<3>(row_dims(a), {a.strides.first(3), b.strides.first(3), y.strides},
                        [&](const auto& at, int64_t) {
                          data_of<T>(y)[at[2]] =
                              dot_product(data_of<const T>(a) + at[0], data_of<const T>(b) + at[1],
                                          row_length(a));
                        });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"attention", make_pass<Forward, false>, forward_scratch},
    {"attention_dot", make_dot},
    {"attention_grad_keys", make_pass<KeyGradient, true>, keys_scratch},
    {"attention_grad_query", make_pass<QueryGradient, true>, query_scratch},
};

}  // namespace

std::span<const KernelEntry> attention_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
