#include "report/plan_summary.h"

#include <nlohmann/json.hpp>

#include "base/format.h"

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

Json remedies_to_json(const std::vector<Remedy>& remedies) {
  Json json = Json::array();
  for (const Remedy& remedy : remedies) {
    json.push_back({{"change", remedy.change},
                    {"smallest_bytes", remedy.smallest.count()},
                    {"saved_bytes", remedy.saved.count()},
                    {"seconds_per_step", remedy.seconds_per_step},
                    {"effect", remedy.effect}});
  }
  return json;
}

void add_exchange(const RankExchange& exchange, Json& json) {
  json["exchanged_bytes_per_step"] = exchange.bytes.count();
  json["exchanged_messages_per_step"] = exchange.messages;
  json["exchange_seconds_per_step"] = exchange.seconds > 0 ? Json(exchange.seconds) : Json(nullptr);
  json["waited_seconds_per_step"] = exchange.seconds > 0 ? Json(exchange.waited) : Json(nullptr);
  json["efficiency"] = exchange.efficiency > 0 ? Json(exchange.efficiency) : Json(nullptr);
  json["slowest_share"] = exchange.slowest > 0 ? Json(exchange.slowest) : Json(nullptr);
  json["scaling"] = exchange.scaling.empty() ? Json(nullptr) : Json::array();
  for (const RankScale& scale : exchange.scaling) {
    json["scaling"].push_back({{"ranks", scale.ranks},
                               {"batch", scale.batch},
                               {"seconds_per_step", scale.seconds},
                               {"waited_seconds_per_step", scale.waited},
                               {"efficiency", scale.efficiency}});
  }
}

}  // namespace

Bytes needed(const PlanSummary& summary) {
  if (summary.smallest_same_bits == Bytes()) return summary.predicted_process;
  if (summary.max_slowdown && !summary.frontier.empty()) {
    const double most = *summary.max_slowdown * summary.frontier.back().seconds;
    for (const plan::FrontierPoint& point : summary.frontier) {
      if (point.seconds <= most) return point.arena_bytes;
    }
  }
  Bytes least = summary.smallest_same_bits;
  if (summary.smallest_feasible > Bytes()) least = min(least, summary.smallest_feasible);
  if (summary.smallest_with_spill) least = min(least, *summary.smallest_with_spill);
  return least;
}

std::string batch_norm_name(const PlanSummary& summary) {
  const int64_t asked = summary.batch_norm_asked;
  return asked == 0 ? "full" : fmt::format("slice:{}", asked);
}

std::string to_json(const PlanSummary& summary) {
  Json json;
  json["model"] = summary.model;
  json["batch"] = summary.batch;
  json["parameters"] = summary.parameter_count;
  json["optimizer"] = summary.optimizer;
  json["data"] = summary.data.empty() ? Json(nullptr) : Json(summary.data);
  json["answer"] = to_string(summary.verdict());
  json["reason"] = summary.refusal ? summary.refusal->reason : "";
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
  json["kernel_parts"] = summary.kernel_parts;
  json["lanes"] = summary.lanes;
  json["threads"] = summary.threads;
  json["ranks"] = summary.ranks;
  json["shard"] = summary.shard;
  json["sharded_states"] = summary.sharded_states;
  if (summary.exchange) add_exchange(*summary.exchange, json);
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
  json["ways_out"] =
      remedies_to_json(summary.refusal ? summary.refusal->remedies : std::vector<Remedy>{});
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
