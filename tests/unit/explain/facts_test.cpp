// Logs of public threads with what their truths say in figures: the resource, the bytes, the shape,
// whether the run went on.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using Json = nlohmann::json;

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The class of resource that the truth's words begin with; "" where it is no shortage that a log
// can show.
std::string resource_in(const std::string& words) {
  for (const char* name : {"gpu_memory", "host_memory", "shm", "disk"}) {
    if (words.find(name) != std::string::npos) return name;
  }
  return "";
}

void expect_truth(const Json& truth, const Explanation& explanation) {
  const Json answer = Json::parse(to_json(explanation, ""));
  const std::string trap = truth.value("trap", "");
  const bool warning =
      truth.value("verdict", "").starts_with("warning") ||
      (trap.find("verdict") != std::string::npos && trap.find("warning") != std::string::npos);
  EXPECT_EQ(answer["verdict"], warning ? "warning" : "failure");
  const std::string resource = resource_in(truth["resource"]);
  if (resource.empty()) {
    EXPECT_EQ(answer["exit_code"], 16);
  } else {
    EXPECT_EQ(answer["resource"], resource);
  }
  if (truth.contains("bytes") && truth["bytes"].is_number_integer() && !answer["bytes"].is_null()) {
    const auto asked = truth["bytes"].get<double>();
    // A printed figure has three digits.
    const double rounding = answer["bytes_exact"] == true ? 0 : asked / 200;
    EXPECT_NEAR(answer["bytes"].get<double>(), asked, rounding);
  }
  if (truth.contains("tensor_shape") && !truth["tensor_shape"].is_null()) {
    EXPECT_EQ(answer["tensor_shape"], truth["tensor_shape"]);
  }
}

TEST(FieldFacts, AreAnsweredByTheirTruths) {
  const std::filesystem::path folder = "data/failures/logs";
  std::vector<std::filesystem::path> truths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".truth.json")) truths.push_back(entry.path());
  }
  std::sort(truths.begin(), truths.end());
  ASSERT_GE(truths.size(), 40u);
  for (const std::filesystem::path& path : truths) {
    SCOPED_TRACE(path.filename().string());
    const std::string name = path.string();
    const std::string log = name.substr(0, name.size() - std::string(".truth.json").size());
    expect_truth(Json::parse(read(path)), explain_text(read(log + ".log")));
  }
}

}  // namespace
}  // namespace plimsoll::explain
