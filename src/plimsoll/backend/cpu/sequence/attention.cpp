// attention and its gradients, tile by tile: 64 queries against 64 keys, scores never stored.
//
// A task is a tile of queries of one head of one sample (for the gradients of keys and values: of
// keys), which meets the tiles of the other side in order, counted from the start of the block.
// Threads share out tasks. Tiles that a causal mask alone hides wholly are left out. Operands may
// have any strides between places and heads.

#include "backend/cpu/sequence/attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backend/cpu/families.h"
#include "backend/cpu/product/product.h"
#include "ops/attention.h"
#include "ops/dropout_mask.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// Below this many products one thread is as fast as several.
constexpr double kProductsWorthATeam = 2e5;
// Heads with fewer pairs than a tile are the reference's business: it sums values in double, which
// shows where the gradient of a bias of the keys is nothing but what rounding leaves.
constexpr int64_t kLeastPairs = kTile * kTile;
// Their numbers are floats beside other numbers of a query.
constexpr int64_t kMostKeys = 1 << 24;

enum class Pass : uint8_t { kForward, kQueries, kKeys };

// What a node and the extents of a call say once.
struct AttentionFacts {
  Pass pass = Pass::kForward;
  ops::AttentionOperands operands{};
  float scale = 1;
  bool causal = false;
  double rate = 0;
  int64_t site = 0;
  int64_t all_queries = 1, all_keys = 1;  // of the whole value
  int64_t rows = 1;                       // of a sample (fold_batch)
  int64_t width = 1, values = 1;          // numbers of a key, of a value
  int batch_axis = -1, queries_axis = -1, keys_axis = -1;
  int parts = 1;
  MultiplyFunction multiply = nullptr;
  AttentionFunctions run;

  // Without other masks every query sees a key, and what causality hides has no share at all.
  bool skips() const { return causal && only_causal(); }
  bool only_causal() const {
    return operands.key_mask < 0 && operands.query_mask < 0 && operands.mask < 0;
  }
};

// Places in one part's scratch, in floats: two transposed tiles, two tiles of pairs, two of sums,
// five rows of stats and two of those before; then what is seen, and factors of dropout.
struct Places {
  static constexpr int64_t kStats = 7;
  float* lanes_a;  // (width, kTile)
  float* lanes_b;  // (values, kTile)
  float* scores;
  float* gradient;
  float* sums_a;  // (kTile, width)
  float* sums_b;  // (kTile, values)
  float* stats;
  float* factors;
  uint8_t* seen;

  static int64_t floats(const AttentionFacts& f) {
    return 2 * kTile * (f.width + f.values) + 2 * kTile * kTile + kStats * kTile +
           (f.rate > 0 ? kTile * kTile : 0) + kTile * kTile / kFloat;
  }
  Places(const AttentionFacts& f, std::byte* scratch) {
    lanes_a = reinterpret_cast<float*>(scratch);
    lanes_b = lanes_a + kTile * f.width;
    scores = lanes_b + kTile * f.values;
    gradient = scores + kTile * kTile;
    sums_a = gradient + kTile * kTile;
    sums_b = sums_a + kTile * f.width;
    stats = sums_b + kTile * f.values;
    factors = stats + kStats * kTile;
    seen = reinterpret_cast<uint8_t*>(factors + (f.rate > 0 ? kTile * kTile : 0));
  }
  QueryStats query_stats() const {
    return {stats, stats + kTile, stats + 2 * kTile, stats + 3 * kTile, stats + 4 * kTile};
  }
  float* keys_before() const { return stats + 5 * kTile; }
  float* shares_before() const { return stats + 6 * kTile; }
};

// Rows of one operand for one head of one sample.
struct HeadRows {
  float* data = nullptr;
  int64_t step = 0;  // from place to place
  float* at(int64_t t) const { return data + t * step; }
};
HeadRows head_rows(const Operand& operand, int64_t b, int64_t h) {
  return {reinterpret_cast<float*>(operand.data) + b * operand.strides[0] + h * operand.strides[2],
          operand.strides[1]};
}

