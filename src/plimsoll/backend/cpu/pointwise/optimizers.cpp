// Optimizer updates in one pass over weight, gradient and slots; Keras's arithmetic in float32.
//
// Centred RMSprop and RMSprop with momentum are left to the reference.

#include <cmath>

#include "backend/cpu/families.h"

namespace plimsoll::backend::cpu {
namespace {

struct SgdStep {
  float lr = 0, decay = 0, momentum = 0;
  bool nesterov = false;
};
struct AdamStep {
  float lr = 0, decay = 0, alpha = 0, take_1 = 0, take_2 = 0, epsilon = 0;
};
struct RmspropStep {
  float lr = 0, decay = 0, rho = 0, take = 0, epsilon = 0;
};

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/optimizers_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kGrain = 1024;

// The weights' elements and the threads that share them; `arrays` read or written.
struct Split {
  int64_t count = 0;
  int parts = 1;

  Split(const NodeFacts& facts, const CpuOptions& options, int64_t arrays)
      : count(facts.output_elements(0)), parts(parts_for(count * 4 * arrays, options.parts)) {}

  template <typename Body>
  void run(const Body& body) const noexcept {
    for_each_range(count, kGrain, parts, body);
  }
};

float decay_of(const NodeFacts& facts) {
  return static_cast<float>(facts.attributes.get_double("weight_decay", 0.0));
}

CpuKernel make_sgd(const NodeFacts& facts, const CpuOptions& options) {
  const Split split(facts, options, 3);
  const float decay = decay_of(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, sgd_update);
  return kernel_of([=](const KernelCall& call) {
    const SgdStep step{*input_floats(call, 2), decay, 0.0f, false};
    split.run([&](int64_t begin, int64_t end) {
      loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
           output_floats(call, 0) + begin, end - begin);
    });
  });
}

CpuKernel make_sgd_momentum(const NodeFacts& facts, const CpuOptions& options) {
  const Split split(facts, options, 5);
  const float decay = decay_of(facts);
  const auto momentum = static_cast<float>(facts.attributes.get_double("momentum"));
  const bool nesterov = facts.attributes.get_bool("nesterov", false);
  const auto loop = PLIMSOLL_PICK(options.isa, momentum_update);
  return kernel_of([=](const KernelCall& call) {
    const SgdStep step{*input_floats(call, 3), decay, momentum, nesterov};
    split.run([&](int64_t begin, int64_t end) {
      loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
           input_floats(call, 2) + begin, output_floats(call, 0) + begin,
           output_floats(call, 1) + begin, end - begin);
    });
  });
}

struct AdamFactors {
  float beta_1, beta_2, take_1, take_2, epsilon, decay;
};
AdamFactors read_adam(const NodeFacts& facts) {
  const double beta_1 = facts.attributes.get_double("beta_1");
  const double beta_2 = facts.attributes.get_double("beta_2");
  return {static_cast<float>(beta_1),
          static_cast<float>(beta_2),
          static_cast<float>(1.0 - beta_1),
          static_cast<float>(1.0 - beta_2),
          static_cast<float>(facts.attributes.get_double("epsilon")),
          decay_of(facts)};
}

AdamStep adam_step(const AdamFactors& f, float lr, const Operand& iterations) {
  const auto t = static_cast<float>(*reinterpret_cast<const int64_t*>(iterations.data) + 1);
  const float alpha = lr * std::sqrt(1.0f - std::pow(f.beta_2, t)) / (1.0f - std::pow(f.beta_1, t));
  return {lr, f.decay, alpha, f.take_1, f.take_2, f.epsilon};
}

CpuKernel make_adam(const NodeFacts& facts, const CpuOptions& options) {
  const Split split(facts, options, 7);
  const AdamFactors factors = read_adam(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, adam_update);
  return kernel_of([=](const KernelCall& call) {
    const AdamStep step = adam_step(factors, *input_floats(call, 4), call.inputs[5]);
    split.run([&](int64_t begin, int64_t end) {
      loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
           input_floats(call, 2) + begin, input_floats(call, 3) + begin,
           output_floats(call, 0) + begin, output_floats(call, 1) + begin,
           output_floats(call, 2) + begin, end - begin);
    });
  });
}

CpuKernel make_amsgrad(const NodeFacts& facts, const CpuOptions& options) {
  const Split split(facts, options, 9);
  const AdamFactors factors = read_adam(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, amsgrad_update);
  return kernel_of([=](const KernelCall& call) {
    const AdamStep step = adam_step(factors, *input_floats(call, 5), call.inputs[6]);
    split.run([&](int64_t begin, int64_t end) {
      loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
           input_floats(call, 2) + begin, input_floats(call, 3) + begin,
           input_floats(call, 4) + begin, output_floats(call, 0) + begin,
           output_floats(call, 1) + begin, output_floats(call, 2) + begin,
           output_floats(call, 3) + begin, end - begin);
    });
  });
}

CpuKernel make_rmsprop(const NodeFacts& facts, const CpuOptions& options) {
  const Split split(facts, options, 5);
  const double rho = facts.attributes.get_double("rho");
  const auto epsilon = static_cast<float>(facts.attributes.get_double("epsilon"));
  const float decay = decay_of(facts);
  const bool given = facts.inputs.size() > 4;  // squares of the gradients
  const auto loop = PLIMSOLL_PICK(options.isa, rmsprop_update);
  const auto rows_loop = PLIMSOLL_PICK(options.isa, rmsprop_rows_update);
  return kernel_of([=](const KernelCall& call) {
    const RmspropStep step{*input_floats(call, 3), decay, static_cast<float>(rho),
                           static_cast<float>(1.0 - rho), epsilon};
    if (given) {
      split.run([&](int64_t begin, int64_t end) {
        rows_loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
                  input_floats(call, 4) + begin, input_floats(call, 2) + begin,
                  output_floats(call, 0) + begin, output_floats(call, 1) + begin, end - begin);
      });
      return;
    }
    split.run([&](int64_t begin, int64_t end) {
      loop(step, input_floats(call, 0) + begin, input_floats(call, 1) + begin,
           input_floats(call, 2) + begin, output_floats(call, 0) + begin,
           output_floats(call, 1) + begin, end - begin);
    });
  });
}

constexpr CpuEntry kEntries[] = {
    {"sgd", make_sgd},         {"sgd_momentum", make_sgd_momentum},
    {"adam", make_adam},       {"adam_amsgrad", make_amsgrad},
    {"rmsprop", make_rmsprop},
};

}  // namespace

CpuKernel make_optimizer(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.inputs.empty() || facts.inputs[0].dtype != DType::kFloat32) return {};
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
