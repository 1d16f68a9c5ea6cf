#include <cmath>
#include <nlohmann/json.hpp>

#include "watch/output.h"
#include "watch/tell/summary.h"

namespace plimsoll::watch {
namespace {

using Json = nlohmann::ordered_json;

// Version of the schema: raised when a key changes its meaning or goes.
constexpr int kSchema = 1;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Three decimals: times and rates are no more exact than that.
Json rounded(double value) { return std::round(value * 1000) / 1000; }
Json whole(double value) { return std::llround(value); }

Json verdict_json(const Run& run) {
  const Verdict& verdict = run.verdict;
  return {{"kind", to_string(verdict.kind)}, {"resource", text_or_null(verdict.resource)},
          {"sentence", verdict.sentence},    {"confidence", rounded(verdict.confidence)},
          {"evidence", verdict.evidence},    {"advice", verdict.advice},
          {"not_worth", verdict.not_worth}};
}

Json peak_json(const Peak& peak) {
  return {{"held_bytes", peak.held_bytes},
          {"held_source", "samples"},
          {"seconds", rounded(peak.seconds)},
          {"printed", text_or_null(peak.printed)},
          {"group_bytes", value_or_null(peak.group_bytes)},
          {"process_bytes", value_or_null(peak.process_bytes)},
          {"process_name", text_or_null(peak.process_name)},
          {"gpu_bytes", value_or_null(peak.gpu_bytes)}};
}

Json growth_json(const Growth& growth) {
  return {{"form", to_string(growth.form)},
          {"grows", growth.form == CurveForm::kGrowth},
          {"confidence", rounded(growth.confidence)},
          {"from_seconds", rounded(growth.from_seconds)},
          {"to_seconds", rounded(growth.to_seconds)},
          {"level_bytes", whole(growth.level_bytes)},
          {"rise_bytes", whole(growth.rise_bytes)},
          {"swing_bytes", whole(growth.swing_bytes)},
          {"bytes_per_minute", whole(growth.bytes_per_minute)},
          {"bytes_per_step", whole(growth.bytes_per_step)},
          {"bytes_per_epoch", whole(growth.bytes_per_epoch)},
          {"bytes_per_fit", whole(growth.bytes_per_fit)}};
}

Json bound_json(const Run& run) {
  const Bound& bound = run.bound;
  return {{"by", to_string(bound.by)},
          {"confidence", rounded(bound.confidence)},
          {"evidence", bound.evidence},
          {"cpus", rounded(run.cpus)},
          {"cpus_used", rounded(bound.cpus_used)},
          {"read_bytes_per_second", whole(bound.read_bytes_per_second)},
          {"major_faults_per_second", rounded(bound.major_faults_per_second)}};
}

Json copies_json(const DataCopies& copies) {
  if (copies.times() < 2) return Json();
  return {{"times", copies.times()},
          {"array_bytes", copies.array_bytes},
          {"equal", copies.equal},
          {"halved", copies.halved},
          {"alike", copies.alike},
          {"total_bytes", copies.total_bytes()},
          {"seconds", rounded(copies.seconds)}};
}

Json capture_json(const Capture& capture) {
  Json processes = Json::array();
  for (const ProcessRow& row : capture.processes) {
    processes.push_back({{"pid", row.pid},
                         {"name", row.name},
                         {"resident_bytes", row.resident},
                         {"anonymous_bytes", row.anonymous},
                         {"shared_bytes", row.shared}});
  }
  Json mappings = Json::array();
  for (const Mapping& mapping : capture.mappings) {
    mappings.push_back({{"resident_bytes", mapping.resident},
                        {"extent_bytes", mapping.extent},
                        {"name", mapping.name}});
  }
  const MapKinds& kinds = capture.kinds;
  return {{"seconds", rounded(capture.seconds)},
          {"why", capture.why},
          {"held_bytes", capture.held},
          {"process_count", capture.process_count},
          {"processes", processes},
          {"map_bytes",
           {{"heap", kinds.heap},
            {"anonymous", kinds.anonymous},
            {"stacks", kinds.stacks},
            {"shared", kinds.shared},
            {"binaries", kinds.binaries},
            {"files", kinds.files},
            {"devices", kinds.devices}}},
          {"largest_mappings", mappings},
          {"python_stack", capture.stack},
          {"last_lines", capture.last_lines}};
}

// The curve by columns: short, and easy to draw.
Json curve_json(const std::vector<Sample>& samples) {
  Json seconds = Json::array(), held = Json::array(), low = Json::array();
  Json resident = Json::array(), usage = Json::array(), cache = Json::array();
  Json cpu = Json::array(), steps = Json::array(), gpu = Json::array();
  Json proportional = Json::array(), processes = Json::array();
  for (const Sample& sample : samples) {
    seconds.push_back(rounded(sample.seconds));
    held.push_back(sample.held);
    low.push_back(sample.held_low);
    resident.push_back(sample.resident);
    proportional.push_back(value_or_null(sample.proportional));
    usage.push_back(value_or_null(sample.group_usage));
    cache.push_back(value_or_null(sample.group_cache));
    gpu.push_back(value_or_null(sample.gpu_bytes));
    processes.push_back(sample.processes);
    cpu.push_back(rounded(sample.cpu_seconds));
    steps.push_back(sample.steps);
  }
  return {{"seconds", seconds},
          {"held_bytes", held},
          {"held_low_bytes", low},
          {"resident_bytes", resident},
          {"proportional_bytes", proportional},
          {"group_bytes", usage},
          {"cache_bytes", cache},
          {"gpu_bytes", gpu},
          {"processes", processes},
          {"cpu_seconds", cpu},
          {"steps", steps}};
}

Json attempts_json(const Run& run) {
  Json list = Json::array();
  for (const Attempt& attempt : run.attempts) {
    list.push_back({{"command", attempt.command},
                    {"verdict", attempt.verdict},
                    {"exit_code", attempt.exit_code},
                    {"peak_held_bytes", attempt.peak_held},
                    {"seconds", rounded(attempt.seconds)}});
  }
  return list;
}

Json explanation_json(const Run& run) {
  if (run.explanation.verdict == explain::Verdict::kNoFailure) return Json();
  return Json::parse(explain::to_json(run.explanation, "output"));
}

Json totals_json(const Run& run) {
  const std::vector<Sample>& samples = run.curve.samples();
  static const Sample kNone;
  const Sample& last = samples.empty() ? kNone : samples.back();
  return {{"cpu_seconds", rounded(last.cpu_seconds)},
          {"major_faults", last.major_faults},
          {"minor_faults", last.minor_faults},
          {"read_bytes", last.read_bytes},
          {"written_bytes", last.written_bytes},
          {"network_bytes", value_or_null(last.network_bytes)},
          {"output_bytes", run.output_bytes},
          {"steps", last.steps},
          {"epochs", last.epochs},
          {"fits", last.fits}};
}

}  // namespace

std::string to_json(const Run& run) {
  Json events = Json::array();
  for (const Event& event : run.events) {
    events.push_back(
        {{"seconds", rounded(event.seconds)}, {"kind", event.kind}, {"text", event.text}});
  }
  Json captures = Json::array();
  for (const Capture& capture : run.captures) captures.push_back(capture_json(capture));
  Json command = Json::array();
  for (const std::string& word : run.command) command.push_back(clean_line(word, 4096));
  const Json json = {{"schema", kSchema},
                     {"command", command},
                     {"exit_code", run.exit_code},
                     {"signal", run.signal != 0 ? Json(signal_name(run.signal)) : Json()},
                     {"seconds", rounded(run.seconds)},
                     {"guard", run.guard_kind},
                     {"guard_text", run.guard},
                     {"limit_bytes", value_or_null(run.limit)},
                     {"limit_passed", run.limit_passed},
                     {"verdict", verdict_json(run)},
                     {"peak", peak_json(run.peak)},
                     {"growth", growth_json(run.growth)},
                     {"copies", copies_json(run.copies)},
                     {"bound", bound_json(run)},
                     {"totals", totals_json(run)},
                     {"events", events},
                     {"captures", captures},
                     {"last_lines", run.last_lines},
                     {"survivors", run.survivors},
                     {"attempts", attempts_json(run)},
                     {"gpu_name", text_or_null(run.gpu_name)},
                     {"own",
                      {{"cpu_seconds", rounded(run.own.cpu_seconds)},
                       {"peak_resident_bytes", run.own.peak_resident},
                       {"samples", run.own.samples}}},
                     {"explanation", explanation_json(run)},
                     {"curve", curve_json(run.curve.samples())}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll::watch
