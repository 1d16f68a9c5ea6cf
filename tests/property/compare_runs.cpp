#include "property/compare_runs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/tensor_io.h"

namespace plimsoll::property {
namespace {

// From −1 to 1, in steps of 2⁻¹⁰.
float spread(uint64_t key) {
  return static_cast<float>(static_cast<int64_t>(mix_bits(key + 1) % 2049) - 1024) / 1024.0F;
}

void write_value(DType dtype, size_t index, float value, std::byte* data) {
  if (dtype == DType::kFloat32) {
    std::memcpy(data + index * sizeof(float), &value, sizeof(value));
  } else if (dtype == DType::kFloat64) {
    const double wide = value;
    std::memcpy(data + index * sizeof(double), &wide, sizeof(wide));
  } else if (dtype == DType::kInt32) {
    // Two classes are in every network.
    const int32_t label = value > 0 ? 1 : 0;
    std::memcpy(data + index * sizeof(label), &label, sizeof(label));
  } else if (dtype == DType::kInt64) {
    const int64_t count = 0;
    std::memcpy(data + index * sizeof(count), &count, sizeof(count));
  } else {
    PLIMSOLL_CHECK(false, "an input of another type");
  }
}

class FixedSource final : public InputSource {
 public:
  explicit FixedSource(const graph::Program& program) : graph_(program.graph) {
    if (program.share) first_ = std::min(program.share->first, program.share->samples - 1);
  }
  void fill(int input, int64_t row_begin, int64_t row_count, void* destination) override {
    const graph::ValueType& type = graph_.value(graph_.inputs[static_cast<size_t>(input)]).type;
    const int64_t row = type.shape.elements_per_sample();
    for (int64_t i = 0; i < row_count * row; ++i) {
      const auto element = static_cast<uint64_t>((first_ + row_begin) * row + i);
      write_value(type.dtype, static_cast<size_t>(i),
                  spread(element * 31 + static_cast<uint64_t>(input) * 977),
                  static_cast<std::byte*>(destination));
    }
  }

 private:
  const graph::Graph& graph_;
  int64_t first_ = 0;  // sample of the step
};

class KeepingSink final : public OutputSink {
 public:
  KeepingSink(const graph::Program& program, std::string prefix, Results& results)
      : program_(program), prefix_(std::move(prefix)), results_(results) {
    for (size_t o = 0; o < program.graph.outputs.size(); ++o) {
      const graph::ValueType& type = program.graph.value(program.graph.outputs[o]).type;
      results_[name(o)].resize(tensor_bytes(type.dtype, type.shape, program.batch).size());
    }
  }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    const graph::ValueType& type =
        program_.graph.value(program_.graph.outputs[static_cast<size_t>(output)]).type;
    const Bytes row = row_bytes(type.dtype, type.shape);
    std::memcpy(results_[name(static_cast<size_t>(output))].data() + (row * row_begin).size(), rows,
                (row * row_count).size());
  }

 private:
  std::string name(size_t output) const { return prefix_ + "/" + std::to_string(output); }

  const graph::Program& program_;
  std::string prefix_;
  Results& results_;
};

void fill_states(exec::Executor& executor, const graph::ProgramSet& programs,
                 const HeldParts& held) {
  for (const graph::StateVariable& state : graph::states_of(programs)) {
    std::vector<std::byte> bytes(tensor_bytes(state.type.dtype, state.type.shape, 1).size());
    int64_t elements = state.type.shape.element_count(1);
    int64_t first = 0;
    if (const auto part = held.find(state.name); part != held.end()) {
      first = part->second.first;
      elements = std::clamp<int64_t>(part->second.whole - first, 0, elements);
    }
    for (int64_t i = 0; i < elements; ++i) {
      float value = spread(static_cast<uint64_t>(first + i) * 131 + hash_text(state.name));
      if (state.role == graph::StateRole::kOptimizerSlot) value = value * value;
      if (state.role == graph::StateRole::kMovingStatistic) value = value * value + 0.5F;
      if (state.role == graph::StateRole::kHyperparameter) value = 0.0625F;
      write_value(state.type.dtype, static_cast<size_t>(i), value, bytes.data());
    }
    executor.write_state(state.name, 0, bytes);
  }
}

}  // namespace

Results run_programs(const graph::ProgramSet& programs, const plan::Plan& plan,
                     backend::Backend& backend, const std::vector<size_t>& order,
                     const exec::ExecutorOptions& options, Ranks* ranks, const HeldParts& held) {
  exec::Executor executor(programs, plan, backend, options);
  fill_states(executor, programs, held);
  Results results;
  for (size_t run = 0; run < order.size(); ++run) {
    const graph::Program& program = programs.programs[order[run]];
    FixedSource source(program);
    KeepingSink sink(program, program.name + "/" + std::to_string(run), results);
    backend::StepContext context{.seed = 17, .step = static_cast<int64_t>(run), .training = true};
    if (program.share) {
      context.ranks = ranks;
      context.samples = program.share->samples;
      context.first_sample = program.share->first;
      context.samples_each = program.share->each;
    }
    executor.run(order[run], context, &source, &sink);
  }
  for (const plan::StatePlacement& state : plan.states) {
    std::vector<std::byte>& bytes = results["state/" + state.name];
    bytes.resize(state.bytes.size());
    executor.read_state(state.name, 0, bytes);
  }
  return results;
}

std::vector<size_t> usual_order(const graph::ProgramSet& programs) {
  std::vector<size_t> order = {0};
  for (size_t p = 0; p < programs.programs.size(); ++p) order.push_back(p);
  order.push_back(0);
  return order;
}

std::string first_difference(const Results& expected, const Results& received) {
  if (expected.size() != received.size()) return "other results";
  for (const auto& [name, bytes] : expected) {
    const auto other = received.find(name);
    if (other == received.end()) return name + " is missing";
    if (other->second == bytes) continue;
    const auto at = std::ranges::mismatch(bytes, other->second).in1 - bytes.begin();
    return name + " differs from byte " + std::to_string(at) + " of " +
           std::to_string(bytes.size());
  }
  return "";
}

}  // namespace plimsoll::property
