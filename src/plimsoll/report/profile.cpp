#include "report/profile.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <variant>

#include "base/format.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 20;

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0.0);
}

std::string fixed(double number) { return fmt::format("{:.1f}", number); }

// A rate in units of 10⁹ a second; empty where there is nothing to tell.
std::string rate(double amount, double seconds) {
  return amount <= 0 || seconds <= 0 ? "" : fixed(amount / seconds / 1e9);
}

double seconds_of(const ProgramProfile& program, const std::string& kind) {
  double total = 0;
  for (const ProfileRow& row : program.rows) total += row.kind == kind ? row.seconds : 0;
  return total;
}

double estimated_seconds(const ProgramProfile& program) {
  double total = 0;
  for (const ProfileRow& row : program.rows) total += row.estimated;
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
  const double estimated = estimated_seconds(program);
  if (estimated > 0) {
    line += "; estimated " + format_seconds(estimated / static_cast<double>(program.runs));
  }
  return line + "\n";
}

// Where the machine is known, by the time above the limit: what has most to gain comes first.
std::vector<size_t> slowest_rows(const ProgramProfile& program,
                                 const std::optional<MachineSpeed>& machine) {
  std::vector<double> weight;
  for (const ProfileRow& row : program.rows) {
    weight.push_back(row.seconds - (machine ? limit_seconds(row, *machine) : 0));
  }
  std::vector<size_t> order(program.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weight[a] > weight[b]; });
  return order;
}

// What a row is called where there is room for one word.
const std::string& name_of(const ProfileRow& row) { return row.op.empty() ? row.what : row.op; }

std::vector<std::string> cells_of(const ProfileRow& row, const ProgramProfile& program,
                                  const std::optional<MachineSpeed>& machine) {
  const auto runs = static_cast<double>(program.runs);
  const double calls = static_cast<double>(row.calls) / runs;
  std::vector<std::string> cells = {row.layer.empty() ? "–" : row.layer,
                                    format_seconds(row.seconds / runs),
                                    percent(row.seconds, program.seconds)};
  if (machine) {
    const double limit = limit_seconds(row, *machine);
    cells.push_back(limit > 0 ? format_seconds(limit / runs) : "");
    cells.push_back(limit > 0 ? percent(limit, row.seconds) : "");
  }
  if (estimated_seconds(program) > 0) {
    cells.insert(cells.begin() + 2, format_seconds(row.estimated / runs));
  }
  cells.insert(cells.end(), {format_count(static_cast<int64_t>(calls)),
                             rate(row.flops, row.seconds), rate(row.bytes, row.seconds),
                             row.bytes > 0 ? fixed(row.bytes / runs / 1e6) : "", name_of(row)});
  return cells;
}

std::string table_of(const ProgramProfile& program, const std::optional<MachineSpeed>& machine) {
  std::vector<std::string> header = {"layer", "a step", "share"};
  if (estimated_seconds(program) > 0) header.insert(header.begin() + 2, "estimate");
  if (machine) header.insert(header.end(), {"limit", "of limit"});
  header.insert(header.end(), {"calls", "GFLOP/s", "GB/s", "MB", "what"});
  const size_t columns = header.size();
  Table table(std::move(header));
  double others = 0;
  const std::vector<size_t> order = slowest_rows(program, machine);
  for (size_t i = 0; i < order.size(); ++i) {
    const ProfileRow& row = program.rows[order[i]];
    if (i < kMostRows) {
      table.add(cells_of(row, program, machine));
    } else {
      others += row.seconds;
    }
  }
  if (others > 0) {
    std::vector<std::string> cells(columns);
    cells[0] = fmt::format("{} more", order.size() - kMostRows);
    cells[1] = format_seconds(others / static_cast<double>(program.runs));
    cells[2] = percent(others, program.seconds);
    table.add(std::move(cells));
  }
  return table.print();
}

// What has most to gain; empty where everything is at its limit.
std::string next_line(const ProgramProfile& program, const MachineSpeed& machine) {
  const std::vector<size_t> order = slowest_rows(program, machine);
  if (order.empty()) return "";
  const ProfileRow& row = program.rows[order.front()];
  const double limit = limit_seconds(row, machine);
  if (row.seconds <= limit) return "";
  const auto runs = static_cast<double>(program.runs);
  return "next: " + (row.layer.empty() ? "" : row.layer + ", ") + name_of(row) + ": " +
         format_seconds((row.seconds - limit) / runs) + " a step " +
         (limit > 0 ? "above its limit" : "without a limit known") + ", " +
         percent(row.seconds - limit, program.seconds) + " of the step\n";
}

Json machine_to_json(const std::optional<MachineSpeed>& machine) {
  return machine ? Json::parse(to_json(*machine)) : Json(nullptr);
}

Json operands_to_json(const std::vector<Operand>& operands) {
  Json list = Json::array();
  for (const Operand& operand : operands) {
    list.push_back({{"dtype", operand.dtype}, {"shape", operand.shape}});
  }
  return list;
}

Json attributes_to_json(const graph::Attributes& attributes) {
  Json object = Json::object();
  for (const auto& entry : attributes.entries()) {
    std::visit([&](const auto& value) { object[entry.first] = value; }, entry.second);
  }
  return object;
}

