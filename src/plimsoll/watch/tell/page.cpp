#include "watch/tell/page.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "base/bytes.h"
#include "base/format.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/table.h"
#include "watch/output.h"
#include "watch/tell/summary.h"

namespace plimsoll::watch {
namespace {

using report::bytes_figure;
using report::Chart;
using report::escape_html;
using report::Figure;
using report::Page;
using report::Series;
using report::SeriesLook;
using report::Tone;

constexpr size_t kMostMarks = 60;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

std::string size(int64_t bytes) { return to_string(Bytes(bytes)); }

// As summary_json.cpp prints it: three decimals, trailing zeros dropped.
std::string exact(double value) {
  std::string result = fmt::format("{:.3f}", std::round(value * 1000) / 1000);
  while (result.back() == '0') result.pop_back();
  if (result.back() == '.') result += '0';
  return result;
}

Tone tone_of(const Run& run) {
  if (run.verdict.kind != VerdictKind::kDone) return Tone::kBad;
  return run.growth.form == CurveForm::kGrowth ? Tone::kNeutral : Tone::kGood;
}

std::string plain(std::string_view label) {
  std::string text(label);
  for (char& c : text) c = c == '_' ? ' ' : c;
  return text;
}

Page::Tile peak_tile(const Run& run) {
  return {
      "Peak memory", to_html(bytes_figure("peak.held_bytes", run.peak.held_bytes)),
      "at " + report::format_seconds(run.peak.seconds) +
          (run.peak.printed.empty() ? "" : ", printed then: " + clean_line(run.peak.printed, 80))};
}

std::vector<Page::Tile> tiles_of(const Run& run) {
  std::vector<Page::Tile> tiles{peak_tile(run)};
  if (run.limit) {
    tiles.push_back({"Limit", to_html(bytes_figure("limit_bytes", *run.limit)), run.guard_kind});
  }
  if (run.peak.group_bytes) {
    tiles.push_back({"With page cache",
                     to_html(bytes_figure("peak.group_bytes", *run.peak.group_bytes)),
                     "the kernel's high-water mark of the group"});
  }
  if (run.peak.process_bytes) {
    tiles.push_back({"Largest process",
                     to_html(bytes_figure("peak.process_bytes", *run.peak.process_bytes)),
                     run.peak.process_name + ", its libraries' pages included"});
  }
  if (run.peak.gpu_bytes) {
    tiles.push_back(
        {"GPU memory", to_html(bytes_figure("peak.gpu_bytes", *run.peak.gpu_bytes)), run.gpu_name});
  }
  Figure slope = bytes_figure("growth.bytes_per_minute", std::llround(run.growth.bytes_per_minute));
  slope.text += " / min";
  const bool sloped = run.growth.bytes_per_minute != 0;
  std::string form = plain(to_string(run.growth.form));
  if (run.growth.bytes_per_step > 0) {
    form += ", " + size(std::llround(run.growth.bytes_per_step)) + " a step";
  }
  tiles.push_back({"Growth", sloped ? to_html(slope) : escape_html(form), sloped ? form : ""});
  if (dominate(run.copies, run.peak.held_bytes)) {
    tiles.push_back({"Data held several times",
                     to_html(bytes_figure("copies.total_bytes", run.copies.total_bytes())),
                     fmt::format("{} times, {} of them compared", run.copies.times(),
                                 run.copies.equal + run.copies.halved)});
  }
  tiles.push_back({"Bound by", escape_html(plain(to_string(run.bound.by))),
                   run.bound.evidence.empty() ? "" : run.bound.evidence.front()});
  tiles.push_back(
      {"Time", to_html(Figure{"seconds", exact(run.seconds), report::format_seconds(run.seconds)}),
       fmt::format("exit code {}", run.exit_code)});
  return tiles;
}

Series series_of(const Run& run, std::string name, SeriesLook look,
                 double (*value)(const Sample& sample)) {
  Series series{std::move(name), look, {}};
  for (const Sample& sample : run.curve.samples()) {
    series.points.emplace_back(sample.seconds, value(sample));
  }
  return series;
}

double optional(const std::optional<int64_t>& value) {
  return value ? static_cast<double>(*value) : kNothing;
}

Chart empty_chart(const Run& run, std::string title) {
  Chart chart;
  chart.title = std::move(title);
  chart.end = run.seconds;
  chart.format_time = [](double seconds) {
    return seconds > 0 ? report::format_seconds(seconds) : std::string("0 s");
  };
  chart.format_value = [](double bytes) { return size(std::llround(bytes)); };
  return chart;
}

Chart memory_chart(const Run& run) {
  Chart chart = empty_chart(run, "Memory");
  bool grouped = false;
  for (const Sample& sample : run.curve.samples()) grouped = grouped || sample.group_usage;
  if (grouped) {
    chart.series.push_back(series_of(run, "with page cache", SeriesLook::kSecond,
                                     [](const Sample& s) { return optional(s.group_usage); }));
  } else {
    chart.series.push_back(
        series_of(run, "resident, summed", SeriesLook::kSecond,
                  [](const Sample& s) { return static_cast<double>(s.resident); }));
  }
  // Above the other, with which it is the same where nothing is cached.
  chart.series.push_back(series_of(run, "held", SeriesLook::kFirst, [](const Sample& sample) {
    return static_cast<double>(sample.held);
  }));
  if (run.limit) chart.levels.emplace_back(static_cast<double>(*run.limit), "limit");
  for (const Event& event : run.events) {
    if (chart.marks.size() == kMostMarks) break;
    if (event.kind == "started" || event.kind == "ended") continue;
    chart.marks.push_back({event.seconds, event.text});
  }
  return chart;
}

// Processors in use between two samples.
Chart processor_chart(const Run& run) {
  Chart chart = empty_chart(run, "Processors in use");
  chart.step_base = 10;
  chart.format_value = [](double value) { return fmt::format("{:.3g}", value); };
  Series series{"of " + exact(run.cpus), SeriesLook::kThird, {}};
  const std::vector<Sample>& samples = run.curve.samples();
  // The kernel counts in hundredths of a second: shorter intervals would show that, not the load.
  constexpr double kShortest = 0.25;
  size_t before = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const double seconds = samples[i].seconds - samples[before].seconds;
    if (seconds < kShortest) continue;
    series.points.emplace_back(
        samples[i].seconds,
        std::max(0.0, (samples[i].cpu_seconds - samples[before].cpu_seconds) / seconds));
    before = i;
  }
  chart.series.push_back(std::move(series));
  return chart;
}

// What the output counted: where it stands still, the run did something else.
void add_step_chart(const Run& run, Page& page) {
  if (run.curve.samples().back().steps < 2) return;
  Chart chart = empty_chart(run, "Steps");
  chart.step_base = 10;
  chart.format_value = [](double steps) {
    const std::string text = exact(steps);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  chart.series.push_back(series_of(run, "counted in the output", SeriesLook::kThird,
                                   [](const Sample& s) { return static_cast<double>(s.steps); }));
  page.html(to_html(chart));
}

void add_gpu_chart(const Run& run, Page& page) {
  if (!run.peak.gpu_bytes) return;
  Chart chart = empty_chart(run, "GPU memory");
  chart.series.push_back(series_of(run, run.gpu_name, SeriesLook::kFirst,
                                   [](const Sample& s) { return optional(s.gpu_bytes); }));
  page.html(to_html(chart));
}

void add_events(const Run& run, Page& page) {
  if (run.events.empty()) return;
  page.section("What happened");
  std::vector<std::vector<std::string>> rows;
  for (const Event& event : run.events) {
    rows.push_back({escape_html(report::format_seconds(event.seconds)),
                    escape_html(plain(event.kind)), escape_html(event.text)});
  }
  page.table({"at", "what", ""}, rows, false);
}

void add_capture(const Capture& capture, size_t index, Page& page) {
  page.section("Evidence taken at " + report::format_seconds(capture.seconds) + " (" +
               plain(capture.why) + ")");
  const std::string key = fmt::format("captures.{}.", index);
  std::vector<std::vector<std::string>> processes;
  for (size_t i = 0; i < capture.processes.size(); ++i) {
    const ProcessRow& row = capture.processes[i];
    const std::string row_key = fmt::format("{}processes.{}.", key, i);
    processes.push_back({escape_html(fmt::format("{} ({})", row.name, row.pid)),
                         to_html(bytes_figure(row_key + "resident_bytes", row.resident)),
                         to_html(bytes_figure(row_key + "anonymous_bytes", row.anonymous)),
                         to_html(bytes_figure(row_key + "shared_bytes", row.shared))});
  }
  page.table({"process", "resident", "anonymous", "shared"}, processes, true);
  std::vector<std::vector<std::string>> mappings;
  for (size_t i = 0; i < capture.mappings.size(); ++i) {
    const Mapping& mapping = capture.mappings[i];
    mappings.push_back(
        {escape_html(mapping.name),
         to_html(bytes_figure(fmt::format("{}largest_mappings.{}.resident_bytes", key, i),
                              mapping.resident))});
  }
  page.table({"largest mappings", "resident"}, mappings, true);
  if (!capture.stack.empty()) page.lines(capture.stack);
  if (!capture.last_lines.empty()) page.lines(capture.last_lines);
}

void add_explanation(const Run& run, Page& page) {
  if (run.explanation.verdict != explain::Verdict::kFailure) return;
  page.section("What the output says");
  page.paragraph(run.explanation.cause.empty() ? "It names no cause." : run.explanation.cause);
  std::vector<std::string> items;
  for (const explain::Evidence& evidence : run.explanation.evidence) items.push_back(evidence.text);
  page.lines(items);
}

}  // namespace

std::string to_html(const Run& run) {
  const std::string command = command_line(run.command);
  Page page("plimsoll watch: " + command);
  page.headline(tone_of(run), plain(to_string(run.verdict.kind)), run.verdict.sentence, command);
  page.tiles(tiles_of(run));
  if (run.curve.samples().size() > 1) {
    page.html(to_html(memory_chart(run)));
    add_step_chart(run, page);
    page.html(to_html(processor_chart(run)));
    add_gpu_chart(run, page);
  }
  if (!run.verdict.evidence.empty()) {
    page.section("Why this verdict");
    page.list(run.verdict.evidence);
  }
  if (!run.verdict.advice.empty()) {
    page.section("What to do");
    page.list(run.verdict.advice);
  }
  if (!run.verdict.not_worth.empty()) {
    page.section("Not worth doing");
    page.list(run.verdict.not_worth);
  }
  add_explanation(run, page);
  for (size_t i = 0; i < run.captures.size(); ++i) add_capture(run.captures[i], i, page);
  add_events(run, page);
  if (!run.last_lines.empty()) {
    page.section("Last lines of output");
    page.lines(run.last_lines);
  }
  page.html("<footer>" +
            escape_html("guard: " + run.guard + ". plimsoll watch itself took " +
                        size(run.own.peak_resident) + " and " +
                        report::format_seconds(run.own.cpu_seconds) + " of processor time.") +
            "</footer>\n");
  page.embed_json(to_json(run));
  return page.print();
}

}  // namespace plimsoll::watch
