#include "report/plan_summary.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "report/table.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

Json optional_bytes(const std::optional<Bytes>& bytes) {
  return bytes ? Json(bytes->count()) : Json(nullptr);
}

Json points_to_json(const std::vector<plan::FrontierPoint>& points) {
  Json json = Json::array();
  for (const plan::FrontierPoint& point : points) {
    json.push_back({{"process_bytes", point.arena_bytes.count()},
                    {"seconds_per_step", point.seconds},
                    {"strategy", point.what}});
  }
  return json;
}

std::string placement_line(const PlanSummary& summary) {
  const Bytes above = summary.planned_arena - summary.arena_load;
  if (above <= Bytes()) return "placement: as small as these values allow\n";
  char percent[32];
  std::snprintf(
      percent, sizeof percent, "%.2f %%",
      100.0 * static_cast<double>(above.count()) / static_cast<double>(summary.arena_load.count()));
  return "placement: " + to_string(above) + " (" + percent + ") above what is alive at once\n";
}

void add_parts(const PlanSummary& summary, std::string& text) {
  Table table({"process memory", "bytes", ""});
  for (const MemoryPart& part : summary.parts) {
    table.add({"  " + part.name, std::to_string(part.bytes.count()), to_string(part.bytes)});
  }
  table.add({"  predicted peak", std::to_string(summary.predicted_process.count()),
             to_string(summary.predicted_process)});
  text += table.print();
}

// Of the smallest with the same bits: whether smaller ones are out of the question, or were not
// found.
std::string certainty(const PlanSummary& summary) {
  if (summary.smallest_is_proved) return ", proved";
  return summary.searched_all ? ", found" : ", found at this effort";
}

void add_bounds(const PlanSummary& summary, std::string& text) {
  text += summary.max_slowdown ? "\nplan without a limit " : "\nfree plan ";
  text += to_string(summary.free_plan) + "; smallest with the same bits " +
          to_string(summary.smallest_same_bits) + " (" +
          std::to_string(summary.smallest_same_bits.count()) + " B" + certainty(summary) + ")";
  if (summary.smallest_feasible > Bytes(0)) {
    text += "; smallest " + to_string(summary.smallest_feasible) + " (" +
            std::to_string(summary.smallest_feasible.count()) + " B)";
  }
  text += "; lower bound " + to_string(summary.lower_bound) + "\n";
  if (summary.smallest_with_spill) {
    text += "with a spill file: smallest with the same bits " +
            to_string(*summary.smallest_with_spill) + " (" +
            std::to_string(summary.smallest_with_spill->count()) + " B)";
    if (summary.lower_bound_with_spill) {
      text += "; lower bound " + to_string(*summary.lower_bound_with_spill);
    }
    text += "\n";
  }
}

void add_frontier(const PlanSummary& summary, std::string& text) {
  Table table({"limit", "step", "plan"});
  for (const plan::FrontierPoint& point : summary.frontier) {
    table.add({to_string(point.arena_bytes), format_seconds(point.seconds), point.what});
  }
  text += "\n" + table.print();
}

void add_plain(const PlanSummary& summary, std::string& text) {
  if (summary.plain.empty()) return;
  Table table({"for comparison", "step", "plan"});
  for (const plan::FrontierPoint& point : summary.plain) {
    table.add({to_string(point.arena_bytes), format_seconds(point.seconds), point.what});
  }
  text += "\n" + table.print();
}

