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

std::unique_ptr<Kernel> make_schedule_free_adamw(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    return update_kernel<T, 2>(
        problem, [beta_1 = number("beta_1"), beta_2 = number("beta_2"), eps = number("epsilon"),
                  warmup = number("warmup_steps")](T lr, int64_t count) {
          const T t = static_cast<T>(count);
          const T rate = warmup > T(0) ? lr * std::min(t / warmup, T(1)) : lr;
          const T rest = T(1) - std::pow(beta_2, t);
          const T share = T(1) / t;
          return [=](Element<T>& e) {
            e.b += (e.square - e.b) * (T(1) - beta_2);
            e.a -= rate * e.g / (std::sqrt(e.b / rest) + eps);
            const T average = (e.w - (T(1) - beta_1) * e.a) / beta_1;
            e.w = (T(1) - beta_1) * e.a + beta_1 * ((T(1) - share) * average + share * e.a);
          };
        });
  });
}

// A weight w after its decay.
template <typename T>
struct Decayed {
  const T* w;
  T factor;  // of weight_decay
  T lr;
  T operator()(int64_t i) const { return factor != T(0) ? w[i] - w[i] * factor * lr : w[i]; }
};

std::unique_ptr<Kernel> make_lamb(const Problem& problem) {
  const bool given = problem.inputs.size() > 6;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    const T decay = static_cast<T>(problem.attributes.get_double("weight_decay", 0.0));
    return kernel_of([given, decay, beta_1 = number("beta_1"), beta_2 = number("beta_2"),
                      take_1 = number.rest("beta_1"), take_2 = number.rest("beta_2"),
                      eps = number("epsilon")](const KernelCall& call) {
      const T* g = data_of<T>(call.inputs[1]);
      const T* m = data_of<T>(call.inputs[2]);
      const T* v = data_of<T>(call.inputs[3]);
      const T lr = *data_of<T>(call.inputs[4]);
      const T t = static_cast<T>(*data_of<int64_t>(call.inputs[5]) + 1);
      const T* squares = given ? data_of<T>(call.inputs[6]) : nullptr;
      T* w_next = data_of<T>(call.outputs[0]);
      T* m_next = data_of<T>(call.outputs[1]);
      T* v_next = data_of<T>(call.outputs[2]);
      const Decayed<T> w{data_of<T>(call.inputs[0]), decay, lr};
      const T rest_1 = T(1) - std::pow(beta_1, t);
      const T rest_2 = T(1) - std::pow(beta_2, t);
      const auto step = [&](int64_t i) {
        return m_next[i] / rest_1 / (std::sqrt(v_next[i] / rest_2) + eps);
      };
      const int64_t count = count_of(call.inputs[0]);
      double of_weight = 0;
      double of_step = 0;
      for (int64_t i = 0; i < count; ++i) {
        m_next[i] = m[i] + (g[i] - m[i]) * take_1;
        v_next[i] = v[i] + ((given ? squares[i] : g[i] * g[i]) - v[i]) * take_2;
        of_weight += square(w(i));
        of_step += square(step(i));
      }
      const T longer = static_cast<T>(std::sqrt(of_weight));
      const T length = static_cast<T>(std::sqrt(of_step));
      const T ratio = longer > T(0) && length > T(0) ? longer / length : T(1);
      for (int64_t i = 0; i < count; ++i) w_next[i] = w(i) - ratio * lr * step(i);
    });
  });
}

// The factors of Adafactor's velocity: of each matrix in a weight's last two dimensions the means
// of its rows and those of its columns.
template <typename T>
class Factors {
 public:
  Factors(const KernelCall& call, T beta, T eps, const T* squares)
      : row_count_(call.inputs[0].dims[call.inputs[0].dims.size() - 2]),
        column_count_(call.inputs[0].dims.back()),
        beta_(beta),
        eps_(eps),
        g_(data_of<T>(call.inputs[1])),
        squares_(squares),
        sums_(reinterpret_cast<double*>(call.scratch)) {}

  int64_t size() const { return row_count_ * column_count_; }

