#include "report/coverage.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string bound_of(const CoverageRow& row) { return row.compute ? "compute" : "memory"; }

// A row's limit where arithmetic sets it, and less than 0 by as much where memory does.
double compute_margin(const ProfileRow& row, const MachineSpeed& machine) {
  const double limit = limit_seconds(row, machine);
  MachineSpeed arithmetic = machine;
  arithmetic.bytes_per_second = 0;
  return limit_seconds(row, arithmetic) >= limit ? limit : -limit;
}

std::string slow_line(const Coverage& coverage) {
  std::string names;
  double lost = 0;
  for (const CoverageRow& row : coverage.rows) {
    if (!row.is_slow()) continue;
    names += (names.empty() ? "" : ", ") + row.name;
    lost += row.share * (1 - row.limit / row.seconds / kLeastOfLimit);
  }
  const std::string bar = fmt::format("{:.0f} % of their limits", 100 * kLeastOfLimit);
  const std::string counts = fmt::format("{:.1f} % of the step or more", 100 * kCountsFrom);
  if (names.empty()) return "all operators that take " + counts + " reach " + bar + "\n";
  return "below " + bar + " with " + counts + ": " + names + "; at " + bar + " the step would be " +
         percent(lost) + " shorter\n";
}

}  // namespace

Coverage find_coverage(const Profile& profile) {
  Coverage coverage;
  coverage.machine = profile.machine.value_or(MachineSpeed());
  const ProgramProfile* program = main_program(profile);
  if (program == nullptr) return coverage;
  const auto runs = static_cast<double>(program->runs);
  coverage.program = program->program;
  coverage.seconds = program->seconds / runs;
  std::vector<double> margins;  // by row: seconds that arithmetic sets, less those of memory
  for (const ProfileRow& step : program->rows) {
    const std::string& name = step.op.empty() ? step.kind : step.op;
    auto row = std::ranges::find(coverage.rows, name, &CoverageRow::name);
    if (row == coverage.rows.end()) {
      row = coverage.rows.insert(row, CoverageRow{.name = name});
      margins.push_back(0);
    }
    row->nodes += 1;
    row->calls += static_cast<double>(step.calls) / runs;
    row->seconds += step.seconds / runs;
    row->limit += limit_seconds(step, coverage.machine) / runs;
    double& margin = margins[static_cast<size_t>(row - coverage.rows.begin())];
    margin += compute_margin(step, coverage.machine);
    row->compute = margin > 0;
  }
  for (CoverageRow& row : coverage.rows) {
    row.share = coverage.seconds > 0 ? row.seconds / coverage.seconds : 0;
  }
  std::ranges::stable_sort(coverage.rows, std::greater<>(), &CoverageRow::seconds);
  return coverage;
}

std::string to_text(const Coverage& coverage) {
  std::string text = coverage.program + ": " + format_seconds(coverage.seconds) + " a step\n";
  text += "limits: " + to_text(coverage.machine) + "\n";
  Table table({"operator", "nodes", "calls", "a step", "share", "limit", "of limit", "bound by"});
  for (const CoverageRow& row : coverage.rows) {
    const bool known = row.limit > 0 && row.seconds > 0;
    table.add({row.name, format_count(row.nodes),
               format_count(static_cast<int64_t>(row.calls + 0.5)), format_seconds(row.seconds),
               percent(row.share), known ? format_seconds(row.limit) : "",
               known ? percent(row.limit / row.seconds) : "",
               known ? bound_of(row) + (row.is_slow() ? ", slow" : "") : ""});
  }
  return text + table.print() + slow_line(coverage);
}

std::string to_json(const Coverage& coverage) {
  Json rows = Json::array();
  for (const CoverageRow& row : coverage.rows) {
    const bool known = row.limit > 0 && row.seconds > 0;
    rows.push_back({{"operator", row.name},
                    {"nodes", row.nodes},
                    {"calls_per_step", row.calls},
                    {"seconds_per_step", row.seconds},
                    {"share", row.share},
                    {"limit_seconds", known ? Json(row.limit) : Json(nullptr)},
                    {"of_limit", known ? Json(row.limit / row.seconds) : Json(nullptr)},
                    {"bound", known ? Json(bound_of(row)) : Json(nullptr)},
                    {"slow", row.is_slow()}});
  }
  return Json{{"program", coverage.program},
              {"machine", Json::parse(to_json(coverage.machine))},
              {"seconds_per_step", coverage.seconds},
              {"operators", std::move(rows)}}
             .dump(2) +
         "\n";
}

}  // namespace plimsoll::report