// One head of one sample in one call.
class Head {
 public:
  Head(const AttentionFacts& facts, const KernelCall& call, const Places& places, int64_t b,
       int64_t h)
      : facts_(facts),
        call_(call),
        at_(places),
        b_(b),
        h_(h),
        queries_(call.inputs[0].dims[1]),
        keys_(call.inputs[1].dims[1]),
        q_(head_rows(call.inputs[0], b, h)),
        k_(head_rows(call.inputs[1], b, h)),
        v_(head_rows(call.inputs[2], b, h)),
        first_query_(begin(facts.queries_axis)),
        first_key_(begin(facts.keys_axis)) {
    if (facts.pass != Pass::kForward) {
      dout_ = head_rows(call.inputs[static_cast<size_t>(facts.operands.dout)], b, h);
    }
    if (facts.rate > 0) {
      stream_ = ops::dropout_stream(call.step->seed, call.step->step, facts.site);
    }
  }

  void forward(int64_t tile) {
    const int64_t first = tile * kTile;
    const int64_t count = std::min(kTile, queries_ - first);
    facts_.run.transpose(q_.at(first), q_.step, count, facts_.width, at_.lanes_a);
    const QueryStats stats = at_.query_stats();
    std::fill_n(stats.most, kTile, std::numeric_limits<float>::lowest());
    std::fill_n(stats.rest, kTile, -1.0f);  // not even a largest one
    std::fill_n(stats.key, kTile, -1.0f);
    std::fill_n(at_.sums_b, kTile * facts_.values, 0.0f);
    for (int64_t key = 0; key < keys_; key += kTile) {
      const int64_t rows = std::min(kTile, keys_ - key);
      if (hidden(first, count, key)) break;
      ScoreTile scores = multiply_scores(k_, key, rows, first, count, true);
      scores.first_key = key;
      std::copy_n(stats.key, 2 * kTile, at_.keys_before());  // and shares
      facts_.run.merge(scores, stats);
      for (int64_t t = 0; t < count; ++t) {
        if (stats.key[t] != at_.keys_before()[t])
          add_largest(t, at_.keys_before(), at_.shares_before());
      }
      if (key > 0) facts_.run.rescale(at_.sums_b, stats.keep, count, facts_.values);
      facts_.multiply({count, rows, facts_.values, at_.scores, 1, kTile, v_.at(key), v_.step,
                       at_.sums_b, facts_.values, true});
    }
    for (int64_t t = 0; t < count; ++t) add_largest(t, stats.key, stats.share);
    if (call_.outputs[0].data != nullptr) {
      const HeadRows out = head_rows(call_.outputs[0], b_, h_);
      for (int64_t t = 0; t < count; ++t) {
        facts_.run.divide(at_.sums_b + t * facts_.values, 1.0f + stats.rest[t], facts_.values,
                          out.at(first + t));
      }
    }
    if (call_.outputs[1].data == nullptr) return;
    const HeadRows kept = head_rows(call_.outputs[1], b_, h_);
    for (int64_t t = 0; t < count; ++t) {
      kept.at(first + t)[0] = stats.most[t];
      kept.at(first + t)[1] = 1.0f + stats.rest[t];
    }
  }

