// Updates of Keras's further optimizers (formulas: ops/adaptive_optimizers), element by element in
// the element type. Weights and slots are whole and dense; outputs may lie where inputs lay.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// One element of a weight, its gradient, up to two slots, and what stands for g².
template <typename T>
struct Element {
  T w, g, a, b, square;
};

// Runs update(Element&) on each element of a node with `kSlots` slots, after the weight's decay.
// begin(lr, t) makes the update from the learning rate and the step's number (0: not counted).
template <typename T, int kSlots, typename Begin>
std::unique_ptr<Kernel> update_kernel(const Problem& problem, Begin begin,
                                      bool magnitudes = false) {
  const T decay = static_cast<T>(problem.attributes.get_double("weight_decay", 0.0));
  // Only where there is one may another operand follow.
  const bool counts =
      problem.inputs.size() > 3 + kSlots && problem.inputs[3 + kSlots].dtype == DType::kInt64;
  const size_t after = 3 + kSlots + (counts ? 1 : 0);
  const bool given = problem.inputs.size() > after;
  return kernel_of([=](const KernelCall& call) {
    const T* squares = given ? data_of<T>(call.inputs[after]) : nullptr;
    const T lr = *data_of<T>(call.inputs[2 + kSlots]);
    const int64_t t = counts ? *data_of<int64_t>(call.inputs[3 + kSlots]) + 1 : 0;
    const auto update = begin(lr, t);
    const T* w = data_of<T>(call.inputs[0]);
    const T* g = data_of<T>(call.inputs[1]);
    const T* a = data_of<T>(call.inputs[2]);
    const T* b = kSlots == 2 ? data_of<T>(call.inputs[3]) : a;
    const int64_t count = count_of(call.inputs[0]);
    for (int64_t i = 0; i < count; ++i) {
      const T square = squares != nullptr ? squares[i] : magnitudes ? std::abs(g[i]) : g[i] * g[i];
      Element<T> e{w[i], g[i], a[i], b[i], square};
      if (decay != T(0)) e.w -= e.w * decay * lr;
      update(e);
      data_of<T>(call.outputs[0])[i] = e.w;
      data_of<T>(call.outputs[1])[i] = e.a;
      if constexpr (kSlots == 2) data_of<T>(call.outputs[2])[i] = e.b;
    }
  });
}

// Attributes as numbers of the element type.
template <typename T>
class Numbers {
 public:
  explicit Numbers(const Problem& problem) : attributes_(problem.attributes) {}
  T operator()(std::string_view key) const { return static_cast<T>(attributes_.get_double(key)); }
  // 1 − the attribute, rounded once.
  T rest(std::string_view key) const { return static_cast<T>(1.0 - attributes_.get_double(key)); }

 private:
  const graph::Attributes& attributes_;
};

std::unique_ptr<Kernel> make_adagrad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return update_kernel<T, 1>(problem, [eps = Numbers<T>(problem)("epsilon")](T lr, int64_t) {
      return [=](Element<T>& e) {
        e.a += e.square;
        e.w -= lr * e.g / std::sqrt(e.a + eps);
      };
    });
  });
}

std::unique_ptr<Kernel> make_adadelta(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    const bool whole = problem.inputs.size() == 5;
    return update_kernel<T, 2>(problem, [whole, rho = number("rho"), take = number.rest("rho"),
                                         eps = number("epsilon")](T lr, int64_t) {
      return [=](Element<T>& e) {
        e.a = rho * e.a + take * e.square;
        const T before = std::sqrt(e.b + eps);
        const T now = std::sqrt(e.a + eps);
        const T delta = -(before * e.g / now);
        // The sum of each read's δ².
        const T factor = before / now;
        e.b = rho * e.b + take * (whole ? delta * delta : factor * factor * e.square);
        e.w += lr * delta;
      };
    });
  });
}

