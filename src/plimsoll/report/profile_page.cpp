#include "report/profile_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/format.h"
#include "report/html.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

constexpr size_t kMostRows = 40;

Figure seconds_of(std::string key, double seconds) {
  return {std::move(key), nlohmann::json(seconds).dump(), format_seconds(seconds)};
}

Figure count_of(std::string key, int64_t count) {
  return {std::move(key), std::to_string(count), format_count(count)};
}

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

std::vector<size_t> slowest(const ProgramProfile& program) {
  std::vector<size_t> order(program.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.rows[a].seconds > program.rows[b].seconds;
  });
  order.resize(std::min(order.size(), kMostRows));
  return order;
}

// A bar as long as the part of the program's time.
std::string bar(double part) {
  const std::string width = std::to_string(std::lround(100 * std::clamp(part, 0.0, 1.0)));
  return "<svg viewBox=\"0 0 100 6\" width=\"48\" height=\"6\" aria-hidden=\"true\"><rect "
         "width=\"" +
         width + "\" height=\"6\" fill=\"currentColor\"/></svg>";
}

void add_program(const ProgramProfile& program, size_t index, Page& page) {
  const std::string key = fmt::format("programs.{}.", index);
  page.section(program.program);
  page.tiles(
      {{"Runs", to_html(count_of(key + "runs", program.runs)), ""},
       {"Time", to_html(seconds_of(key + "seconds", program.seconds)),
        format_seconds(program.seconds / static_cast<double>(std::max<int64_t>(program.runs, 1))) +
            " a run"}});
  std::vector<std::vector<std::string>> rows;
  for (const size_t i : slowest(program)) {
    const ProfileRow& row = program.rows[i];
    const std::string row_key = fmt::format("{}rows.{}.", key, i);
    const std::string what = row.op.empty() ? row.what : row.op;
    rows.push_back({escape_html(row.layer.empty() ? what : row.layer + ", " + what),
                    to_html(seconds_of(row_key + "seconds", row.seconds)),
                    escape_html(percent(row.seconds, program.seconds)),
                    bar(program.seconds > 0 ? row.seconds / program.seconds : 0),
                    to_html(count_of(row_key + "calls", row.calls))});
  }
  page.table({"layer", "time", "share", "", "calls"}, rows, true);
}

}  // namespace

std::string to_html(const Profile& profile) {
  Page page("plimsoll fit: profile");
  double seconds = 0;
  for (const ProgramProfile& program : profile.programs) seconds += program.seconds;
  page.headline(
      Tone::kNeutral, "profile",
      profile.programs.empty() ? "Nothing ran." : "Where " + format_seconds(seconds) + " went.",
      "");
  for (size_t i = 0; i < profile.programs.size(); ++i) add_program(profile.programs[i], i, page);
  page.embed_json(to_json(profile));
  return page.print();
}

}  // namespace plimsoll::report
