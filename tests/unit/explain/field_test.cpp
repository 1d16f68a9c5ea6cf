// Logs in the forms that people have sent, made up anew: one line of field.jsonl each, with what an
// answer must and must not say. `says` and `never` are words of the text; fields that are not named
// are not asked for.

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
    const Explanation explanation = explain_text(log["log"].get<std::string>() + "\n");
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
  ASSERT_GE(logs.size(), 27u);
  expect_understood(logs);
}

}  // namespace
}  // namespace plimsoll::explain
