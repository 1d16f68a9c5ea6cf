#include "report/run_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/table.h"
#include "report/units.h"

namespace plimsoll::report {

std::string to_json(const RunSummary& summary) {
  nlohmann::ordered_json json;
  json["steps"] = summary.steps;
  json["seconds_per_step"] = summary.seconds_per_step;
  json["estimated_seconds_per_step"] = nullptr;
  if (summary.estimated_seconds_per_step > 0) {
    json["estimated_seconds_per_step"] = summary.estimated_seconds_per_step;
  }
  if (summary.exchanged) {
    json["exchanged_bytes_per_step"] = summary.exchanged->bytes;
    json["exchanged_messages_per_step"] = summary.exchanged->messages;
    json["waited_seconds_per_step"] = summary.exchanged->seconds;
  }
  json["planned_arena_bytes"] = summary.planned_arena.count();
  json["measured_arena_bytes"] = summary.measured_arena.count();
  json["arena_values_bytes"] = summary.arena_values.count();
  json["predicted_process_bytes"] = summary.predicted_process.count();
  json["measured_process_bytes"] = summary.measured_process.count();
  json["limit_bytes"] = nullptr;
  if (summary.limit) json["limit_bytes"] = summary.limit->count();
  json["passed_limit"] = summary.passed_limit;
  json["accounted"] = nlohmann::ordered_json::object();
  for (const auto& [part, bytes] : summary.accounted) json["accounted"][part] = bytes.count();
  json["block_set"] = summary.block_set;
  json["kernel_set"] = summary.kernel_set;
  if (const std::string note = estimate_note(summary); !note.empty()) json["estimate_note"] = note;
  if (!summary.left_out_metrics.empty()) json["left_out_metrics"] = summary.left_out_metrics;
  for (const auto& [name, value] : summary.metrics) {
    json[name] = nullptr;
    if (std::isfinite(value)) json[name] = value;
  }
  return json.dump(2);
}

std::string peak_words(Bytes measured, Bytes predicted, std::optional<Bytes> limit) {
  const Unit unit = size_unit(limit.value_or(measured));
  const std::string of = limit ? " of " + in_unit(*limit, unit) : "";
  return "peak " + in_unit(measured, unit) + of + " " + unit.name + " (predicted " +
         amount(predicted, unit) + ")";
}

std::string estimate_note(const RunSummary& summary) {
  constexpr int64_t kLeastSteps = 3;
  constexpr double kFar = 1.3;
  constexpr double kBusy = 0.85;  // below, the threads waited or others had the processors
  const double estimated = summary.estimated_seconds_per_step;
  if (summary.steps < kLeastSteps || estimated <= 0 || summary.seconds_per_step <= 0) return "";
  const double factor = summary.seconds_per_step / estimated;
  if (factor <= kFar && factor >= 1 / kFar) return "";
  std::string text = fmt::format("a step took {:.2g} times as long as estimated: ", factor);
  if (factor > 1 && summary.spill > Bytes()) {
    text += "its plan has a spill file, whose disk may be slower or shared";
  } else if (factor > 1 && summary.processor_share > 0 && summary.processor_share < kBusy) {
    text += fmt::format(
        "its threads had {:.0f} % of their processors' time, the rest went to "
        "other programs or to waiting for data",
        100 * summary.processor_share);
  } else if (summary.times.starts_with("measured")) {
    text += "kernels were timed one by one, " + summary.times +
            "; measure again with --tune if the machine was busy then";
  } else {
    const bool rates = summary.times.starts_with("rates");
    text += rates ? "the estimate is by this machine's rates" : "the estimate is by a table";
    text += ", not by this model's kernels; --tune measures them";
  }
  return text;
}

std::string to_text(const RunSummary& summary) {
  const std::string note = estimate_note(summary);
  std::string text = summary.stopped ? "stopped after " : "done: ";
  text += format_count(summary.steps) + " steps";
  if (summary.seconds_per_step > 0) {
    text += ", " + format_seconds(summary.seconds_per_step) + " each";
    if (summary.estimated_seconds_per_step > 0) {
      text += " (estimated " + format_seconds(summary.estimated_seconds_per_step) + ")";
    }
  }
  if (summary.exchanged) {
    const Bytes bytes(std::llround(summary.exchanged->bytes));
    text += fmt::format("; {} sent in {:.0f} messages, {} waited for other ranks", to_string(bytes),
                        summary.exchanged->messages, format_seconds(summary.exchanged->seconds));
  }
  return text + "; " +
         peak_words(summary.measured_process, summary.predicted_process, summary.limit) + "\n" +
         (note.empty() ? "" : "note: " + note + "\n");
}

}  // namespace plimsoll::report