std::unique_ptr<Kernel> make_adamax(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    return update_kernel<T, 2>(
        problem,
        [beta_1 = number("beta_1"), take = number.rest("beta_1"), beta_2 = number("beta_2"),
         eps = number("epsilon")](T lr, int64_t t) {
          const T rest = T(1) - std::pow(beta_1, static_cast<T>(t));
          return [=](Element<T>& e) {
            e.a += (e.g - e.a) * take;
            e.b = std::max(beta_2 * e.b, e.square);
            e.w -= lr * e.a / (rest * (e.b + eps));
          };
        },
        true);
  });
}

// The product of beta_1 (1 − ½ 0.96^i) over the first t steps; it is 0 after some hundred.
double momentum_product(double beta_1, int64_t t) {
  double product = 1;
  double power = 1;
  for (int64_t i = 1; i <= t && product > 0; ++i) {
    power *= 0.96;
    product *= beta_1 * (1 - 0.5 * power);
  }
  return product;
}

std::unique_ptr<Kernel> make_nadam(const Problem& problem) {
  const double beta_1 = problem.attributes.get_double("beta_1");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    return update_kernel<T, 2>(problem, [beta_1, take_1 = number.rest("beta_1"),
                                         beta_2 = number("beta_2"), take_2 = number.rest("beta_2"),
                                         eps = number("epsilon")](T lr, int64_t t) {
      const auto beta = static_cast<T>(beta_1);
      const T decay = static_cast<T>(0.96);
      const T now = beta * (T(1) - T(0.5) * std::pow(decay, static_cast<T>(t)));
      const T next = beta * (T(1) - T(0.5) * std::pow(decay, static_cast<T>(t + 1)));
      const T product = static_cast<T>(momentum_product(beta_1, t));
      const T product_next = product * next;
      const T rest = T(1) - std::pow(beta_2, static_cast<T>(t));
      return [=](Element<T>& e) {
        e.a += (e.g - e.a) * take_1;
        e.b += (e.square - e.b) * take_2;
        const T mean = next * e.a / (T(1) - product_next) + (T(1) - now) * e.g / (T(1) - product);
        e.w -= mean * lr / (std::sqrt(e.b / rest) + eps);
      };
    });
  });
}

std::unique_ptr<Kernel> make_ftrl(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    return update_kernel<T, 2>(
        problem, [power = -number("learning_rate_power"), l1 = number("l1_regularization_strength"),
                  l2 = number("l2_regularization_strength"),
                  shrinkage = T(2) * number("l2_shrinkage_regularization_strength"),
                  beta = number("beta")](T lr, int64_t) {
          const T l2_all = l2 + beta / (T(2) * lr);
          return [=](Element<T>& e) {
            const T sum = e.a + e.square;
            const T raised = std::pow(sum, power);
            e.b += e.g + shrinkage * e.w - (raised - std::pow(e.a, power)) / lr * e.w;
            const T quadratic = raised / lr + T(2) * l2_all;
            e.w = (std::min(std::max(e.b, -l1), l1) - e.b) / quadratic;
            e.a = sum;
          };
        });
  });
}

std::unique_ptr<Kernel> make_lion(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    return update_kernel<T, 1>(
        problem, [beta_1 = number("beta_1"), beta_2 = number("beta_2")](T lr, int64_t) {
          return [=](Element<T>& e) {
            const T way = e.a * beta_1 + e.g * (T(1) - beta_1);
            e.w -= lr * static_cast<T>((way > T(0)) - (way < T(0)));
            e.a = e.a * beta_2 + e.g * (T(1) - beta_2);
          };
        });
  });
}

constexpr KernelEntry kEntries[] = {
    {"adadelta", make_adadelta}, {"adagrad", make_adagrad}, {"adamax", make_adamax},
    {"ftrl", make_ftrl},         {"lion", make_lion},       {"nadam", make_nadam},
};

}  // namespace

std::span<const KernelEntry> adaptive_optimizer_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
