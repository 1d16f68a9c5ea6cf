// Logs written after the grammar of each family, each with the exact answer.
// PLIMSOLL_UPDATE_GOLDEN=1 writes the answers anew; review the difference.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

constexpr std::string_view kLog = "== log\n";
constexpr std::string_view kAnswer = "== answer\n";

struct Golden {
  std::string log;
  std::string answer;
};

Golden read_golden(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string all = text.str();
  const size_t answer = all.rfind(kAnswer);
  EXPECT_EQ(all.substr(0, kLog.size()), kLog);
  EXPECT_NE(answer, std::string::npos);
  return {all.substr(kLog.size(), answer - kLog.size()), all.substr(answer + kAnswer.size())};
}

TEST(GoldenExplanations, AreWhatTheExplainerSays) {
  const bool update = std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("golden/explain")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_GE(paths.size(), 25u);
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    const Golden golden = read_golden(path);
    const Explanation explanation = explain_text(golden.log);
    const std::string received = "exit " + std::to_string(exit_code(explanation)) + "\n" +
                                 to_text(explanation, path.stem().string());
    if (update) {
      std::ofstream(path, std::ios::binary) << kLog << golden.log << kAnswer << received;
    } else {
      EXPECT_EQ(golden.answer, received);
    }
  }
}

}  // namespace
}  // namespace plimsoll::explain
