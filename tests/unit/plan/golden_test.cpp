// Golden plans: tests/golden/plan/*.txt hold a graph, options, and the answer that the planner
// gives.
//
//   == graph      program text
//   == options    limit=4096  nested=off  in_place=off  reread=off  block h1=4,2  exact y1
//   == answer     what was chosen and the plan's text without its block lines, or why there is none
//
// PLIMSOLL_UPDATE_GOLDEN=1 writes the answers anew; review the difference.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plan/search/planner.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

struct Golden {
  std::string graph;
  std::string options;
  std::string answer;
};

Golden read_golden(const std::filesystem::path& path) {
  std::ifstream file(path);
  Golden golden;
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line == "== graph") {
      section = &golden.graph;
    } else if (line == "== options") {
      section = &golden.options;
    } else if (line == "== answer") {
      section = &golden.answer;
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return golden;
}

void read_options(const std::string& text, PlanOptions& options, toys::ToyCatalog& catalog) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "block") {
      words >> word;
      std::istringstream extents(word.substr(word.find('=') + 1));
      graph::Block& block = catalog.blocks[word.substr(0, word.find('='))];
      for (std::string extent; std::getline(extents, extent, ',');) {
        block.push_back(extent == "all" ? graph::kWholeAxis : std::stoll(extent));
      }
    } else if (word == "exact") {
      words >> word;
      catalog.row_exact_nodes.insert(word);
    } else if (word.starts_with("limit=")) {
      options.arena_limit = Bytes(std::stoll(word.substr(6)));
    } else if (word == "nested=off") {
      options.nested_loops = false;
    } else if (word == "in_place=off") {
      options.in_place = false;
    } else if (word == "reread=off") {
      options.reread_inputs = false;
    } else {
      ADD_FAILURE() << "unknown option " << word;
    }
  }
}

std::string without_blocks(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("block ")) result += line + "\n";
  }
  return result;
}

std::string answer(const Golden& golden) {
  const graph::ProgramSet programs = toys::parse_programs(golden.graph);
  toys::ToyCatalog catalog;
  PlanOptions options;
  read_options(golden.options, options, catalog);
  const PlanOutcome outcome = make_plan(programs, catalog, options);
  if (const Fits* fits = outcome.fits()) {
    const Validation validation = validate(fits->plan, programs, catalog);
    EXPECT_TRUE(validation.ok()) << validation.message;
    return fits->what + "\n" + without_blocks(print(fits->plan, programs));
  }
  const std::string numbers = "smallest " + std::to_string(outcome.smallest.count()) +
                              ", lower bound " + std::to_string(outcome.lower_bound.count()) + "\n";
  const auto* impossible = std::get_if<Impossible>(&outcome.answer);
  return impossible == nullptr ? "not found: " + numbers
                               : "impossible: " + numbers + impossible->proof + "\n";
}

TEST(GoldenPlans, AreWhatThePlannerGives) {
  const bool update = std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("golden/plan")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_GE(paths.size(), 10u);
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    Golden golden = read_golden(path);
    const std::string received = answer(golden);
    if (update) {
      std::ofstream(path) << "== graph\n"
                          << golden.graph << "== options\n"
                          << golden.options << "== answer\n"
                          << received;
    } else {
      EXPECT_EQ(golden.answer, received);
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan
