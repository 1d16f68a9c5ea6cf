// The exact placement on published instances: each CSV file has lines id,lower,upper,size.
// Usage: placement CAPACITY FILE…   Prints one JSON line per file.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "plan/place/pack.h"

namespace {

std::vector<plimsoll::plan::Rectangle> read_rectangles(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<plimsoll::plan::Rectangle> rectangles;
  while (std::getline(file, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    int64_t id = 0;
    plimsoll::plan::Rectangle rectangle;
    if (words >> id >> rectangle.begin >> rectangle.end >> rectangle.bytes)
      rectangles.push_back(rectangle);
  }
  return rectangles;
}

const char* name_of(plimsoll::plan::PackVerdict verdict) {
  switch (verdict) {
    case plimsoll::plan::PackVerdict::kPacked:
      return "packed";
    case plimsoll::plan::PackVerdict::kImpossible:
      return "impossible";
    case plimsoll::plan::PackVerdict::kSpent:
      break;
  }
  return "spent";
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: placement CAPACITY FILE...\n");
    return 2;
  }
  const int64_t capacity = std::atoll(arguments[1]);
  constexpr int64_t kMostWork = 4'000'000'000;
  for (int a = 2; a < count; ++a) {
    const std::vector<plimsoll::plan::Rectangle> rectangles = read_rectangles(arguments[a]);
    const auto start = std::chrono::steady_clock::now();
    const plimsoll::plan::PackResult result =
        plimsoll::plan::pack_within(rectangles, capacity, kMostWork);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf(
        "{\"file\": \"%s\", \"pieces\": %zu, \"verdict\": \"%s\", \"seconds\": %.3f, "
        "\"work\": %lld}\n",
        arguments[a], rectangles.size(), name_of(result.verdict), seconds.count(),
        static_cast<long long>(result.work));
  }
  return 0;
}
