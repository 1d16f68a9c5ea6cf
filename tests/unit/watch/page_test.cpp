// The page of a run: its figures are the JSON's, and nothing in it comes from elsewhere.

#include "watch/tell/page.h"

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/chart.h"
#include "unit/watch/example_run.h"
#include "watch/tell/summary.h"

namespace plimsoll::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// "captures.0.processes.0.resident_bytes" in the record.
Json at_key(const Json& record, const std::string& key) {
  std::string pointer = "/" + key;
  for (char& c : pointer) c = c == '.' ? '/' : c;
  return record.at(Json::json_pointer(pointer));
}

TEST(Page, EveryFigureIsTheOneOfTheJson) {
  const watch::Run run = test::example_run();
  const std::string page = to_html(run);
  const Json record = Json::parse(to_json(run));
  const std::regex figure("<data data-key=\"([^\"]+)\" value=\"([^\"]+)\">");
  int count = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), figure), end; it != end; ++it, ++count) {
    EXPECT_EQ(at_key(record, (*it)[1]).dump(), (*it)[2].str()) << (*it)[1];
  }
  EXPECT_GE(count, 9);
}

TEST(Page, HoldsTheRecordItself) {
  const watch::Run run = test::example_run();
  const std::string page = to_html(run);
  const std::string begin = "<script type=\"application/json\" id=\"record\">";
  const size_t at = page.find(begin);
  ASSERT_NE(at, std::string::npos);
  const size_t from = at + begin.size();
  const std::string text = page.substr(from, page.find("</script>", from) - from);
  EXPECT_EQ(Json::parse(text), Json::parse(to_json(run)));
}

TEST(Page, StandsAlone) {
  const std::string page = to_html(test::example_run());
  for (const char* word : {"http:", "https:", "src=", "href=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(word)));
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("width=device-width"));
}

TEST(Page, TextFromOutsideIsEscaped) {
  const std::string page = to_html(test::example_run());
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, HasSubstr("a &lt; b &amp; c"));
}

TEST(Page, OfACommandThatWasNotStartedIsAPage) {
  watch::Run run;
  run.command = {"nothing"};
  run.verdict.kind = VerdictKind::kNotStarted;
  run.verdict.sentence = "nothing could be started.";
  EXPECT_THAT(to_html(run), HasSubstr("not started"));
}

TEST(Axis, EndsAtARoundNumber) {
  constexpr double kGiB = 1 << 30;
  EXPECT_EQ(report::round_up_axis(0.9 * kGiB, 2), kGiB);
  EXPECT_EQ(report::round_up_axis(1.1 * kGiB, 2), 1.25 * kGiB);
  EXPECT_EQ(report::round_up_axis(1.6 * kGiB, 2), 2 * kGiB);
  EXPECT_EQ(report::round_up_axis(3.1, 10), 5);
  EXPECT_EQ(report::round_up_axis(10, 10), 10);
  EXPECT_EQ(report::round_up_axis(0, 10), 1);
}

TEST(Chart, KeepsThePeakOfManyPoints) {
  report::Chart chart;
  chart.format_value = chart.format_time = [](double) { return std::string("x"); };
  report::Series series;
  for (int i = 0; i < 100'000; ++i) series.points.emplace_back(i, i == 33'333 ? 64 : 1);
  chart.series = {series};
  chart.end = 100'000;
  const std::string html = to_html(chart);
  EXPECT_THAT(html, HasSubstr("L333.3 0.0"));
  EXPECT_LT(html.size(), 60'000u);
}

}  // namespace
}  // namespace plimsoll::watch