  // Matrix `index`: rows' and columns' means into `rows` and `columns`, then v.
  void update(int64_t index, const T* row_means, const T* column_means, T* rows, T* columns, T* v) {
    const int64_t first = index * size();
    std::fill(sums_, sums_ + column_count_, 0.0);
    rows += index * row_count_;
    columns += index * column_count_;
    double all = 0;
    for (int64_t i = 0; i < row_count_; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < column_count_; ++j) {
        const T value = regulated(first + i * column_count_ + j);
        sum += value;
        sums_[j] += value;
      }
      rows[i] = mean(row_means[index * row_count_ + i], sum / static_cast<double>(column_count_));
      all += rows[i];
    }
    const T middle = static_cast<T>(all / static_cast<double>(row_count_));
    for (int64_t j = 0; j < column_count_; ++j) {
      columns[j] =
          mean(column_means[index * column_count_ + j], sums_[j] / static_cast<double>(row_count_));
    }
    for (int64_t i = 0; i < row_count_; ++i) {
      const T factor = rows[i] / middle;
      T* to = v + first + i * column_count_;
      for (int64_t j = 0; j < column_count_; ++j) to[j] = factor * columns[j];
    }
  }

 private:
  T regulated(int64_t i) const {
    return (squares_ != nullptr ? squares_[i] : g_[i] * g_[i]) + eps_;
  }
  T mean(T before, double now) const {
    return beta_ * before + (T(1) - beta_) * static_cast<T>(now);
  }

  int64_t row_count_;
  int64_t column_count_;
  T beta_;
  T eps_;
  const T* g_;
  const T* squares_;
  double* sums_;
};

// Adafactor's velocity, and what it keeps of it.
template <typename T>
void keep_velocity(const KernelCall& call, T beta, T eps, const T* squares) {
  const T* g = data_of<T>(call.inputs[1]);
  const T* r = data_of<T>(call.inputs[2]);
  const T* c = data_of<T>(call.inputs[3]);
  T* r_next = data_of<T>(call.outputs[1]);
  T* c_next = data_of<T>(call.outputs[2]);
  T* v_next = data_of<T>(call.outputs[3]);
  const int64_t count = count_of(call.inputs[0]);
  if (call.inputs[0].dims.size() < 2) {
    *r_next = *r;
    *c_next = *c;
    const T* v = data_of<T>(call.inputs[4]);
    for (int64_t i = 0; i < count; ++i) {
      const T value = (squares != nullptr ? squares[i] : g[i] * g[i]) + eps;
      v_next[i] = beta * v[i] + (T(1) - beta) * value;
    }
    return;
  }
  Factors<T> factors(call, beta, eps, squares);
  for (int64_t i = 0; i < count / factors.size(); ++i) {
    factors.update(i, r, c, r_next, c_next, v_next);
  }
}

std::unique_ptr<Kernel> make_adafactor(const Problem& problem) {
  const bool given = problem.inputs.size() > 7;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Numbers<T> number(problem);
    const T decay = static_cast<T>(problem.attributes.get_double("weight_decay", 0.0));
    return kernel_of([given, decay, power = number("beta_2_decay"), eps_1 = number("epsilon_1"),
                      eps_2 = number("epsilon_2"),
                      threshold = number("clip_threshold")](const KernelCall& call) {
      const T* g = data_of<T>(call.inputs[1]);
      const T lr = *data_of<T>(call.inputs[5]);
      const T t = static_cast<T>(*data_of<int64_t>(call.inputs[6]) + 1);
      const T* squares = given ? data_of<T>(call.inputs[7]) : nullptr;
      keep_velocity<T>(call, T(1) - std::pow(t, power), eps_1, squares);
      const T* v = data_of<T>(call.outputs[3]);
      T* w_next = data_of<T>(call.outputs[0]);
      const Decayed<T> w{data_of<T>(call.inputs[0]), decay, lr};
      // Rows of a table that were not read have no step.
      const auto step = [&](int64_t i) { return g[i] == T(0) ? T(0) : g[i] / std::sqrt(v[i]); };
      const int64_t count = count_of(call.inputs[0]);
      double of_weight = 0;
      double of_step = 0;
      for (int64_t i = 0; i < count; ++i) {
        of_weight += square(w(i));
        if (squares == nullptr) {
          of_step += square(step(i));
        } else if (squares[i] != T(0)) {
          of_step += static_cast<double>(squares[i]) / static_cast<double>(v[i]);
        }
      }
      const auto root_of_mean = [&](double sum) {
        return static_cast<T>(std::sqrt(sum / static_cast<double>(count)));
      };
      const T alpha = std::max(eps_2, root_of_mean(of_weight)) * std::min(lr, T(1) / std::sqrt(t));
      const T shrink = std::max(T(1), root_of_mean(of_step) / threshold);
      for (int64_t i = 0; i < count; ++i) w_next[i] = w(i) - alpha * (step(i) / shrink);
    });
  });
}

Bytes adafactor_scratch(const Problem& problem) {
  const Shape& shape = problem.inputs[0].shape;
  if (shape.rank() < 2) return {};
  return Bytes(shape[shape.rank() - 1].count * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"adadelta", make_adadelta},
    {"adafactor", make_adafactor, adafactor_scratch},
    {"adagrad", make_adagrad},
    {"adamax", make_adamax},
    {"ftrl", make_ftrl},
    {"lamb", make_lamb},
    {"lion", make_lion},
    {"nadam", make_nadam},
    {"schedule_free_adamw", make_schedule_free_adamw},
};

}  // namespace

std::span<const KernelEntry> adaptive_optimizer_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
