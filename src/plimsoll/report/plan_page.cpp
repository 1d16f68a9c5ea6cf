#include "report/plan_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/plan_text.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

constexpr size_t kMostCulprits = 12;

Figure bytes_of(std::string key, Bytes bytes) {
  return bytes_figure(std::move(key), bytes.count());
}

Figure seconds_of(std::string key, double seconds) {
  return {std::move(key), nlohmann::json(seconds).dump(), format_seconds(seconds)};
}

std::string about(const PlanSummary& summary) {
  return fmt::format("{}: {} parameters, batch {}, {}{}", summary.model,
                     format_count(summary.parameter_count), summary.batch, summary.optimizer,
                     summary.data.empty() ? "" : "; data: " + summary.data);
}

std::vector<Page::Tile> tiles_of(const PlanSummary& summary) {
  std::vector<Page::Tile> tiles;
  tiles.push_back({"Predicted peak",
                   to_html(bytes_of("predicted_process_bytes", summary.predicted_process)),
                   "of the whole process"});
  if (summary.limit) {
    tiles.push_back({"Limit", to_html(bytes_of("limit_bytes", *summary.limit)), summary.guard});
  }
  tiles.push_back({"A step", to_html(seconds_of("seconds_per_step", summary.seconds_per_step)),
                   "estimated, " + summary.strategy});
  if (summary.spill > Bytes()) {
    tiles.push_back({"Spill file", to_html(bytes_of("spill_bytes", summary.spill)), ""});
  }
  if (summary.free_plan > Bytes()) {
    tiles.push_back({"Free plan", to_html(bytes_of("free_plan_bytes", summary.free_plan)),
                     "the fastest without a limit"});
    tiles.push_back({"Smallest, same bits",
                     to_html(bytes_of("smallest_same_bits_bytes", summary.smallest_same_bits)),
                     ""});
    tiles.push_back({"Lower bound", to_html(bytes_of("lower_bound_bytes", summary.lower_bound)),
                     "no plan can be below it"});
  }
  if (summary.smallest_feasible > Bytes() &&
      summary.smallest_feasible < summary.smallest_same_bits) {
    tiles.push_back({"Smallest of all",
                     to_html(bytes_of("smallest_feasible_bytes", summary.smallest_feasible)),
                     "equal up to rounding"});
  }
  if (summary.smallest_with_spill) {
    tiles.push_back({"Smallest with a spill file",
                     to_html(bytes_of("smallest_spill_bytes", *summary.smallest_with_spill)), ""});
  }
  if (summary.largest_feasible_batch) {
    const std::string batch = std::to_string(*summary.largest_feasible_batch);
    tiles.push_back({"Largest batch", to_html(Figure{"largest_feasible_batch", batch, batch}), ""});
  }
  return tiles;
}

Series series_of(const std::vector<plan::FrontierPoint>& points, std::string name,
                 SeriesLook look) {
  Series series{std::move(name), look, {}};
  for (const plan::FrontierPoint& point : points) {
    series.points.emplace_back(point.seconds, static_cast<double>(point.arena_bytes.count()));
  }
  std::sort(series.points.begin(), series.points.end());
  return series;
}

// Memory against the time of a step: the frontier, and above it what anyone would plan.
Chart frontier_chart(const PlanSummary& summary) {
  Chart chart;
  chart.title = "Process memory against seconds a step";
  chart.series.push_back(series_of(summary.frontier, "plans found", SeriesLook::kSecond));
  if (summary.plain.size() > 1) {
    chart.series.push_back(series_of(summary.plain, "plain plans", SeriesLook::kThird));
  }
  double longest = 0;
  for (const Series& series : chart.series) {
    for (const auto& [seconds, bytes] : series.points) longest = std::max(longest, seconds);
  }
  if (longest > 0) chart.end = longest;
  if (summary.limit) {
    chart.levels.emplace_back(static_cast<double>(summary.limit->count()), "limit");
  }
  chart.format_value = [](double bytes) { return to_string(Bytes(std::llround(bytes))); };
  chart.format_time = [](double seconds) {
    return seconds > 0 ? format_seconds(seconds) : std::string("0 s");
  };
  return chart;
}

void add_points(const std::vector<plan::FrontierPoint>& points, const std::string& key,
                const std::string& title, Page& page) {
  if (points.empty()) return;
  page.section(title);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string row = fmt::format("{}.{}.", key, i);
    rows.push_back({escape_html(points[i].what),
                    to_html(bytes_of(row + "process_bytes", points[i].arena_bytes)),
                    to_html(seconds_of(row + "seconds_per_step", points[i].seconds))});
  }
  page.table({"plan", "memory", "a step"}, rows, true);
}

void add_parts(const PlanSummary& summary, Page& page) {
  page.section("What the process holds at its peak");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < summary.parts.size(); ++i) {
    rows.push_back({escape_html(summary.parts[i].name),
                    to_html(bytes_of(fmt::format("parts.{}.bytes", i), summary.parts[i].bytes))});
  }
  page.table({"part", "memory"}, rows, true);
}

void add_culprits(const PlanSummary& summary, Page& page) {
  if (summary.culprits.empty()) return;
  page.section("Largest at the peak");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(summary.culprits.size(), kMostCulprits); ++i) {
    const plan::Culprit& culprit = summary.culprits[i];
    rows.push_back(
        {escape_html((culprit.layer.empty() ? "the step" : culprit.layer) + ", " + culprit.what),
         to_html(bytes_of(fmt::format("culprits.{}.bytes", i), culprit.bytes))});
  }
  page.table({"layer", "memory"}, rows, true);
}

}  // namespace

std::string to_html(const PlanSummary& summary) {
  Page page("plimsoll plan: " + summary.model);
  std::string answer(to_string(summary.verdict()));
  std::replace(answer.begin(), answer.end(), '_', ' ');
  page.headline(summary.fits() ? Tone::kGood : Tone::kBad, answer, answer_sentence(summary),
                about(summary));
  page.tiles(tiles_of(summary));
  if (summary.block_set > 0) {
    page.paragraph(
        fmt::format("Smaller blocks (halved {}): results equal up to rounding, not bit for bit.",
                    times_halved(summary.block_set)));
  }
  if (const std::string note = precision_note(summary); !note.empty()) {
    page.paragraph("Note: " + note + ".");
  }
  if (summary.frontier.size() > 1) page.html(to_html(frontier_chart(summary)));
  add_parts(summary, page);
  add_culprits(summary, page);
  add_points(summary.frontier, "frontier", "Limits against time", page);
  add_points(summary.plain, "plain_plans", "For comparison: plans that anyone would make", page);
  page.html("<footer>" +
            escape_html(fmt::format("guard: {}; kernels {}, {} threads", summary.guard,
                                    summary.kernel_set, summary.threads)) +
            "</footer>\n");
  page.embed_json(to_json(summary));
  return page.print();
}

}  // namespace plimsoll::report