void add_culprits(const PlanSummary& summary, std::string& text) {
  Table table({"largest at the peak", "what", ""});
  const size_t count = std::min<size_t>(summary.culprits.size(), 5);
  for (size_t i = 0; i < count; ++i) {
    const plan::Culprit& culprit = summary.culprits[i];
    table.add({"  " + (culprit.layer.empty() ? "(step)" : culprit.layer), culprit.what,
               to_string(culprit.bytes)});
  }
  if (count > 0) text += "\n" + table.print();
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

void add_ways_out(const PlanSummary& summary, std::string& text) {
  if (summary.ways_out.empty()) return;
  Table table({"ways out", "needs", "saves", "step", "result"});
  for (const WayOut& way : summary.ways_out) {
    table.add({"  " + way.change, to_string(way.smallest),
               way.saved > Bytes() ? to_string(way.saved) : "-",
               format_seconds(way.seconds_per_step), way.effect});
  }
  text += "\n" + table.print();
}

void add_why(const PlanSummary& summary, std::string& text) {
  if (summary.why_layer.empty()) return;
  Table table({"value of " + summary.why_layer, "whole", "at the peak", "saves", "costs", "how"});
  for (const plan::ValueStory& story : summary.why) {
    table.add({story.value, to_string(story.whole), to_string(story.at_peak),
               to_string(story.saved), story.seconds > 0 ? format_seconds(story.seconds) : "-",
               join(story.treatment)});
  }
  text += "\n" + table.print();
}

}  // namespace

std::string format_factor(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4gx", factor);
  return text;
}

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::kFits:
      return "fits";
    case Answer::kImpossible:
      return "impossible";
    case Answer::kNotFound:
      return "not_found";
  }
  return "";
}

std::string answer_sentence(const PlanSummary& summary) {
  if (summary.answer == Answer::kFits) {
    const std::string predicted = "predicted " + to_string(summary.predicted_process);
    if (summary.limit) return "fits: " + predicted + " of " + to_string(*summary.limit);
    if (!summary.max_slowdown) return "free plan: " + predicted;
    return "smallest plan found within " + format_factor(*summary.max_slowdown) +
           " the time of the plan without a limit: " + predicted;
  }
  if (summary.answer == Answer::kImpossible) return "impossible: " + summary.reason;
  return "not found: " + summary.reason;
}

namespace {

std::string batch_norm_name(const PlanSummary& summary) {
  const int64_t asked = summary.batch_norm_asked;
  return asked == 0 ? "full" : "slice:" + std::to_string(asked);
}

std::string batch_norm_line(const PlanSummary& summary) {
  if (summary.batch_norm_asked == 0) return "";
  const std::string asked = "batch normalization: " + batch_norm_name(summary);
  if (summary.batch_norm_group > 0) {
    return asked + ", statistics of groups of " + std::to_string(summary.batch_norm_group) +
           " samples, part of the model\n";
  }
  if (summary.batch_norm_asked >= summary.batch) {
    return asked + ", the whole batch is one group: the same as full\n";
  }
  return asked + ", but no layer of this model has statistics of its batch\n";
}

}  // namespace

std::string precision_note(const PlanSummary& summary) {
  const std::string& kernels = summary.kernel_set;
  if (summary.precision != "bf16" ||
      !(kernels.starts_with("onednn") || kernels.starts_with("cpu/"))) {
    return "";
  }
  for (const char* isa : {"/avx512_bf16", "/avx512_amx"}) {
    if (kernels.find(isa) != std::string::npos) return "";
  }
  return "this processor has no AVX512-BF16: bf16 saves memory here, but no time";
}

std::string to_text(const PlanSummary& summary, bool with_frontier) {
  std::string text = summary.data.empty() ? "" : "data: " + summary.data + "\n";
  text += summary.model + ": " + format_count(summary.parameter_count) + " parameters, batch " +
          std::to_string(summary.batch) + ", " + summary.optimizer + "\n";
  text += answer_sentence(summary) + "\n";
  text += "plan: " + summary.strategy + ", about " + format_seconds(summary.seconds_per_step) +
          " a step, kernels " + summary.kernel_set + "\n";
  if (summary.precision != "f32") {
    text += "precision: " + summary.precision + " activations, float32 weights and sums\n";
  }
  if (const std::string note = precision_note(summary); !note.empty())
    text += "note: " + note + "\n";
  text += batch_norm_line(summary);
  if (summary.arena_load > Bytes()) text += placement_line(summary);
  if (summary.block_set > 0) {
    text += "note: smaller blocks (block set " + std::to_string(summary.block_set) +
            "): results equal to rounding, not bit for bit\n";
  }
  if (summary.spill > Bytes()) text += "spill file: " + to_string(summary.spill) + "\n";
  if (!summary.times.empty()) text += "times: " + summary.times + "\n";
  text += "guard: " + summary.guard + "\n\n";
  add_parts(summary, text);
  if (summary.free_plan > Bytes(0)) add_bounds(summary, text);
  if (summary.largest_feasible_batch) {
    text +=
        "largest batch within the limit: " + std::to_string(*summary.largest_feasible_batch) + "\n";
  }
  if (with_frontier) {
    add_frontier(summary, text);
    add_plain(summary, text);
  }
  add_culprits(summary, text);
  add_ways_out(summary, text);
  add_why(summary, text);
  return text;
}

