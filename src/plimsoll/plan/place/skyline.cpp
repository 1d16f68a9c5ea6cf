#include "plan/place/skyline.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace plimsoll::plan {
namespace {

constexpr int64_t kWall = std::numeric_limits<int64_t>::max();

class Skyline {
 public:
  Skyline(const std::vector<Rectangle>& rectangles, SkylineRule rule)
      : rectangles_(rectangles), rule_(rule) {
    waiting_.resize(rectangles.size());
    std::iota(waiting_.begin(), waiting_.end(), 0u);
    std::ranges::stable_sort(waiting_, {}, [&](uint32_t i) { return rectangles_[i].begin; });
    Stretch all;
    for (const Rectangle& rectangle : rectangles) all.end = std::max(all.end, rectangle.end);
    line_.push_back(all);
  }

  std::vector<int64_t> place() {
    std::vector<int64_t> offsets(rectangles_.size());
    while (!waiting_.empty()) {
      const size_t lowest = find_lowest();
      const auto best = find_best(line_[lowest]);
      if (best == waiting_.end()) {
        raise(lowest);
        continue;
      }
      offsets[*best] = line_[lowest].height;
      cover(lowest, rectangles_[*best]);
      waiting_.erase(best);
    }
    return offsets;
  }

 private:
  struct Stretch {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t height = 0;
  };

  size_t find_lowest() const {
    const auto lowest = std::ranges::min_element(line_, {}, &Stretch::height);
    return static_cast<size_t>(lowest - line_.begin());
  }

  std::tuple<double, int64_t> value(const Rectangle& rectangle) const {
    const int64_t length = rectangle.end - rectangle.begin;
    switch (rule_) {
      case SkylineRule::kLongest:
        return {static_cast<double>(length), rectangle.bytes};
      case SkylineRule::kLargest:
        return {static_cast<double>(rectangle.bytes), length};
      case SkylineRule::kMostArea:
        break;
    }
    return {static_cast<double>(length) * static_cast<double>(rectangle.bytes), length};
  }

  std::vector<uint32_t>::iterator find_best(const Stretch& stretch) {
    auto at = std::ranges::lower_bound(waiting_, stretch.begin, {},
                                       [&](uint32_t i) { return rectangles_[i].begin; });
    auto best = waiting_.end();
    for (; at != waiting_.end() && rectangles_[*at].begin < stretch.end; ++at) {
      if (rectangles_[*at].end > stretch.end) continue;
      if (best == waiting_.end() || value(rectangles_[*at]) > value(rectangles_[*best])) best = at;
    }
    return best;
  }

  int64_t height(size_t stretch) const {
    return stretch < line_.size() ? line_[stretch].height : kWall;  // also for −1
  }

  // Nothing fits any more: up to the lower neighbour, and one with those of its height.
  void raise(size_t at) {
    line_[at].height = std::min(height(at - 1), height(at + 1));
    if (height(at + 1) == line_[at].height) join(at);
    if (height(at - 1) == line_[at].height) join(at - 1);
  }

  void join(size_t at) {
    line_[at].end = line_[at + 1].end;
    line_.erase(line_.begin() + static_cast<int64_t>(at) + 1);
  }

  void cover(size_t at, const Rectangle& rectangle) {
    const Stretch old = line_[at];
    std::vector<Stretch> parts;
    if (old.begin < rectangle.begin) parts.push_back({old.begin, rectangle.begin, old.height});
    parts.push_back({rectangle.begin, rectangle.end, old.height + rectangle.bytes});
    if (rectangle.end < old.end) parts.push_back({rectangle.end, old.end, old.height});
    line_.erase(line_.begin() + static_cast<int64_t>(at));
    line_.insert(line_.begin() + static_cast<int64_t>(at), parts.begin(), parts.end());
  }

  const std::vector<Rectangle>& rectangles_;
  SkylineRule rule_;
  std::vector<uint32_t> waiting_;  // by rising begin
  std::vector<Stretch> line_;      // by time, without holes
};

}  // namespace

std::vector<int64_t> place_on_skyline(const std::vector<Rectangle>& rectangles, SkylineRule rule) {
  return Skyline(rectangles, rule).place();
}

}  // namespace plimsoll::plan