  void query_gradient(int64_t tile) {
    const int64_t first = tile * kTile;
    const int64_t count = std::min(kTile, queries_ - first);
    facts_.run.transpose(q_.at(first), q_.step, count, facts_.width, at_.lanes_a);
    facts_.run.transpose(dout_.at(first), dout_.step, count, facts_.values, at_.lanes_b);
    load_stats(first, count);
    bool add = false;
    for (int64_t key = 0; key < keys_; key += kTile) {
      const int64_t rows = std::min(kTile, keys_ - key);
      if (hidden(first, count, key)) break;
      const ScoreTile scores = multiply_scores(k_, key, rows, first, count, true);
      facts_.multiply({rows, facts_.values, scores.lanes, v_.at(key), v_.step, 1, at_.lanes_b,
                       kTile, at_.gradient, kTile, false});
      facts_.run.gradient_of_queries(scores, at_.query_stats(), at_.gradient);
      facts_.multiply({count, rows, facts_.width, at_.gradient, 1, kTile, k_.at(key), k_.step,
                       at_.sums_a, facts_.width, add});
      add = true;
    }
    store(0, first, count, at_.sums_a, facts_.width, add);
  }

  void key_gradient(int64_t tile) {
    const int64_t first = tile * kTile;
    const int64_t count = std::min(kTile, keys_ - first);
    facts_.run.transpose(k_.at(first), k_.step, count, facts_.width, at_.lanes_a);
    facts_.run.transpose(v_.at(first), v_.step, count, facts_.values, at_.lanes_b);
    bool add = false;
    for (int64_t query = 0; query < queries_; query += kTile) {
      const int64_t rows = std::min(kTile, queries_ - query);
      if (hidden(query, rows, first)) continue;
      load_stats(query, rows);
      const ScoreTile scores = multiply_scores(q_, query, rows, first, count, false);
      facts_.multiply({rows, facts_.values, scores.lanes, dout_.at(query), dout_.step, 1,
                       at_.lanes_b, kTile, at_.gradient, kTile, false});
      facts_.run.gradient_of_keys(scores, at_.query_stats(), at_.gradient);
      facts_.multiply({count, rows, facts_.width, at_.gradient, 1, kTile, q_.at(query), q_.step,
                       at_.sums_a, facts_.width, add});
      facts_.multiply({count, rows, facts_.values, at_.scores, 1, kTile, dout_.at(query),
                       dout_.step, at_.sums_b, facts_.values, add});
      add = true;
    }
    store(0, first, count, at_.sums_a, facts_.width, add);
    store(1, first, count, at_.sums_b, facts_.values, add);
  }

 private:
  // The value of the key that has the largest score of a query, which is in no product.
  void add_largest(int64_t t, const float* keys, const float* shares) {
    if (keys[t] < 0) return;
    const float* from = v_.at(static_cast<int64_t>(keys[t]));
    float* to = at_.sums_b + t * facts_.values;
    for (int64_t c = 0; c < facts_.values; ++c) to[c] += shares[t] * from[c];
  }

  int64_t begin(int axis) const { return axis < 0 ? 0 : call_.begin[static_cast<size_t>(axis)]; }

  // Whether no query of a tile sees a key of one that begins at `key`.
  bool hidden(int64_t query, int64_t queries, int64_t key) const {
    return facts_.skips() && first_key_ + key > first_query_ + query + queries - 1;
  }

  // The tile's products: rows of `rows_of` from `row` against the transposed lanes.
  ScoreTile multiply_scores(const HeadRows& rows_of, int64_t row, int64_t rows, int64_t lane,
                            int64_t lanes, bool lanes_are_queries) {
    ScoreTile tile;
    tile.rows = rows;
    tile.lanes = lanes_of_places(lanes);
    facts_.multiply({rows, facts_.width, tile.lanes, rows_of.at(row), rows_of.step, 1, at_.lanes_a,
                     kTile, at_.scores, kTile, false});
    tile.scale = facts_.scale;
    tile.masked_score = -0.7f * std::numeric_limits<float>::max();
    tile.scores = at_.scores;
    const auto query = [&](int64_t r, int64_t l) { return lanes_are_queries ? lane + l : row + r; };
    const auto key = [&](int64_t r, int64_t l) { return lanes_are_queries ? row + r : lane + l; };
    if (hides(query(0, 0), key(rows - 1, lanes - 1))) {
      for (int64_t r = 0; r < rows; ++r) {
        uint8_t* seen = at_.seen + r * kTile;
        std::fill(seen + lanes, seen + kTile, uint8_t{1});
        for (int64_t l = 0; l < lanes; ++l) seen[l] = sees(query(r, l), key(r, l)) ? 1 : 0;
      }
      tile.seen = at_.seen;
    }
    if (facts_.rate > 0) {
      for (int64_t r = 0; r < rows; ++r) {
        float* factors = at_.factors + r * kTile;
        std::fill(factors + lanes, factors + kTile, 0.0f);
        for (int64_t l = 0; l < lanes; ++l) factors[l] = factor(query(r, l), key(r, l));
      }
      tile.factors = at_.factors;
    }
    return tile;
  }

