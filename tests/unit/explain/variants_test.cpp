// Messages as other versions, programs, schedulers and languages print them, made up after their
// forms: one line of variants.jsonl each. `resource` null: nothing may be said to have failed;
// "warn": no failure; "any": not asked for, as are `bytes` and `cause_label` where they are null.
// Other fields are asked for where they are named. `whole`: cut in two, a line of progress no
// longer has its count and its loss in one line.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using Json = nlohmann::json;

std::vector<Json> read_variants() {
  std::vector<Json> variants;
  std::ifstream file("unit/explain/variants.jsonl");
  for (std::string line; std::getline(file, line);) variants.push_back(Json::parse(line));
  return variants;
}

void expect_understood(const Json& variant, const std::string& log) {
  const Explanation explanation = explain_text(log);
  const Json answer = Json::parse(to_json(explanation, ""));
  if (variant["resource"] == "warn") {
    EXPECT_NE(answer["verdict"], "failure");
  } else if (variant["resource"] == "any") {
    // What the message does not say.
  } else if (variant["resource"].is_null()) {
    EXPECT_EQ(answer["verdict"], "no_failure") << to_text(explanation, "");
  } else {
    EXPECT_EQ(answer["resource"], variant["resource"]);
  }
  if (!variant["bytes"].is_null()) {
    EXPECT_EQ(answer["bytes"], variant["bytes"]);
  }
  if (!variant["cause_label"].is_null()) {
    EXPECT_EQ(answer["cause_label"], variant["cause_label"]);
  }
  for (const char* field :
       {"verdict", "tensor_shape", "device", "allocator", "dtype", "op", "when", "batch"}) {
    if (variant.contains(field)) {
      EXPECT_EQ(answer[field], variant[field]) << field;
    }
  }
  if (answer["verdict"] == "failure") {
    EXPECT_FALSE(explanation.evidence.empty());
    EXPECT_FALSE(explanation.advice.empty());
    EXPECT_NE(exit_code(explanation), 0);
  }
}

// What must not be said, as far as the answer itself tells that it would be wrong.
void expect_nothing_forbidden(const Explanation& explanation) {
  const std::string text = to_text(explanation, "");
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (explanation.cause_label == Cause::kWeightsOrOptimizer) {
    EXPECT_FALSE(says("batch_size="));
  }
  if (explanation.resource != Resource::kGpuMemory) {
    EXPECT_FALSE(says("device memory ("));
  }
  if (explanation.cause_label == Cause::kAmbiguousBusError) {
    EXPECT_FALSE(says("--shm-size"));
  }
  if (explanation.bytes && *explanation.bytes < (1 << 20)) {
    EXPECT_FALSE(says("too large") || says("too big"));
  }
  const bool no_memory = explanation.resource == Resource::kDisk ||
                         explanation.resource == Resource::kFileDescriptors ||
                         explanation.resource == Resource::kMessageSize ||
                         explanation.resource == Resource::kOther;
  if (no_memory) {
    EXPECT_FALSE(says("plimsoll plan") || says("batch_size"));
  }
  if (explanation.verdict == Verdict::kWarning) {
    EXPECT_FALSE(says("ended the run"));
    EXPECT_EQ(exit_code(explanation), 18);
  }
}

TEST(Variants, SayNothingForbidden) {
  for (const Json& variant : read_variants()) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    expect_nothing_forbidden(explain_text(variant["log"].get<std::string>() + "\n"));
  }
}

TEST(Variants, AreUnderstood) {
  const std::vector<Json> variants = read_variants();
  ASSERT_GE(variants.size(), 1313u);
  for (const Json& variant : variants) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    expect_understood(variant, variant["log"].get<std::string>() + "\n");
  }
}

// Terminals and web pages cut lines wherever they are full.
TEST(Variants, AreUnderstoodCutIntoLines) {
  constexpr size_t kWidth = 80;
  for (const Json& variant : read_variants()) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    if (variant.contains("whole")) continue;
    std::string cut;
    size_t column = 0;
    for (const char c : variant["log"].get<std::string>()) {
      if (column == kWidth) cut += '\n';
      column = c == '\n' ? 0 : column % kWidth + 1;
      cut += c;
    }
    expect_understood(variant, cut + "\n");
  }
}

// The same after what a cluster's log puts in front of each line, and amid other output.
TEST(Variants, AreUnderstoodAmidOtherOutput) {
  for (const Json& variant : read_variants()) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    const std::string log = variant["log"].get<std::string>();
    expect_understood(variant, "step 10 loss 0.5\n\n" + log + "\n\nsaved nothing\n");
    std::string quoted = "2024-05-01T10:00:00.123456789Z ";
    for (const char c : log) {
      quoted += c;
      if (c == '\n') quoted += "2024-05-01T10:00:00.123456789Z ";
    }
    expect_understood(variant, quoted + "\n");
    std::string pod = "[pod/trainer-0/main] ";
    for (const char c : log) {
      pod += c;
      if (c == '\n') pod += "\x1b[36m(worker pid=77)\x1b[0m ";
    }
    expect_understood(variant, pod + "\r\n");
  }
}

// A log that ends within a number does not say it: nothing is read from its first digits that is
// not said without them or with all of them. Where messages end with the number, its end is theirs.
TEST(Variants, EndWithinANumberThatIsNotReadThen) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto figures = [](std::string_view log) {
    const Explanation answer = explain_text(log);
    const Json json = Json::parse(to_json(answer, ""));
    return Json{json["bytes"], json["tensor_shape"], json["device"], json["amounts"]};
  };
  size_t cuts = 0;
  for (const Json& variant : read_variants()) {
    const std::string log = variant["log"];
    for (size_t begin = 0; begin < log.size(); ++begin) {
      if (!is_digit(log[begin]) || (begin > 0 && is_digit(log[begin - 1]))) continue;
      size_t end = begin;
      while (end < log.size() && is_digit(log[end])) ++end;
      const bool is_last = end == log.size() || log[end] == '\n';
      if (end - begin < 2 || is_last || ++cuts % 7 != 0) continue;
      const Json without = figures(log.substr(0, begin));
      const Json with = figures(log.substr(0, end));
      const Json all = figures(log);
      const Json half = figures(log.substr(0, begin + 1));
      for (size_t i = 0; i < half.size(); ++i) {
        EXPECT_TRUE(half[i] == without[i] || half[i] == with[i] || half[i] == all[i])
            << variant["name"] << " at " << begin << ": " << half[i];
      }
    }
  }
  EXPECT_GT(cuts, 500u);
}

}  // namespace
}  // namespace plimsoll::explain
