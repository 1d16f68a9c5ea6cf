// Logs in the forms that people have sent, made up anew: one line of field.jsonl each, with what an
// answer must and must not say. `says` and `never` are words of the text; fields that are not named
// are not asked for. A long log is written as a list of lines and of parts that come `times` times:
// "lines", in which {i} counts and {bytes}, {MiB} and {GiB} are a size that begins with "from" and
// is multiplied by "factor", or "parts" of the same kinds.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using Json = nlohmann::json;

std::vector<Json> read_logs(const std::string& path) {
  std::vector<Json> logs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) logs.push_back(Json::parse(line));
  return logs;
}

std::string filled(std::string line, int64_t number, double bytes) {
  const std::pair<std::string_view, std::string> figures[] = {
      {"{i}", std::to_string(number)},
      {"{bytes}", std::to_string(static_cast<int64_t>(bytes))},
      {"{MiB}", fmt::format("{:.2f}", bytes / 1024 / 1024)},
      {"{GiB}", fmt::format("{:.2f}", bytes / 1024 / 1024 / 1024)}};
  for (const auto& [mark, figure] : figures) {
    for (size_t at = line.find(mark); at != std::string::npos; at = line.find(mark)) {
      line.replace(at, mark.size(), figure);
    }
  }
  return line;
}

void write_parts(const Json& parts, std::string& log) {
  for (const Json& part : parts) {
    if (part.is_string()) {
      log += part.get<std::string>() + "\n";
      continue;
    }
    for (int64_t i = 0; i < part["times"].get<int64_t>(); ++i) {
      if (part.contains("parts")) write_parts(part["parts"], log);
      const double bytes = part.value("from", 0.0) * std::pow(part.value("factor", 1.0), i);
      for (const Json& line : part.value("lines", Json::array())) {
        log += filled(line.get<std::string>(), i, bytes) + "\n";
      }
    }
  }
}

std::string text_of(const Json& log) {
  if (log.is_string()) return log.get<std::string>() + "\n";
  std::string text;
  write_parts(log, text);
  return text;
}

// The words of the text with single blanks, so that a wrapped line reads as one.
std::string words_of(const Explanation& explanation) {
  std::string words;
  for (const char c : to_text(explanation, "")) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || words.empty() || words.back() != ' ') words += blank ? ' ' : c;
  }
  return words;
}

void expect_fields(const Json& log, const Explanation& explanation) {
  const Json answer = Json::parse(to_json(explanation, ""));
  for (const char* field : {"verdict", "framework", "resource", "bytes", "bytes_exact",
                            "tensor_shape", "device", "dtype", "op", "when", "cause_label"}) {
    if (log.contains(field)) {
      EXPECT_EQ(answer[field], log[field]) << field;
    }
  }
  if (log.contains("exit")) {
    EXPECT_EQ(exit_code(explanation), log["exit"]);
  }
  if (log.contains("amounts")) {
    for (const auto& [name, bytes] : log["amounts"].items()) {
      EXPECT_EQ(answer["amounts"][name], bytes) << name;
    }
  }
}

void expect_words(const Json& log, const std::string& words) {
  for (const Json& said : log.value("says", Json::array())) {
    EXPECT_NE(words.find(said.get<std::string>()), std::string::npos) << said << "\n" << words;
  }
  for (const Json& never : log.value("never", Json::array())) {
    EXPECT_EQ(words.find(never.get<std::string>()), std::string::npos) << never << "\n" << words;
  }
}

void expect_understood(const std::vector<Json>& logs) {
  for (const Json& log : logs) {
    SCOPED_TRACE(log["name"].get<std::string>());
    const Explanation explanation = explain_text(text_of(log["log"]));
    expect_fields(log, explanation);
    expect_words(log, words_of(explanation));
  }
}

TEST(FieldLogs, AreUnderstood) {
  const std::vector<Json> logs = read_logs("unit/explain/field.jsonl");
  ASSERT_GE(logs.size(), 75u);
  expect_understood(logs);
}

TEST(LogsOfADevice, AreUnderstood) {
  const std::vector<Json> logs = read_logs("unit/explain/device.jsonl");
  ASSERT_GE(logs.size(), 29u);
  expect_understood(logs);
}

TEST(LogsOfSeries, AreUnderstoodAtAnyLength) {
  const std::vector<Json> logs = read_logs("unit/explain/series.jsonl");
  ASSERT_GE(logs.size(), 22u);
  expect_understood(logs);
}

}  // namespace
}  // namespace plimsoll::explain
