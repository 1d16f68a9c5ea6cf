// Accuracies per row, and counts over all of them.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "backend/reference/labels.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// The first maximum.
template <typename T>
int64_t argmax(const T* x, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}

// hit(target row, prediction row, length) → the row's accuracy.
template <typename T, typename Hit>
std::unique_ptr<Kernel> accuracy(Hit hit) {
  return kernel_of([hit](const KernelCall& call) {
    const Operand& target = call.inputs[0];
    const Operand& prediction = call.inputs[1];
    const Operand& y = call.outputs[0];
    for_each_index<3>(
        y.dims, {target.strides, prediction.strides, y.strides}, [&](const auto& at, int64_t) {
          data_of<T>(y)[at[2]] = static_cast<T>(
              hit(target, at[0], data_of<T>(prediction) + at[1], row_length(prediction)));
        });
  });
}

std::unique_ptr<Kernel> make_binary(const Problem& problem) {
  const double threshold = problem.attributes.get_double("threshold", 0.5);
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([least = static_cast<T>(threshold)](const Operand& target, int64_t at,
                                                           const T* p, int64_t count) {
      const T* t = data_of<T>(target) + at;
      int64_t hits = 0;
      for (int64_t i = 0; i < count; ++i) hits += t[i] == (p[i] > least ? T(1) : T(0)) ? 1 : 0;
      return static_cast<double>(hits) / static_cast<double>(count);
    });
  });
}

std::unique_ptr<Kernel> make_categorical(const Problem& problem) {
  return for_float(problem.inputs[1].dtype, [](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([](const Operand& target, int64_t at, const T* p, int64_t count) {
      return argmax<T>(data_of<T>(target) + at, count) == argmax(p, count) ? 1.0 : 0.0;
    });
  });
}

std::unique_ptr<Kernel> make_sparse_categorical(const Problem& problem) {
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([dtype = problem.inputs[0].dtype](const Operand& labels, int64_t at,
                                                         const T* p, int64_t count) {
      return read_label(labels, dtype, at) == argmax(p, count) ? 1.0 : 0.0;
    });
  });
}

// Whether fewer than k of the row are above element `label`; no, where one of them is not finite.
template <typename T>
double in_top_k(const T* p, int64_t count, int64_t label, int64_t k) {
  if (label < 0 || label >= count) return 0.0;
  int64_t above = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(p[i])) return 0.0;
    above += p[i] > p[label] ? 1 : 0;
  }
  return above < k ? 1.0 : 0.0;
}

std::unique_ptr<Kernel> make_top_k(const Problem& problem) {
  const int64_t k = problem.attributes.get_int("k");
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([k](const Operand& target, int64_t at, const T* p, int64_t count) {
      return in_top_k(p, count, argmax<T>(data_of<T>(target) + at, count), k);
    });
  });
}

std::unique_ptr<Kernel> make_sparse_top_k(const Problem& problem) {
  const int64_t k = problem.attributes.get_int("k");
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([k, dtype = problem.inputs[0].dtype](const Operand& labels, int64_t at,
                                                            const T* p, int64_t count) {
      return in_top_k(p, count, read_label(labels, dtype, at), k);
    });
  });
}

std::unique_ptr<Kernel> make_equal_share(const Problem& problem) {
  return for_float(problem.inputs[1].dtype, [](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([](const Operand& target, int64_t at, const T* p, int64_t count) {
      const T* t = data_of<T>(target) + at;
      int64_t equal = 0;
      for (int64_t i = 0; i < count; ++i) equal += t[i] == p[i] ? 1 : 0;
      return static_cast<double>(equal) / static_cast<double>(count);
    });
  });
}

// What one row adds up to, and how it lies around its mean.
struct Moments {
  double mean = 0;
  double variance = 0;
};

template <typename T>
Moments moments(const T* x, int64_t count) {
  Moments m;
  for (int64_t i = 0; i < count; ++i) m.mean += static_cast<double>(x[i]);
  m.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double off = static_cast<double>(x[i]) - m.mean;
    m.variance += off * off;
  }
  m.variance /= static_cast<double>(count);
  return m;
}

template <typename T>
double pearson(const T* p, const T* t, int64_t count) {
  const Moments of_p = moments(p, count);
  const Moments of_t = moments(t, count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += (static_cast<double>(p[i]) - of_p.mean) * (static_cast<double>(t[i]) - of_t.mean);
  }
  return sum / static_cast<double>(count) / std::sqrt(of_p.variance) / std::sqrt(of_t.variance);
}

template <typename T>
double concordance(const T* p, const T* t, int64_t count) {
  constexpr double kEpsilon = 1e-7;
  const Moments of_p = moments(p, count);
  const Moments of_t = moments(t, count);
  const double apart = of_t.mean - of_p.mean;
  double sum = 0;  // Keras takes the mean of the predictions off the targets too
  for (int64_t i = 0; i < count; ++i) {
    sum += (static_cast<double>(t[i]) - of_p.mean) * (static_cast<double>(p[i]) - of_p.mean);
  }
  const double norm = of_t.variance + of_p.variance + apart * apart;
  return 2 * sum / static_cast<double>(count) / (norm + kEpsilon);
}