Json to_json(const ProfileRow& row, const ProgramProfile& program,
             const std::optional<MachineSpeed>& machine) {
  const double limit = machine ? limit_seconds(row, *machine) : 0;
  Json json = {{"layer", row.layer},
               {"what", row.what},
               {"kind", row.kind},
               {"op", row.op},
               {"calls", row.calls},
               {"seconds", row.seconds},
               {"estimated_seconds", row.estimated},
               {"phase", row.phase < 0 ? Json(nullptr) : Json(row.phase)},
               {"share", program.seconds > 0 ? row.seconds / program.seconds : 0},
               {"flops", row.flops},
               {"bytes", row.bytes},
               {"bf16", row.bf16},
               {"limit_seconds", limit > 0 ? Json(limit) : Json(nullptr)}};
  if (!row.call) return json;
  json["inputs"] = operands_to_json(row.call->inputs);
  json["outputs"] = operands_to_json(row.call->outputs);
  json["attributes"] = attributes_to_json(row.call->attributes);
  return json;
}

Json phases_to_json(const ProgramProfile& program) {
  Json phases = Json::array();
  for (const PhaseTime& phase : find_phases(program)) {
    phases.push_back({{"phase", phase.phase < 0 ? Json(nullptr) : Json(phase.phase)},
                      {"first", phase.first},
                      {"last", phase.last},
                      {"seconds", phase.seconds},
                      {"estimated_seconds", phase.estimated}});
  }
  return phases;
}

Json trace_arguments(const ProfileRow& row, const std::optional<MachineSpeed>& machine) {
  Json arguments = {{"layer", row.layer}, {"op", row.op}};
  if (row.seconds <= 0) return arguments;
  if (row.flops > 0) arguments["gflops_per_second"] = row.flops / row.seconds / 1e9;
  if (row.bytes > 0) arguments["gbytes_per_second"] = row.bytes / row.seconds / 1e9;
  const double limit = machine ? limit_seconds(row, *machine) : 0;
  if (limit > 0) arguments["share_of_limit"] = limit / row.seconds;
  return arguments;
}

}  // namespace

const ProgramProfile* main_program(const Profile& profile) {
  const auto train = std::ranges::find(profile.programs, "train", &ProgramProfile::program);
  if (train != profile.programs.end()) return &*train;
  const auto found = std::ranges::max_element(profile.programs, {}, &ProgramProfile::seconds);
  return found == profile.programs.end() ? nullptr : &*found;
}

std::vector<PhaseTime> find_phases(const ProgramProfile& program) {
  std::vector<PhaseTime> phases;
  for (const ProfileRow& row : program.rows) {
    auto phase = std::ranges::find(phases, row.phase, &PhaseTime::phase);
    if (phase == phases.end()) phase = phases.insert(phases.end(), PhaseTime{row.phase, "", ""});
    if (!row.layer.empty() && phase->first.empty()) phase->first = row.layer;
    if (!row.layer.empty()) phase->last = row.layer;
    phase->seconds += row.seconds;
    phase->estimated += row.estimated;
  }
  return phases;
}

double limit_seconds(const ProfileRow& row, const MachineSpeed& machine) {
  double limit = 0;
  const bool bf16 = row.bf16 && machine.bf16_flops_per_second > 0;
  const double most = bf16 ? machine.bf16_flops_per_second : machine.flops_per_second;
  if (most > 0) limit = row.flops / most;
  if (machine.bytes_per_second > 0) limit = std::max(limit, row.bytes / machine.bytes_per_second);
  return limit;
}

std::string to_text(const MachineSpeed& machine) {
  std::string text = fmt::format("{}{}{}: {} GFLOP/s", machine.threads,
                                 machine.threads == 1 ? " thread of " : " threads of ", machine.isa,
                                 fixed(machine.flops_per_second / 1e9));
  if (machine.bf16_flops_per_second > 0) {
    text += ", bf16 " + fixed(machine.bf16_flops_per_second / 1e9) + " GFLOP/s";
  }
  return text + (machine.bytes_per_second > 0
                     ? ", memory " + fixed(machine.bytes_per_second / 1e9) + " GB/s"
                     : ", memory not measured (no room for it beside the limit)");
}

std::string to_json(const MachineSpeed& machine) {
  return Json{{"isa", machine.isa},
              {"threads", machine.threads},
              {"flops_per_second", machine.flops_per_second},
              {"bf16_flops_per_second", machine.bf16_flops_per_second},
              {"bytes_per_second", machine.bytes_per_second}}
      .dump();
}

std::string to_text(const Profile& profile) {
  const ProgramProfile* program = main_program(profile);
  if (program == nullptr) return "profile: nothing ran\n";
  std::string text = shares_line(*program);
  if (profile.machine) text += "limits: " + to_text(*profile.machine) + "\n";
  text += table_of(*program, profile.machine);
  if (profile.machine) text += next_line(*program, *profile.machine);
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
      rows.push_back(to_json(row, program, profile.machine));
    }
    programs.push_back({{"program", program.program},
                        {"runs", program.runs},
                        {"seconds", program.seconds},
                        {"estimated_seconds", estimated_seconds(program)},
                        {"phases", phases_to_json(program)},
                        {"rows", std::move(rows)}});
  }
  return Json{{"machine", machine_to_json(profile.machine)}, {"programs", std::move(programs)}}
             .dump(2) +
         "\n";
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
                        {"args", trace_arguments(row, profile.machine)}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace plimsoll::report
