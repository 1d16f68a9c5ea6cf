// Real failures with their truth: how often each field is right.
//
// evidence.json marks, case by case, where an excerpt holds the evidence of its cause and which
// fields it does not hold.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using Json = nlohmann::json;

struct Rate {
  int right = 0;
  int all = 0;
  std::string wrong;
  double percent() const { return all == 0 ? 100.0 : 100.0 * right / all; }
  void count(bool is_right, const std::string& what) {
    ++all;
    right += is_right ? 1 : 0;
    if (!is_right) wrong += "\n    " + what;
  }
};

std::vector<Json> read_lines(const std::filesystem::path& path) {
  std::vector<Json> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) cases.push_back(Json::parse(line));
  }
  return cases;
}

bool is_missing(const Json& evidence, const std::string& id, const std::string& field) {
  if (!evidence.contains(id) || !evidence[id].contains("missing_fields")) return false;
  for (const Json& name : evidence[id]["missing_fields"]) {
    if (name == field) return true;
  }
  return false;
}

// What the forbidden sentences have in common, as far as a machine can see it.
void expect_nothing_forbidden(const Json& truth, const Json& answer, const std::string& text) {
  const std::string cause = answer["cause_label"];
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (truth["cause_label"] == "weights_or_optimizer_state") {
    EXPECT_FALSE(says("batch_size="));
  }
  const std::string resource = answer["resource"].is_null() ? "" : answer["resource"];
  if (resource != "gpu_memory") {
    EXPECT_FALSE(says("device memory ("));
  }
  if (resource == "shm") {
    EXPECT_FALSE(says("the file system"));
  }
  if (cause == "ambiguous_bus_error") {
    EXPECT_FALSE(says("--shm-size"));
  }
  const bool tiny = answer["bytes"].is_number() && answer["bytes"] < (1 << 20);
  if (tiny) {
    EXPECT_FALSE(says("too large") || says("too big"));
  }
  if (truth["cause_label"] == "true_peak") {
    EXPECT_NE(cause, "gpu_held_by_other_process");
  }
}

TEST(Corpus, RatesAreAboveTheirThresholds) {
  const std::vector<Json> cases = read_lines("data/failures/failures.jsonl");
  ASSERT_GE(cases.size(), 90u);
  const Json evidence = Json::parse(std::ifstream("unit/explain/evidence.json"));
  std::map<std::string, Rate> rates;
  Rate causes;
  Rate elsewhere;
  for (const Json& entry : cases) {
    const std::string id = entry["id"];
    SCOPED_TRACE(id);
    const Explanation explanation = explain_text(entry["log_excerpt"].get<std::string>());
    const Json answer = Json::parse(to_json(explanation, id));
    const Json& truth = entry["truth"];
    for (const std::string field : {"resource", "device", "allocator", "tensor_shape", "dtype",
                                    "bytes", "bytes_exact", "op", "op_type", "kernel_file"}) {
      if (is_missing(evidence, id, field)) continue;
      rates[field].count(truth[field] == answer[field], id + ": expected " + truth[field].dump() +
                                                            ", received " + answer[field].dump());
    }
    const std::string label = truth["cause_label"];
    if (evidence.contains(id)) {
      const bool held = evidence[id]["cause"];
      (held ? causes : elsewhere)
          .count(answer["cause_label"] == (held ? label : "unknown"),
                 id + ": expected " + label + ", received " +
                     answer["cause_label"].get<std::string>());
    }
    if (answer["cause_label"] == "unknown") {
      EXPECT_FALSE(answer["collect"].empty());
    }
    expect_nothing_forbidden(truth, answer, to_text(explanation, ""));
  }
  for (const auto& [field, rate] : rates) {
    std::cout << field << ": " << rate.right << "/" << rate.all << rate.wrong << "\n";
  }
  std::cout << "cause_label with evidence: " << causes.right << "/" << causes.all << causes.wrong
            << "\ncause_label without evidence, said to be unknown: " << elsewhere.right << "/"
            << elsewhere.all << elsewhere.wrong << "\n";
  EXPECT_GE(rates["resource"].percent(), 98.0);
  for (const std::string field : {"bytes", "tensor_shape", "device"}) {
    EXPECT_GE(rates[field].percent(), 99.0) << field;
  }
  EXPECT_GE(rates["op"].percent(), 95.0);
  EXPECT_GE(causes.percent(), 90.0);
}

}  // namespace
}  // namespace plimsoll::explain
