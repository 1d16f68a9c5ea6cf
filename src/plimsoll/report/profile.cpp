#include "report/profile.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/table.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 20;

// The training steps, or else what took longest.
const ProgramProfile* main_program(const Profile& profile) {
  const auto train = std::ranges::find(profile.programs, "train", &ProgramProfile::program);
  if (train != profile.programs.end()) return &*train;
  const auto found = std::ranges::max_element(profile.programs, {}, &ProgramProfile::seconds);
  return found == profile.programs.end() ? nullptr : &*found;
}

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

// A rate in units of 10⁹ a second; empty where there is nothing to tell.
std::string rate(double amount, double seconds) {
  if (amount <= 0 || seconds <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", amount / seconds / 1e9);
  return text;
}

double seconds_of(const ProgramProfile& program, const std::string& kind) {
  double total = 0;
  for (const ProfileRow& row : program.rows) total += row.kind == kind ? row.seconds : 0;
  return total;
}

std::string shares_line(const ProgramProfile& program) {
  std::string line = program.program + ": " +
                     format_seconds(program.seconds / static_cast<double>(program.runs)) +
                     " a step over " + format_count(program.runs) + " steps: kernels " +
                     percent(seconds_of(program, "kernel"), program.seconds) +
                     ", waiting for data " + percent(seconds_of(program, "data"), program.seconds);
  const double transfers = seconds_of(program, "transfer");
  if (transfers > 0) line += ", for transfers " + percent(transfers, program.seconds);
  return line + "\n";
}

std::vector<size_t> slowest_rows(const ProgramProfile& program) {
  std::vector<size_t> order(program.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return program.rows[a].seconds > program.rows[b].seconds; });
  return order;
}

std::string table_of(const ProgramProfile& program) {
  const auto runs = static_cast<double>(program.runs);
  Table table({"layer", "a step", "share", "calls", "GFLOP/s", "GB/s", "what"});
  double others = 0;
  const std::vector<size_t> order = slowest_rows(program);
  for (size_t i = 0; i < order.size(); ++i) {
    const ProfileRow& row = program.rows[order[i]];
    if (i >= kMostRows) {
      others += row.seconds;
      continue;
    }
    const double calls = static_cast<double>(row.calls) / runs;
    table.add({row.layer.empty() ? "–" : row.layer, format_seconds(row.seconds / runs),
               percent(row.seconds, program.seconds), format_count(static_cast<int64_t>(calls)),
               rate(row.flops, row.seconds), rate(row.bytes, row.seconds),
               row.op.empty() ? row.what : row.op});
  }
  if (others > 0) {
    table.add({std::to_string(order.size() - kMostRows) + " more", format_seconds(others / runs),
               percent(others, program.seconds), "", "", "", ""});
  }
  return table.print();
}

}  // namespace

std::string to_text(const Profile& profile) {
  const ProgramProfile* program = main_program(profile);
  if (program == nullptr) return "profile: nothing ran\n";
  std::string text = shares_line(*program) + table_of(*program);
  for (const ProgramProfile& other : profile.programs) {
    if (&other != program) text += shares_line(other);
  }
  return text;
}

std::string to_json(const Profile& profile) {
  Json programs = Json::array();
  for (const ProgramProfile& program : profile.programs) {
    Json rows = Json::array();
    for (const ProfileRow& row : program.rows) {
      rows.push_back({{"layer", row.layer},
                      {"what", row.what},
                      {"kind", row.kind},
                      {"op", row.op},
                      {"calls", row.calls},
                      {"seconds", row.seconds},
                      {"flops", row.flops},
                      {"bytes", row.bytes}});
    }
    programs.push_back({{"program", program.program},
                        {"runs", program.runs},
                        {"seconds", program.seconds},
                        {"rows", std::move(rows)}});
  }
  return Json{{"programs", std::move(programs)}}.dump(2) + "\n";
}

std::string to_chrome_trace(const Profile& profile) {
  Json events = Json::array();
  if (const ProgramProfile* program = main_program(profile)) {
    for (const ProfileMark& mark : program->marks) {
      const ProfileRow& row = program->rows[mark.row];
      events.push_back({{"name", row.what},
                        {"cat", row.kind},
                        {"ph", "X"},
                        {"ts", mark.begin * 1e6},
                        {"dur", mark.seconds * 1e6},
                        {"pid", 1},
                        {"tid", 1},
                        {"args", {{"layer", row.layer}, {"op", row.op}}}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace plimsoll::report
