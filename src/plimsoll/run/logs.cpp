#include "run/logs.h"

#include <vector>

#include "base/accounted.h"
#include "report/memory_picture.h"

namespace plimsoll::run {
namespace {

// Under the names that Keras's callback gives them.
void write_histograms(report::EventFile& events, int64_t epoch, const train::Session& session,
                      TensorSource& state) {
  const std::vector<graph::StateVariable> all = graph::states_of(session.programs().set);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool weight = all[i].role == graph::StateRole::kWeight ||
                        all[i].role == graph::StateRole::kMovingStatistic;
    if (!weight || all[i].type.dtype != DType::kFloat32) continue;
    events.histogram(epoch, all[i].name + "/histogram", report::make_histogram(state, i));
  }
}

// The plan and the memory at its peak, which TensorBoard shows beside the curves.
void describe_run(report::EventFile& events, const std::string& plan,
                  const train::Session& session) {
  // Four blanks in front of every line: Markdown's text as it stands.
  std::string indented = "    ";
  for (const char c : plan) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  events.text(0, "plan", indented);
  const std::vector<report::MemoryRow> rows =
      report::memory_rows(plan::find_culprits(session.plan(), session.programs().set));
  events.text(0, "memory", report::memory_table(rows));
  if (!rows.empty()) events.image(0, "memory by layer", report::draw_memory(rows));
}

train::Metrics with_memory(const train::EpochResult& result, const train::MemoryReport& memory) {
  const auto mebibytes = [](Bytes bytes) {
    return static_cast<double>(bytes.count()) / static_cast<double>((1_MiB).count());
  };
  train::Metrics scalars = result.metrics;
  scalars.emplace_back("memory/process_planned_mib", mebibytes(memory.predicted_process));
  scalars.emplace_back("memory/process_measured_mib", mebibytes(memory.measured_process));
  scalars.emplace_back("memory/arena_planned_mib", mebibytes(memory.planned_arena));
  scalars.emplace_back("memory/arena_measured_mib", mebibytes(memory.measured_arena));
  return scalars;
}

}  // namespace

Logs::Logs(const LogRequest& request, const train::Position& start, const std::string& plan,
           const train::Session& session, Listener& listener)
    : request_(request), listener_(listener) {
  const MemoryTag tag(MemoryPart::kFiles);
  if (!request.lines.empty()) {
    lines_ = start == train::Position{}
                 ? std::make_unique<trace::RunLog>(request.lines)
                 : std::make_unique<trace::RunLog>(request.lines, start.steps, start.epoch);
  }
  if (!request.csv.empty()) {
    csv_ = std::make_unique<trace::CsvLog>(request.csv, start.epoch);
  }
  if (!request.tensorboard.empty()) {
    events_ = std::make_unique<report::EventFile>(request.tensorboard);
    describe_run(*events_, plan, session);
  }
}

void Logs::step(int64_t step, double loss) {
  const MemoryTag tag(MemoryPart::kFiles);
  attempt(lines_ended_, [&] { lines_->step(step, loss); });
}

void Logs::epoch(const train::EpochResult& result, train::Session& session) {
  const MemoryTag tag(MemoryPart::kFiles);
  if (lines_) {
    attempt(lines_ended_, [&] { lines_->epoch(result.epoch, result.metrics, result.seconds); });
  }
  if (csv_) {
    attempt(csv_ended_, [&] { csv_->epoch(result.epoch, result.metrics, result.seconds); });
  }
  if (events_) {
    const train::Metrics scalars = with_memory(result, session.memory());
    attempt(events_ended_, [&] { events_->scalars(result.epoch, scalars); });
  }
  const int64_t every = request_.histogram_every;
  const bool due = events_ && every > 0 && result.epoch % every == 0;
  session.with_whole_state(due, [&](TensorSource& state) {
    attempt(events_ended_, [&] { write_histograms(*events_, result.epoch, session, state); });
  });
}

}  // namespace plimsoll::run