// Inputs are prediction and target.
std::unique_ptr<Kernel> make_correlation(const Problem& problem, bool is_pearson) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([is_pearson](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& t = call.inputs[1];
      const Operand& y = call.outputs[0];
      const int64_t count = row_length(p);
      for_each_index<3>(y.dims, {p.strides, t.strides, y.strides}, [&](const auto& at, int64_t) {
        const T* row = data_of<T>(p) + at[0];
        const T* target = data_of<T>(t) + at[1];
        data_of<T>(y)[at[2]] = static_cast<T>(is_pearson ? pearson(row, target, count)
                                                         : concordance(row, target, count));
      });
    });
  });
}

std::unique_ptr<Kernel> make_pearson(const Problem& problem) {
  return make_correlation(problem, true);
}
std::unique_ptr<Kernel> make_concordance(const Problem& problem) {
  return make_correlation(problem, false);
}

std::unique_ptr<Kernel> make_keep_top_k(const Problem& problem) {
  const int64_t k = problem.attributes.get_int("k");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([k](const KernelCall& call) {
      constexpr T kBelowAll(-1e10);
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t count = row_length(x);
      for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
        const T* from = data_of<T>(x) + at[0];
        T* to = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) {
          int64_t before = 0;
          for (int64_t j = 0; j < count && before < k; ++j) {
            before += from[j] > from[i] || (from[j] == from[i] && j < i) ? 1 : 0;
          }
          to[i] = before < k ? from[i] : kBelowAll;
        }
      });
    });
  });
}

// Rows of target and prediction with the row's weight. Sums of a block are made in scratch.
template <typename T>
struct WeightedRows {
  const KernelCall& call;

  // row(target's offset, prediction, weight)
  template <typename Row>
  void each(const Row& row) const {
    const Operand& target = call.inputs[0];
    const Operand& prediction = call.inputs[1];
    const std::span<const int64_t> rows = row_dims(prediction);
    const std::array<int64_t, kMaxRank> none{};
    const bool weighted = call.inputs.size() > 2;
    const Strides steps =
        weighted ? Strides(call.inputs[2].strides) : Strides(none.data(), rows.size());
    const T one(1);
    const T* weights = weighted ? data_of<const T>(call.inputs[2]) : &one;
    for_each_index<3>(rows, {target.strides, prediction.strides, steps},
                      [&](const auto& at, int64_t) {
                        row(at[0], data_of<const T>(prediction) + at[1], weights[at[2]]);
                      });
  }
};

// count(call, zeroed sums in row-major order) → a kernel that adds them up over blocks.
template <typename T, typename Count>
std::unique_ptr<Kernel> sums_of_rows(Count count) {
  return kernel_of([count](const KernelCall& call) {
    const Operand& y = call.outputs[0];
    T* sums = reinterpret_cast<T*>(call.scratch);
    std::fill_n(sums, count_of(y), T(0));
    count(call, sums);
    T* const out = data_of<T>(y);
    for_each_index<1>(y.dims, {y.strides}, [&](const auto& at, int64_t position) {
      out[at[0]] = call.first ? sums[position] : out[at[0]] + sums[position];
    });
  });
}

Bytes scratch_of_sums(const Problem& problem) {
  return problem.outputs[0].shape.elements_per_sample() * element_bytes(problem.inputs[1].dtype);
}

// In which bucket a prediction is counted. Evenly lying thresholds are told in the arithmetic of
// keras.src.metrics.metrics_utils: p is above threshold ceil(p (n − 1)) − 1 and not above the next.
template <typename T>
struct Buckets {
  int64_t thresholds = 0;
  bool below = false;
  std::vector<T> edges{};

  int64_t count() const {
    return edges.empty() ? thresholds + (below ? 1 : 0) : std::ssize(edges) + 1;
  }
  int64_t of(T p) const {
    if (!edges.empty()) {
      return std::ranges::lower_bound(edges, p) - edges.begin();
    }
    const T bounded = p > T(0) ? std::min(p, T(1)) : T(0);
    const T bucket = std::ceil(bounded * static_cast<T>(thresholds - 1)) - T(1);
    return std::max<int64_t>(static_cast<int64_t>(bucket) + (below ? 1 : 0), 0);
  }
};

