// dense_crossentropy and its gradient, row by row: logits in double, a row of them at a time.

#include <algorithm>

#include "backend/reference/labels.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

struct Classifier {
  int64_t inner = 1;
  int64_t classes = 1;
  bool bias = false;
  DType labels = DType::kInt64;
  size_t label_input() const { return bias ? 3 : 2; }
};

Classifier read_classifier(const Problem& problem) {
  Classifier c;
  c.inner = problem.inputs[1].shape[0].count;
  c.classes = problem.inputs[1].shape[1].count;
  c.bias = problem.attributes.get_bool("use_bias", false);
  c.labels = problem.inputs[c.label_input()].dtype;
  return c;
}

// The logits of one row, rounded to the element type.
template <typename T>
void fill_logits(const Classifier& c, const KernelCall& call, const T* x, double* logits) {
  const Operand& w = call.inputs[1];
  for (int64_t i = 0; i < c.classes; ++i) {
    logits[i] = c.bias ? static_cast<double>(data_of<const T>(call.inputs[2])[i]) : 0.0;
  }
  for (int64_t d = 0; d < c.inner; ++d) {
    const T* row = data_of<const T>(w) + d * w.strides[0];
    const auto factor = static_cast<double>(x[d]);
    for (int64_t i = 0; i < c.classes; ++i) logits[i] += factor * static_cast<double>(row[i]);
  }
  for (int64_t i = 0; i < c.classes; ++i) {
    logits[i] = static_cast<double>(static_cast<T>(logits[i]));
  }
}

std::unique_ptr<Kernel> make_forward(const Problem& problem) {
  const Classifier c = read_classifier(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([c](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& labels = call.inputs[c.label_input()];
      const Operand& loss = call.outputs[0];
      const Operand& stats = call.outputs[1];
      auto* logits = reinterpret_cast<double*>(call.scratch);
      const bool keeps = stats.data != nullptr;
      const bool wanted = loss.data != nullptr;
      for_each_index<4>(
          x.dims.first(x.dims.size() - 1),
          {x.strides, labels.strides, wanted ? loss.strides : x.strides,
           keeps ? stats.strides : x.strides},
          [&](const auto& at, int64_t) {
            fill_logits<T>(c, call, data_of<const T>(x) + at[0], logits);
            double most = logits[0];
            for (int64_t i = 1; i < c.classes; ++i) {
              if (logits[i] > most || logits[i] != logits[i]) most = logits[i];
            }
            double sum = 0;
            for (int64_t i = 0; i < c.classes; ++i) sum += std::exp(logits[i] - most);
            const int64_t label = read_label(labels, c.labels, at[1]);
            const double picked = label >= 0 && label < c.classes ? logits[label] : 0.0;
            if (wanted) {
              data_of<T>(loss)[at[2]] = static_cast<T>(std::log(sum) - (picked - most));
            }
            if (!keeps) return;
            data_of<T>(stats)[at[3]] = static_cast<T>(most);
            data_of<T>(stats)[at[3] + 1] = static_cast<T>(sum);
          });
    });
  });
}

// Sums of this call, in scratch: logits and their gradient, then those of w and bias.
struct GradientScratch {
  double* logits;
  double* w;
  double* bias;
  GradientScratch(const Classifier& c, std::byte* scratch) {
    logits = reinterpret_cast<double*>(scratch);
    w = logits + c.classes;
    bias = w + c.inner * c.classes;
  }
};

template <typename T>
void add_row(const Classifier& c, const KernelCall& call, const GradientScratch& sums, const T* x,
             const T* stats, int64_t label, T d, T* dx) {
  fill_logits<T>(c, call, x, sums.logits);
  for (int64_t i = 0; i < c.classes; ++i) {
    const double p =
        std::exp(sums.logits[i] - static_cast<double>(stats[0])) / static_cast<double>(stats[1]);
    sums.logits[i] = (p - (i == label ? 1.0 : 0.0)) * static_cast<double>(d);
    sums.bias[i] += sums.logits[i];
  }
  const Operand& w = call.inputs[1];
  for (int64_t k = 0; k < c.inner; ++k) {
    const T* row = data_of<const T>(w) + k * w.strides[0];
    double sum = 0;
    for (int64_t i = 0; i < c.classes; ++i) {
      sum += sums.logits[i] * static_cast<double>(row[i]);
      sums.w[k * c.classes + i] += sums.logits[i] * static_cast<double>(x[k]);
    }
    if (dx != nullptr) dx[k] = static_cast<T>(sum);
  }
}

std::unique_ptr<Kernel> make_gradient(const Problem& problem) {
  const Classifier c = read_classifier(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([c](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& labels = call.inputs[c.label_input()];
      const Operand& stats = call.inputs[c.label_input() + 1];
      const Operand& d = call.inputs[c.label_input() + 2];
      const Operand& dx = call.outputs[0];
      const GradientScratch sums(c, call.scratch);
      std::fill_n(sums.w, (c.inner + 1) * c.classes, 0.0);
      const bool wants_x = dx.data != nullptr;
      for_each_index<5>(
          d.dims,
          {x.strides, labels.strides, stats.strides, d.strides, wants_x ? dx.strides : x.strides},
          [&](const auto& at, int64_t) {
            add_row<T>(c, call, sums, data_of<const T>(x) + at[0], data_of<const T>(stats) + at[2],
                       read_label(labels, c.labels, at[1]), data_of<const T>(d)[at[3]],
                       wants_x ? data_of<T>(dx) + at[4] : nullptr);
          });
      if (const Operand& dw = call.outputs[1]; dw.data != nullptr) {
        for (int64_t k = 0; k < c.inner; ++k) {
          T* row = data_of<T>(dw) + k * dw.strides[0];
          for (int64_t i = 0; i < c.classes; ++i) {
            fold(row[i], sums.w[k * c.classes + i], call.first);
          }
        }
      }
      if (!c.bias || call.outputs[2].data == nullptr) return;
      for (int64_t i = 0; i < c.classes; ++i) {
        fold(data_of<T>(call.outputs[2])[i], sums.bias[i], call.first);
      }
    });
  });
}

Bytes forward_scratch(const Problem& problem) {
  return Bytes(read_classifier(problem).classes * int64_t{sizeof(double)});
}

Bytes gradient_scratch(const Problem& problem) {
  const Classifier c = read_classifier(problem);
  return Bytes((c.inner + 2) * c.classes * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"dense_crossentropy", make_forward, forward_scratch},
    {"dense_crossentropy_grad", make_gradient, gradient_scratch},
};

}  // namespace

std::span<const KernelEntry> dense_crossentropy_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