std::string to_json(const PlanSummary& summary) {
  Json json;
  json["model"] = summary.model;
  json["batch"] = summary.batch;
  json["parameters"] = summary.parameter_count;
  json["optimizer"] = summary.optimizer;
  json["data"] = summary.data.empty() ? Json(nullptr) : Json(summary.data);
  json["answer"] = to_string(summary.answer);
  json["reason"] = summary.reason;
  json["limit_bytes"] = optional_bytes(summary.limit);
  json["max_slowdown"] = summary.max_slowdown ? Json(*summary.max_slowdown) : Json(nullptr);
  json["guard"] = summary.guard;
  json["planned_arena_bytes"] = summary.planned_arena.count();
  json["arena_load_bytes"] = summary.arena_load.count();
  json["predicted_process_bytes"] = summary.predicted_process.count();
  json["parts"] = Json::array();
  for (const MemoryPart& part : summary.parts) {
    json["parts"].push_back({{"name", part.name}, {"bytes", part.bytes.count()}});
  }
  json["accounted"] = Json::object();
  for (const MemoryPart& part : summary.accounted) {
    json["accounted"][part.name] = part.bytes.count();
  }
  json["seconds_per_step"] = summary.seconds_per_step;
  json["times"] = summary.times;
  json["strategy"] = summary.strategy;
  json["kernel_set"] = summary.kernel_set;
  json["precision"] = summary.precision;
  json["batch_norm"] = batch_norm_name(summary);
  json["batch_norm_group"] = summary.batch_norm_group;
  json["block_set"] = summary.block_set;
  json["threads"] = summary.threads;
  json["lower_bound_bytes"] = summary.lower_bound.count();
  json["lower_bound_spill_bytes"] = optional_bytes(summary.lower_bound_with_spill);
  json["smallest_feasible_bytes"] = summary.smallest_feasible.count();
  json["smallest_same_bits_bytes"] = summary.smallest_same_bits.count();
  json["smallest_is_proved"] = summary.smallest_is_proved;
  json["smallest_spill_bytes"] = optional_bytes(summary.smallest_with_spill);
  json["spill_bytes"] = summary.spill.count();
  json["free_plan_bytes"] = summary.free_plan.count();
  json["largest_feasible_batch"] =
      summary.largest_feasible_batch ? Json(*summary.largest_feasible_batch) : Json(nullptr);
  json["frontier"] = points_to_json(summary.frontier);
  json["plain_plans"] = points_to_json(summary.plain);
  json["culprits"] = Json::array();
  for (const plan::Culprit& culprit : summary.culprits) {
    json["culprits"].push_back(
        {{"layer", culprit.layer}, {"what", culprit.what}, {"bytes", culprit.bytes.count()}});
  }
  json["ways_out"] = Json::array();
  for (const WayOut& way : summary.ways_out) {
    json["ways_out"].push_back({{"change", way.change},
                                {"smallest_bytes", way.smallest.count()},
                                {"saved_bytes", way.saved.count()},
                                {"seconds_per_step", way.seconds_per_step},
                                {"effect", way.effect}});
  }
  if (!summary.why_layer.empty()) {
    json["why"] = Json::array();
    for (const plan::ValueStory& story : summary.why) {
      json["why"].push_back({{"value", story.value},
                             {"treatment", story.treatment},
                             {"whole_bytes", story.whole.count()},
                             {"peak_bytes", story.at_peak.count()},
                             {"saved_bytes", story.saved.count()},
                             {"seconds", story.seconds}});
    }
  }
  return json.dump(2);
}

}  // namespace plimsoll::report
