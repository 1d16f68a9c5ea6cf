// Accuracies per row, and counts over all of them.

#include <algorithm>
#include <array>

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

std::unique_ptr<Kernel> make_confusion_count(const Problem& problem) {
  const double threshold = problem.attributes.get_double("threshold", 0.5);
  const std::string counts = problem.attributes.get_string("counts", "hits");
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return accuracy<T>([least = static_cast<T>(threshold), of_target = counts != "predicted",
                        of_prediction = counts != "actual"](const Operand& target, int64_t at,
                                                            const T* p, int64_t count) {
      const T* t = data_of<T>(target) + at;
      int64_t found = 0;
      for (int64_t i = 0; i < count; ++i) {
        found += (!of_target || t[i] != T(0)) && (!of_prediction || p[i] > least) ? 1 : 0;
      }
      return static_cast<double>(found);
    });
  });
}

// Rows of counts, or of sums of weights: positives, negatives.
//
// A prediction p of thresholds 0, 1/(n − 1), …, 1 is above threshold ceil(p (n − 1)) − 1 and not
// above the next, in the arithmetic of keras.src.metrics.metrics_utils.
template <typename T>
struct Histogram {
  T* sums;
  int64_t pitch;  // from the positives' row to the negatives'
  int64_t thresholds;

  void clear() const {
    for (int64_t row = 0; row < 2; ++row) std::fill_n(sums + row * pitch, thresholds, T(0));
  }

  void add(const Histogram& other) const {
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t i = 0; i < thresholds; ++i)
        sums[row * pitch + i] += other.sums[row * other.pitch + i];
    }
  }

  void count(const KernelCall& call) const {
    const Operand& target = call.inputs[0];
    const Operand& prediction = call.inputs[1];
    std::array<int64_t, kMaxRank> steps{};  // 0 along the last axis: a row has one weight
    const T one(1);
    const T* weights = &one;
    if (call.inputs.size() > 2) {
      weights = data_of<const T>(call.inputs[2]);
      std::ranges::copy(call.inputs[2].strides, steps.begin());
    }
    const Strides weight_steps(steps.data(), prediction.dims.size());
    for_each_index<3>(
        prediction.dims, {target.strides, prediction.strides, weight_steps},
        [&](const auto& at, int64_t) {
          const T p = data_of<const T>(prediction)[at[1]];
          const T bounded = p > T(0) ? std::min(p, T(1)) : T(0);
          const T bucket = std::ceil(bounded * static_cast<T>(thresholds - 1)) - T(1);
          const bool positive = data_of<const T>(target)[at[0]] != T(0);
          sums[(positive ? 0 : pitch) + std::max<int64_t>(static_cast<int64_t>(bucket), 0)] +=
              weights[at[2]];
        });
  }
};

std::unique_ptr<Kernel> make_confusion_histogram(const Problem& problem) {
  const int64_t thresholds = problem.attributes.get_int("thresholds");
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([thresholds](const KernelCall& call) {
      const Operand& y = call.outputs[0];
      const Histogram<T> all{data_of<T>(y), y.strides[0], thresholds};
      if (call.first) all.clear();
      if (call.first || call.inputs.size() == 2) return all.count(call);
      const Histogram<T> own{reinterpret_cast<T*>(call.scratch), thresholds, thresholds};
      own.clear();
      own.count(call);
      all.add(own);
    });
  });
}

// A later block's own sums; without weights they are whole numbers, in any order the same.
Bytes histogram_scratch(const Problem& problem) {
  if (problem.inputs.size() == 2) return Bytes();
  return 2 * problem.attributes.get_int("thresholds") * element_bytes(problem.inputs[1].dtype);
}

constexpr KernelEntry kEntries[] = {
    {"binary_accuracy", make_binary},
    {"categorical_accuracy", make_categorical},
    {"confusion_count", make_confusion_count},
    {"confusion_histogram", make_confusion_histogram, histogram_scratch},
    {"sparse_categorical_accuracy", make_sparse_categorical},
    {"sparse_top_k_categorical_accuracy", make_sparse_top_k},
    {"top_k_categorical_accuracy", make_top_k},
};

}  // namespace

std::span<const KernelEntry> metric_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
