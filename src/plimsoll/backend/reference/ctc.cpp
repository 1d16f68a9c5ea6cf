// Connectionist temporal classification (Graves et al., 2006): sums over all paths of a sample
// through its states, in logarithms and double; each result is rounded once.
//
// State 2 j is the blank before label j, state 2 j + 1 label j. What may come before a state:
// itself, its neighbour, and of a label the label before, where that is another. As in TensorFlow,
// paths that end in a state that spells something else weigh kOther, and so do, in the gradient,
// paths that begin in one: they count where there is no other path.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/labels.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kOther = -706.8936157226562;  // log 1e-307 in float32

// log(exp(a) + exp(b))
double either(double a, double b) {
  if (std::isnan(b)) return b;  // which std::max would drop
  const double most = std::max(a, b);
  if (most == kNever) return kNever;
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

// What a call's operands are read as.
struct Reading {
  DType labels{};
  bool lengths = false;
  DType label_lengths{};
  DType logit_lengths{};
  int64_t blank = 0;
};

Reading reading_of(const Problem& problem, size_t more) {
  Reading reading;
  reading.labels = problem.inputs[1].dtype;
  reading.blank = problem.attributes.get_int("blank");
  reading.lengths = problem.inputs.size() == 4 + more;
  if (!reading.lengths) return reading;
  reading.label_lengths = problem.inputs[2].dtype;
  reading.logit_lengths = problem.inputs[3].dtype;
  return reading;
}

// One sample's logits and labels.
template <typename T>
class Sample {
 public:
  Sample(const KernelCall& call, const Reading& reading, int64_t sample)
      : reading_(reading),
        logits_(data_of<const T>(call.inputs[0]) + sample * call.inputs[0].strides[0]),
        step_(call.inputs[0].strides[1]),
        classes_(call.inputs[0].dims[2]),
        labels_(&call.inputs[1]),
        first_(sample * call.inputs[1].strides[0]),
        count_(call.inputs[1].dims[1]),
        steps_(call.inputs[0].dims[1]) {
    if (reading.lengths) {
      const auto read = [&](size_t i, DType dtype, int64_t most) {
        const Operand& lengths = call.inputs[i];
        return std::clamp<int64_t>(read_label(lengths, dtype, sample * lengths.strides[0]), 0,
                                   most);
      };
      length_ = read(2, reading.label_lengths, count_);
      steps_ = read(3, reading.logit_lengths, steps_);
    } else {
      for (int64_t j = 0; j < count_; ++j) length_ += label(j) != reading.blank ? 1 : 0;
    }
  }

  int64_t steps() const { return steps_; }
  int64_t classes() const { return classes_; }
  int64_t states() const { return 2 * count_ + 1; }
  int64_t length() const { return length_; }
  const T* logits(int64_t t) const { return logits_ + t * step_; }

  double log_sum(int64_t t) const {
    const T* z = logits(t);
    const auto most = static_cast<double>(*std::max_element(z, z + classes_));
    double sum = 0;
    for (int64_t k = 0; k < classes_; ++k) sum += std::exp(static_cast<double>(z[k]) - most);
    return most + std::log(sum);
  }

  // The class that a state says; −1: none.
  int64_t class_of(int64_t state) const {
    if (state % 2 == 0) return reading_.blank;
    const int64_t own = spelled(state / 2);
    return own < 0 || own >= classes_ ? -1 : own;
  }
  // Whether visits to a state count for its class; those of the blank 0 among the labels do not.
  bool counts(int64_t state) const {
    return state % 2 == 0 || label(state / 2) != 0 || reading_.blank != 0;
  }

  // The logarithm of a state's probability at a step.
  double said(int64_t t, int64_t state, double log_sum) const {
    const int64_t k = class_of(state);
    return k < 0 ? 0.0 : static_cast<double>(logits(t)[k]) - log_sum;
  }

  // Whether state − 2 may come before a state.
  bool skips(int64_t state) const {
    return state % 2 == 1 && state > 1 && spelled(state / 2) != spelled(state / 2 - 1);
  }
  // Whether a path that spells the labels may end there.
  bool ends(int64_t state) const { return state == 2 * length_ || state + 1 == 2 * length_; }
  double end(int64_t state) const { return ends(state) ? 0.0 : kOther; }

 private:
  int64_t label(int64_t j) const { return read_label(*labels_, reading_.labels, first_ + j); }
  // Among the labels the blank stands for the class before it, as TensorFlow numbers them.
  int64_t spelled(int64_t j) const {
    const int64_t own = label(j);
    return own == reading_.blank ? std::max<int64_t>(own - 1, 0) : own;
  }

  Reading reading_;
  const T* logits_;
  int64_t step_;
  int64_t classes_;
  const Operand* labels_;
  int64_t first_;
  int64_t count_;
  int64_t steps_;
  int64_t length_ = 0;
};

// What comes before a state, summed over.
template <typename T>
double before(const Sample<T>& sample, const double* paths, int64_t state) {
  double sum = paths[state];
  if (state > 0) sum = either(sum, paths[state - 1]);
  return sample.skips(state) ? either(sum, paths[state - 2]) : sum;
}

// Paths to each state at the first step; `other`: the weight of those that begin elsewhere.
template <typename T>
void begin_paths(const Sample<T>& sample, double other, double* paths) {
  const double log_sum = sample.log_sum(0);
  for (int64_t s = 0; s < sample.states(); ++s) {
    double sum = s < 2 ? 0.0 : kNever;
    sum = either(sum, other);
    if (s > 0) sum = either(sum, other);
    if (sample.skips(s)) sum = either(sum, other);
    paths[s] = sum + sample.said(0, s, log_sum);
  }
}

template <typename T>
void go_on(const Sample<T>& sample, int64_t t, const double* from, double* to) {
  const double log_sum = sample.log_sum(t);
  for (int64_t s = 0; s < sample.states(); ++s) {
    to[s] = before(sample, from, s) + sample.said(t, s, log_sum);
  }
}

template <typename T>
double all_paths(const Sample<T>& sample, const double* paths) {
  double sum = kNever;
  for (int64_t s = 0; s < sample.states(); ++s) sum = either(sum, paths[s] + sample.end(s));
  return sum;
}

int64_t states_of(const Problem& problem) { return 2 * problem.inputs[1].shape[1].count + 1; }

Bytes loss_scratch(const Problem& problem) { return Bytes(8) * (2 * states_of(problem)); }

// Paths to each state at each step, from each state at two steps, visits of each class.
Bytes grad_scratch(const Problem& problem) {
  const Shape& logits = problem.inputs[0].shape;
  return Bytes(8) * ((logits[1].count + 2) * states_of(problem) + logits[2].count);
}

std::unique_ptr<Kernel> make_ctc(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([reading = reading_of(problem, 0)](const KernelCall& call) {
      const Operand& y = call.outputs[0];
      for (int64_t b = 0; b < call.inputs[0].dims[0]; ++b) {
        const Sample<T> sample(call, reading, b);
        auto* from = reinterpret_cast<double*>(call.scratch);
        double* to = from + sample.states();
        double sum = sample.length() == 0 ? 0.0 : kOther;
        if (sample.steps() > 0) {
          begin_paths(sample, kNever, from);
          for (int64_t t = 1; t < sample.steps(); ++t) {
            go_on(sample, t, from, to);
            std::swap(from, to);
          }
          sum = all_paths(sample, from);
        }
        data_of<T>(y)[b * y.strides[0]] = static_cast<T>(-sum);
      }
    });
  });
}

