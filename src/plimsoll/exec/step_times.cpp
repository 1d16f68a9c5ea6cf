#include "exec/step_times.h"

namespace plimsoll::exec {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

StepTime describe(const Step& step, const ProgramTables& tables, const graph::Program& program) {
  const graph::Graph& graph = program.graph;
  StepTime time;
  switch (step.kind) {
    case StepKind::kCall:
      time.kind = StepTime::Kind::kCall;
      time.node = tables.calls[step.index].call->node;
      time.name = graph.node(time.node).name;
      break;
    case StepKind::kFeed: {
      time.kind = StepTime::Kind::kData;
      const auto input = static_cast<size_t>(tables.copies[step.index].ends[0]);
      time.name = "read " + graph.value(graph.inputs[input]).name;
      break;
    }
    case StepKind::kBeginTransfer:
      time.kind = StepTime::Kind::kTransfer;
      time.name = "begin a transfer";
      break;
    case StepKind::kWaitTransfer:
      time.kind = StepTime::Kind::kTransfer;
      time.name = "wait for a transfer";
      break;
    case StepKind::kOutput:
      time.name = "hand out results";
      break;
    case StepKind::kEncode:
      time.name = "make a saved form";
      break;
    default:
      break;
  }
  return time;
}

}  // namespace

StepTimes::StepTimes(const ProgramTables& tables, const graph::Program& program) {
  int depth = 0;
  int phase = -1;
  for (const Step& step : tables.steps) {
    if (step.kind == StepKind::kLoopBegin && depth++ == 0) ++phase;
    steps_.push_back(describe(step, tables, program));
    steps_.back().item = step.number;
    steps_.back().phase = depth > 0 ? phase : -1;
    if (step.kind == StepKind::kLoopEnd) --depth;
  }
  marks_.reserve(kMostMarks);
}

void StepTimes::start_run() {
  marks_.clear();
  run_began_ = Time::now();
}

void StepTimes::end_run() {
  ++runs_;
  seconds_ += seconds_between(run_began_, Time::now());
}

void StepTimes::end_step(size_t position) {
  const double seconds = seconds_between(began_, Time::now());
  steps_[position].seconds += seconds;
  ++steps_[position].runs;
  if (marks_.size() < kMostMarks) {
    marks_.push_back({position, seconds_between(run_began_, began_), seconds});
  }
}

void StepTimes::forget() {
  marks_.clear();
  runs_ = 0;
  seconds_ = 0;
  for (StepTime& step : steps_) {
    step.runs = 0;
    step.seconds = 0;
  }
}

}  // namespace plimsoll::exec