  // Whether anything may be hidden in a tile with this first query and last key.
  bool hides(int64_t query, int64_t key) const {
    if (!facts_.only_causal()) return true;
    return facts_.causal && first_key_ + key > first_query_ + query;
  }

  bool sees(int64_t t, int64_t s) const {
    if (facts_.causal && first_key_ + s > first_query_ + t) return false;
    const auto is_set = [&](int operand, int64_t i, int64_t j) {
      if (operand < 0) return true;
      const Operand& mask = call_.inputs[static_cast<size_t>(operand)];
      const int64_t last = mask.dims.size() > 2 ? j * mask.strides[2] : 0;
      return reinterpret_cast<const uint8_t*>(
                 mask.data)[b_ * mask.strides[0] + i * mask.strides[1] + last] != 0;
    };
    return is_set(facts_.operands.key_mask, s, 0) && is_set(facts_.operands.query_mask, t, 0) &&
           is_set(facts_.operands.mask, t, s);
  }

  // What dropout multiplies the probability of a pair by: an element of the global (B, H, T, S).
  float factor(int64_t t, int64_t s) const {
    const int64_t heads = call_.inputs[0].dims[2];
    const int64_t sample = call_.first_sample(facts_.batch_axis) * facts_.rows + b_;
    const int64_t row = (sample * heads + h_) * facts_.all_queries + first_query_ + t;
    const int64_t element = row * facts_.all_keys + first_key_ + s;
    return stream_.uniform(static_cast<uint64_t>(element)) >= static_cast<float>(facts_.rate)
               ? static_cast<float>(1.0 / (1.0 - facts_.rate))
               : 0.0f;
  }

  void load_stats(int64_t first, int64_t count) {
    const QueryStats stats = at_.query_stats();
    std::fill_n(at_.stats, 3 * kTile, 0.0f);
    const HeadRows kept =
        head_rows(call_.inputs[static_cast<size_t>(facts_.operands.stats)], b_, h_);
    const Operand& dot = call_.inputs[static_cast<size_t>(facts_.operands.dot)];
    const HeadRows dots = head_rows(dot, b_, h_);
    for (int64_t t = 0; t < count; ++t) {
      stats.most[t] = kept.at(first + t)[0];
      stats.rest[t] = 1.0f / kept.at(first + t)[1];
      stats.keep[t] = *dots.at(first + t);
    }
  }

  // Stores a tile's sums, or adds them to what earlier blocks left; `met`: there are any.
  void store(size_t output, int64_t first, int64_t count, const float* sums, int64_t width,
             bool met) const {
    if (call_.outputs[output].data == nullptr) return;
    const HeadRows out = head_rows(call_.outputs[output], b_, h_);
    for (int64_t t = 0; t < count; ++t) {
      float* to = out.at(first + t);
      const float* from = sums + t * width;
      for (int64_t c = 0; c < width; ++c) {
        const float sum = met ? from[c] : 0.0f;
        to[c] = call_.first ? sum : to[c] + sum;
      }
    }
  }

  const AttentionFacts& facts_;
  const KernelCall& call_;
  Places at_;
  int64_t b_, h_;
  int64_t queries_, keys_;
  HeadRows q_, k_, v_, dout_;
  int64_t first_query_, first_key_;
  Philox stream_{0, 0};
};