std::unique_ptr<Kernel> make_confusion_histogram(const Problem& problem) {
  const graph::Attributes& given = problem.attributes;
  const bool columns = given.get_bool("columns", false);
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    Buckets<T> buckets;
    if (given.has("edges")) {
      for (const int64_t bits : given.get_ints("edges")) {
        buckets.edges.push_back(static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
      }
    } else {
      buckets.thresholds = given.get_int("thresholds");
      buckets.below = given.get_bool("below", false);
    }
    return sums_of_rows<T>([buckets, columns](const KernelCall& call, T* sums) {
      const int64_t pitch = buckets.count();
      const int64_t length = row_length(call.inputs[1]);
      const T* targets = data_of<const T>(call.inputs[0]);
      WeightedRows<T>{call}.each([&](int64_t target, const T* p, T weight) {
        for (int64_t i = 0; i < length; ++i) {
          const int64_t row = (columns ? 2 * i : 0) + (targets[target + i] != T(0) ? 0 : 1);
          sums[row * pitch + buckets.of(p[i])] += weight;
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_column_sums(const Problem& problem) {
  const bool hits = problem.attributes.get_string("kind", "hits") == "hits";
  const bool largest = !problem.attributes.has("threshold");
  const double threshold = problem.attributes.get_double("threshold", 0);
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return sums_of_rows<T>([=, least = static_cast<T>(threshold)](const KernelCall& call, T* sums) {
      constexpr T kZero(1e-9);
      const int64_t n = row_length(call.inputs[1]);
      const T* targets = data_of<const T>(call.inputs[0]);
      WeightedRows<T>{call}.each([&](int64_t at, const T* p, T weight) {
        const T* t = targets + at;
        const T top = hits && largest ? p[argmax(p, n)] : T(0);
        for (int64_t i = 0; i < n; ++i) {
          const bool named = largest ? p[i] >= top && std::abs(p[i]) > kZero : p[i] > least;
          const T yes = named ? T(1) : T(0);
          const T off = t[i] - p[i];
          sums[i] += hits ? yes * t[i] * weight : t[i] * weight;
          sums[n + i] += hits ? yes * (T(1) - t[i]) * weight : t[i] * (t[i] * weight);
          sums[2 * n + i] += hits ? (T(1) - yes) * t[i] * weight : off * off * weight;
          sums[3 * n + i] += hits ? t[i] * weight : weight;
        }
      });
    });
  });
}

// The numbers that class_pairs counts.
struct PairRules {
  int64_t classes = 2;
  std::optional<int64_t> ignored{};
  bool whole = false;  // weights

  template <typename T>
  void count(T* sums, int64_t target, int64_t prediction, T weight) const {
    if (target < 0 || target >= classes || prediction < 0 || prediction >= classes) return;
    if (target == ignored) return;
    sums[target * classes + prediction] += whole ? std::trunc(weight) : weight;
  }
};

// A number of no class where it is none.
template <typename T>
int64_t class_of(T number) {
  constexpr T kMost(1e9);
  return std::abs(number) < kMost ? static_cast<int64_t>(number) : -1;
}

std::unique_ptr<Kernel> make_class_pairs(const Problem& problem) {
  const graph::Attributes& given = problem.attributes;
  PairRules rules{.classes = given.get_int("classes"), .whole = given.get_bool("whole", false)};
  if (given.has("ignored")) rules.ignored = given.get_int("ignored");
  const DType labels = problem.inputs[0].dtype;
  const std::string kind = given.get_string("prediction", "largest");
  const double threshold = given.get_double("threshold", 0);
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return sums_of_rows<T>([=, least = static_cast<T>(threshold)](const KernelCall& call, T* sums) {
      const Operand& target = call.inputs[0];
      const int64_t n = row_length(call.inputs[1]);
      WeightedRows<T>{call}.each([&](int64_t at, const T* p, T weight) {
        if (!is_floating(labels)) {
          rules.count(sums, read_label(target, labels, at), argmax(p, n), weight);
        } else if (kind == "largest") {
          rules.count(sums, argmax(data_of<const T>(target) + at, n), argmax(p, n), weight);
        } else {
          const T* t = data_of<const T>(target) + at;
          for (int64_t i = 0; i < n; ++i) {
            const int64_t said = kind == "above" ? (p[i] >= least ? 1 : 0) : class_of(p[i]);
            rules.count(sums, class_of(t[i]), said, weight);
          }
        }
      });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"binary_accuracy", make_binary},
    {"categorical_accuracy", make_categorical},
    {"class_pairs", make_class_pairs, scratch_of_sums},
    {"column_sums", make_column_sums, scratch_of_sums},
    {"concordance_correlation", make_concordance},
    {"confusion_histogram", make_confusion_histogram, scratch_of_sums},
    {"equal_share", make_equal_share},
    {"keep_top_k", make_keep_top_k},
    {"pearson_correlation", make_pearson},
    {"sparse_categorical_accuracy", make_sparse_categorical},
    {"sparse_top_k_categorical_accuracy", make_sparse_top_k},
    {"top_k_categorical_accuracy", make_top_k},
};

}  // namespace

std::span<const KernelEntry> metric_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