// Paths from each state at a step to the end, what the state itself says left out.
template <typename T>
void go_back(const Sample<T>& sample, int64_t next, const double* from, double* to) {
  const double log_sum = sample.log_sum(next);
  const int64_t states = sample.states();
  for (int64_t s = 0; s < states; ++s) {
    double sum = from[s] + sample.said(next, s, log_sum);
    if (s + 1 < states) sum = either(sum, from[s + 1] + sample.said(next, s + 1, log_sum));
    if (s + 2 < states && sample.skips(s + 2)) {
      sum = either(sum, from[s + 2] + sample.said(next, s + 2, log_sum));
    }
    to[s] = sum;
  }
}

template <typename T>
void store_gradient(const Sample<T>& sample, int64_t t, const double* to, const double* from,
                    double all, double* visits, double d, T* dz) {
  std::fill_n(visits, sample.classes(), 0.0);
  for (int64_t s = 0; s < sample.states(); ++s) {
    const int64_t k = sample.class_of(s);
    if (k >= 0 && sample.counts(s)) visits[k] += std::exp(to[s] + from[s] - all);
  }
  const double log_sum = sample.log_sum(t);
  const T* z = sample.logits(t);
  for (int64_t k = 0; k < sample.classes(); ++k) {
    dz[k] = static_cast<T>(d * (std::exp(static_cast<double>(z[k]) - log_sum) - visits[k]));
  }
}

std::unique_ptr<Kernel> make_ctc_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([reading = reading_of(problem, 1)](const KernelCall& call) {
      const Operand& dy = call.inputs[call.inputs.size() - 1];
      const Operand& dz = call.outputs[0];
      for (int64_t b = 0; b < call.inputs[0].dims[0]; ++b) {
        const Sample<T> sample(call, reading, b);
        const int64_t states = sample.states();
        auto* paths = reinterpret_cast<double*>(call.scratch);
        double* from = paths + call.inputs[0].dims[1] * states;
        double* next = from + states;
        double* visits = next + states;
        T* out = data_of<T>(dz) + b * dz.strides[0];
        for (int64_t t = sample.steps(); t < dz.dims[1]; ++t) {
          std::fill_n(out + t * dz.strides[1], sample.classes(), T(0));
        }
        if (sample.steps() == 0) continue;
        begin_paths(sample, kOther, paths);
        for (int64_t t = 1; t < sample.steps(); ++t) {
          go_on(sample, t, paths + (t - 1) * states, paths + t * states);
        }
        const int64_t last = sample.steps() - 1;
        const double all = all_paths(sample, paths + last * states);
        const auto d = static_cast<double>(data_of<const T>(dy)[b * dy.strides[0]]);
        for (int64_t s = 0; s < states; ++s) from[s] = sample.end(s);
        for (int64_t t = last; t >= 0; --t) {
          store_gradient(sample, t, paths + t * states, from, all, visits, d,
                         out + t * dz.strides[1]);
          if (t == 0) break;
          go_back(sample, t, from, next);
          std::swap(from, next);
        }
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"ctc", make_ctc, loss_scratch},
    {"ctc_grad", make_ctc_grad, grad_scratch},
};

}  // namespace

std::span<const KernelEntry> ctc_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
