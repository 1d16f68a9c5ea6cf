#pragma once

// Runs toy plans and keeps what comes out, for comparing runs bit by bit.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "graph/program.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "toys/toy_backend.h"
#include "toys/toy_plans.h"

namespace plimsoll::exec {

struct Result {
  std::vector<std::vector<float>> outputs;
  std::map<std::string, std::vector<float>> states;
  friend bool operator==(const Result&, const Result&) = default;
};

// States get values that depend on name and element.
inline void fill_states(Executor& executor, const plan::Plan& plan) {
  for (const plan::StatePlacement& state : plan.states) {
    std::vector<float> values(state.bytes.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 29 + state.name.size() * 7) % 17) / 8.0F - 1.0F;
    }
    executor.write_state(state.name, 0, std::as_bytes(std::span(values)));
  }
}

inline std::vector<int64_t> row_elements(const graph::Graph& graph,
                                         const std::vector<graph::ValueId>& values) {
  std::vector<int64_t> elements;
  for (graph::ValueId value : values) {
    elements.push_back(graph.value(value).type.shape.elements_per_sample());
  }
  return elements;
}

inline toys::ToySink make_sink(const graph::Program& program) {
  std::vector<std::vector<float>> room;
  for (graph::ValueId value : program.graph.outputs) {
    const Shape& shape = program.graph.value(value).type.shape;
    room.emplace_back(static_cast<size_t>(shape.element_count(program.batch)));
  }
  return toys::ToySink(std::move(room), row_elements(program.graph, program.graph.outputs));
}

// Runs program 0 for `steps` steps.
inline Result run_plan(const graph::ProgramSet& programs, const plan::Plan& plan,
                       toys::ToyBackend& backend, const ExecutorOptions& options = {},
                       int steps = 1) {
  Executor executor(programs, plan, backend, options);
  fill_states(executor, plan);
  const graph::Program& program = programs.programs[0];
  toys::ToySource source(row_elements(program.graph, program.graph.inputs));
  toys::ToySink sink = make_sink(program);
  for (int s = 0; s < steps; ++s) executor.run(0, {.seed = 1, .step = s}, &source, &sink);
  Result result{sink.outputs, {}};
  for (const plan::StatePlacement& state : plan.states) {
    std::vector<float>& values = result.states[state.name];
    values.resize(state.bytes.size() / sizeof(float));
    executor.read_state(state.name, 0, std::as_writable_bytes(std::span(values)));
  }
  return result;
}

}  // namespace plimsoll::exec