void run_tasks(const AttentionFacts& facts, const KernelCall& call) {
  const int64_t heads = call.inputs[0].dims[2];
  const int64_t places = call.inputs[facts.pass == Pass::kKeys ? 1 : 0].dims[1];
  const int64_t tiles = (places + kTile - 1) / kTile;
  const int64_t tasks = call.inputs[0].dims[0] * heads * tiles;
  for_each_part(facts.parts, [&](int part) {
    const Range range = part_of(tasks, 1, part, facts.parts);
    const Places at(facts, call.scratch + part * Places::floats(facts) * kFloat);
    for (int64_t task = range.begin; task < range.end; ++task) {
      Head head(facts, call, at, task / tiles / heads, task / tiles % heads);
      switch (facts.pass) {
        case Pass::kForward:
          head.forward(task % tiles);
          break;
        case Pass::kQueries:
          head.query_gradient(task % tiles);
          break;
        case Pass::kKeys:
          head.key_gradient(task % tiles);
          break;
      }
    }
  });
}

CpuKernel make_dot(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.cut_inside_samples()) return {};
  const Shape& out = facts.inputs[0].shape;
  const int64_t width = out[3].count;
  const int64_t rows = facts.input_elements(0) / width;
  const auto dot = pick_attention(options.isa).dot;
  const int parts = parts_for(rows * width * 2 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        output_floats(call, 0)[row] =
            dot(input_floats(call, 0) + row * width, input_floats(call, 1) + row * width, width);
      }
    });
  });
}

template <Pass kPass>
CpuKernel make_pass(const NodeFacts& facts, const CpuOptions& options) {
  AttentionFacts f;
  f.pass = kPass;
  f.operands = ops::read_attention(facts.attributes, f.pass != Pass::kForward);
  f.scale = static_cast<float>(facts.attributes.get_double("scale"));
  f.causal = facts.attributes.get_bool("causal", false);
  f.rate = facts.attributes.get_double("rate", 0.0);
  if (f.rate > 0) f.site = facts.attributes.get_int("site");
  f.rows = facts.inputs[0].shape[0].count;
  f.all_queries = facts.inputs[0].shape[1].count;
  f.all_keys = facts.inputs[1].shape[1].count;
  if (f.all_queries * f.all_keys < kLeastPairs) return {};
  if (f.all_keys > kMostKeys) return {};
  f.width = facts.inputs[0].shape[3].count;
  f.values = facts.inputs[2].shape[3].count;
  f.batch_axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  f.queries_axis = graph::find_axis(facts.axes, ops::kQueriesAxis);
  f.keys_axis = graph::find_axis(facts.axes, ops::kKeysAxis);
  f.multiply = pick_multiply(options.isa);
  f.run = pick_attention(options.isa);
  const double products = static_cast<double>(facts.input_elements(0)) *
                          static_cast<double>(facts.input_elements(1)) /
                          static_cast<double>(f.width * facts.samples());
  if (products >= kProductsWorthATeam) f.parts = options.parts;
  CpuKernel made = kernel_of([f](const KernelCall& call) { run_tasks(f, call); },
                             Bytes(f.parts * Places::floats(f) * kFloat));
  made.strided = true;
  return made;
}

constexpr CpuEntry kEntries[] = {
    {"attention", make_pass<Pass::kForward>},
    {"attention_dot", make_dot},
    {"attention_grad_keys", make_pass<Pass::kKeys>},
    {"attention_grad_query", make_pass<Pass::kQueries>},
};

}  // namespace

CpuKernel make_attention(const NodeFacts& facts, const CpuOptions& options) {
  const CpuEntry* entry = find_entry(kEntries, facts.op());
  if (entry == nullptr || facts.outputs[0].dtype != DType::kFloat32) return {};
  return entry->make(facts, options);
}

}  // namespace plimsoll::backend::cpu
