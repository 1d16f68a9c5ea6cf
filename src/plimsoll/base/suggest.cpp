#include "base/suggest.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace plimsoll {
namespace {

// Names longer than this are compared by their head only: unknown names come from files.
constexpr size_t kMaxCompared = 128;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

template <typename Text>
std::string nearest(std::string_view name, std::span<const Text> candidates) {
  std::string_view best;
  int best_distance = 0;
  for (const Text& candidate : candidates) {
    const std::string_view text = candidate;
    const int limit = std::max(1, static_cast<int>(text.size()) / 3);
    const int distance = edit_distance(name, text);
    if (distance > limit) continue;
    if (best.empty() || distance < best_distance) {
      best = text;
      best_distance = distance;
    }
  }
  if (best.empty()) return "";
  return " Did you mean \"" + std::string(best) + "\"?";
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxCompared);
  b = b.substr(0, kMaxCompared);
  const size_t width = b.size() + 1;
  std::vector<int> before_last(width), last(width), row(width);
  for (size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < width; ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  return nearest(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  return nearest(name, candidates);
}

std::string did_you_mean(std::string_view name,
                         std::initializer_list<std::string_view> candidates) {
  return nearest(name, std::span<const std::string_view>(candidates.begin(), candidates.size()));
}

std::string did_you_mean_file(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMostNames = 1000;
  const fs::path wanted(path);
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  while (!failed && at != fs::directory_iterator() && names.size() < kMostNames) {
    names.push_back(at->path().filename().string());
    at.increment(failed);
  }
  return did_you_mean(wanted.filename().string(), names);
}

}  // namespace plimsoll
