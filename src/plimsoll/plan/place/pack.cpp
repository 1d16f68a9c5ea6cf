#include "plan/place/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/hash.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kPlaced = std::numeric_limits<int64_t>::max() / 2;
constexpr int kOrders = 3;

// Sections, half-open.
struct Stretch {
  size_t begin = 0;
  size_t end = 0;
};

// What is known of a rectangle besides itself.
struct Place {
  Stretch sections;
  int64_t neighbours = 0;  // rectangles alive with it
};

// Rows of bits, which take an eighth of a byte each however many are set: lists of numbers would
// take as many megabytes where thousands of rectangles live at once.
class BitRows {
 public:
  BitRows(size_t rows, size_t columns) : words_((columns + 63) / 64), bits_(rows * words_) {}

  void set(size_t row, size_t column) {
    bits_[row * words_ + column / 64] |= uint64_t{1} << column % 64;
  }

  // Calls `visit` with the columns of the row that are set, by rising number, until it is false.
  template <typename Visit>
  void visit(size_t row, const Visit& visit) const {
    for (size_t word = 0; word < words_; ++word) {
      for (uint64_t left = bits_[row * words_ + word]; left != 0; left &= left - 1) {
        if (!visit(static_cast<uint32_t>(word * 64) +
                   static_cast<uint32_t>(std::countr_zero(left)))) {
          return;
        }
      }
    }
  }

  int64_t bytes() const { return std::ssize(bits_) * int64_t{sizeof(uint64_t)}; }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

// A part of the problem, its rectangles in the order in which they are tried at equal offsets.
struct Part {
  Stretch sections;
  std::vector<uint32_t> rectangles;
  uint64_t number = 0;  // names the order
};

// The last rectangle placed: what comes next lies higher, or as high and after it in the order.
struct Last {
  int64_t offset = 0;
  uint32_t rank = 0;
  friend auto operator<=>(const Last&, const Last&) = default;
};

// What an offset lies on: the ground, or the top of the rectangle of that number less one, or
// nothing, since what lay there is placed. A change holds this and not the offset itself, which is
// a fourth of the bytes.
using Support = uint16_t;
constexpr Support kGround = 0;
constexpr Support kNowhere = std::numeric_limits<Support>::max();
constexpr int64_t kMostRectangles = kNowhere - 1;

struct Change {
  uint16_t index = 0;
  Support before = kGround;
};

// The lowest offset that is left for a rectangle, or for any of a section.
struct Level {
  int64_t offset = 0;
  Support support = kGround;
};

// 128 bits of hash stand for a state.
struct State {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const State&, const State&) = default;
};

// States that were found impossible, the latest of each slot: one that is overwritten is searched
// again. States are of one size, so the table is, too.
class States {
 public:
  bool contains(const State& state) const {
    return !slots_.empty() && slots_[slot_of(state)] == state;
  }
  void insert(const State& state) {
    if (slots_.empty()) slots_.resize(kSlots);
    slots_[slot_of(state)] = state;
  }

 private:
  static constexpr size_t kSlots = 1 << 15;  // half a MiB
  static size_t slot_of(const State& state) { return state.low % kSlots; }
  std::vector<State> slots_;
};

// What matrices of bits, changes and parts may take; States takes the rest of kPackRoom.
constexpr int64_t kRoom = kPackRoom.count() - (512_KiB).count();

// Moments of the sections, one for each set of rectangles alive at once that is within no other:
// where rectangles begin and the next thing is that one ends.
std::vector<int64_t> find_moments(const std::vector<Rectangle>& rectangles) {
  std::vector<std::pair<int64_t, bool>> events;
  for (const Rectangle& rectangle : rectangles) {
    events.emplace_back(rectangle.begin, true);
    events.emplace_back(rectangle.end, false);
  }
  std::ranges::sort(events);
  std::vector<int64_t> moments;
  for (size_t e = 0; e + 1 < events.size(); ++e) {
    if (events[e].second && !events[e + 1].second) moments.push_back(events[e].first);
  }
  return moments;
}

class Packer {
 public:
  Packer(const std::vector<Rectangle>& rectangles, int64_t capacity, int64_t work)
      : Packer(rectangles, find_moments(rectangles), capacity, work) {}

  PackVerdict run() {
    for (int64_t bytes : waiting_bytes_) {
      if (bytes > capacity_) return PackVerdict::kImpossible;
    }
    std::vector<uint32_t> all(rectangles_.size());
    std::iota(all.begin(), all.end(), 0u);
    for (const Part& part : split(all, {0, floors_.size()})) {
      const PackVerdict verdict = take_turns(part);
      if (verdict != PackVerdict::kPacked) return verdict;
    }
    return PackVerdict::kPacked;
  }

  int64_t work_left() const { return work_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  Packer(const std::vector<Rectangle>& rectangles, const std::vector<int64_t>& moments,
         int64_t capacity, int64_t work)
      : rectangles_(rectangles),
        capacity_(capacity),
        work_(work),
        places_(rectangles.size()),
        neighbours_(rectangles.size(), rectangles.size()),
        sections_(moments.size(), rectangles.size()),
        offsets_(rectangles.size()),
        least_(rectangles.size()),
        floors_(moments.size()),
        waiting_bytes_(moments.size()),
        joins_(moments.size()),
        seen_(moments.size()) {
    room_ -= neighbours_.bytes() + sections_.bytes();
    fill_sections(moments);
    fill_neighbours();
    for (uint32_t i = 0; i < rectangles.size(); ++i) {
      const Stretch& at = places_[i].sections;
      for (size_t s = at.begin; s < at.end; ++s) waiting_bytes_[s] += rectangles[i].bytes;
      for (size_t s = at.begin; s + 1 < at.end; ++s) ++joins_[s];
    }
  }

  void fill_sections(const std::vector<int64_t>& moments) {
    for (size_t number = 0; number < moments.size(); ++number) {
      for (uint32_t i = 0; i < rectangles_.size(); ++i) {
        if (rectangles_[i].begin > moments[number] || moments[number] >= rectangles_[i].end)
          continue;
        sections_.set(number, i);
        Stretch& at = places_[i].sections;
        if (at.end == 0) at.begin = number;
        at.end = number + 1;
      }
    }
  }

  void fill_neighbours() {
    for (uint32_t i = 0; i < rectangles_.size(); ++i) {
      for (uint32_t j = 0; j < rectangles_.size(); ++j) {
        const bool apart = rectangles_[i].end <= rectangles_[j].begin ||
                           rectangles_[j].end <= rectangles_[i].begin;
        if (i == j || apart) continue;
        neighbours_.set(i, j);
        ++places_[i].neighbours;
      }
    }
  }

  // Cuts the stretch where no rectangle of `waiting` joins two sections; small parts first.
  std::vector<Part> split(const std::vector<uint32_t>& waiting, Stretch stretch) const {
    std::vector<Part> parts;
    size_t begin = stretch.begin;
    for (size_t s = stretch.begin; s < stretch.end; ++s) {
      if (s + 1 < stretch.end && joins_[s] > 0) continue;
      Part part{{begin, s + 1}, {}, 0};
      for (uint32_t i : waiting) {
        const Stretch& at = places_[i].sections;
        if (at.begin >= begin && at.end <= s + 1) part.rectangles.push_back(i);
      }
      if (!part.rectangles.empty()) parts.push_back(std::move(part));
      begin = s + 1;
    }
    std::ranges::stable_sort(parts, {}, [](const Part& part) { return part.rectangles.size(); });
    return parts;
  }

  PackVerdict take_turns(const Part& part) {
    for (auto nodes = 2 * std::ssize(part.rectangles);; nodes *= 2) {
      for (order_ = 0; order_ < kOrders; ++order_) {
        nodes_ = nodes;
        const PackVerdict verdict = solve(part);
        if (verdict != PackVerdict::kSpent) return verdict;
        if (work_ <= 0 || room_is_spent_) return PackVerdict::kSpent;
      }
    }
  }

  PackVerdict solve(Part part) {
    sort(part);
    const int64_t bytes = std::ssize(part.rectangles) * int64_t{sizeof(uint32_t)};
    room_ -= bytes;
    const PackVerdict verdict = search(part, std::ssize(part.rectangles), {});
    room_ += bytes;
    return verdict;
  }

  // By length in time, area and the most bytes that wait at once, each first once.
  void sort(Part& part) {
    using Key = std::array<double, 3>;
    std::vector<std::pair<Key, uint32_t>> keyed;
    for (uint32_t i : part.rectangles) {
      part.number += mix_bits(i + 1);
      int64_t most = 0;
      const Stretch& at = places_[i].sections;
      for (size_t s = at.begin; s < at.end; ++s) most = std::max(most, waiting_bytes_[s]);
      const auto length = static_cast<double>(rectangles_[i].end - rectangles_[i].begin);
      const double area = length * static_cast<double>(rectangles_[i].bytes);
      const auto total = static_cast<double>(most);
      const std::array<Key, kOrders> keys = {
          Key{-length, -area, -total}, {-total, -area, -length}, {-total, -length, -area}};
      keyed.emplace_back(keys[static_cast<size_t>(order_)], i);
    }
    std::ranges::sort(keyed);
    for (size_t k = 0; k < keyed.size(); ++k) part.rectangles[k] = keyed[k].second;
    part.number = mix_bits(part.number + static_cast<uint64_t>(order_));
  }

  // `work`: how many waited before the last rectangle. What waits is found anew in each call: calls
  // lie as deep as there are rectangles, and each would hold as many.
  PackVerdict search(const Part& part, int64_t work, Last last) {
    room_is_spent_ = room_is_spent_ || changes_bytes() > room_;
    if (nodes_ <= 0 || work_ <= 0 || room_is_spent_) return PackVerdict::kSpent;
    --nodes_;
    work_ -= work;
    find_waiting(part);
    if (waiting_.empty()) return PackVerdict::kPacked;
    const auto waiting = std::ssize(waiting_);
    const State state = describe(part, last);
    if (impossible_.contains(state)) return PackVerdict::kImpossible;
    std::optional<Last> next;
    while ((next = find_next(part, last, next))) {
      const PackVerdict verdict = try_next(part, waiting, *next);
      if (verdict != PackVerdict::kImpossible) return verdict;
    }
    impossible_.insert(state);
    return PackVerdict::kImpossible;
  }

  void find_waiting(const Part& part) {
    waiting_.clear();
    for (uint32_t rank = 0; rank < part.rectangles.size(); ++rank) {
      if (waits(part.rectangles[rank])) waiting_.push_back(rank);
    }
  }

  // With nothing placed before there is no order to keep to.
  State describe(const Part& part, Last last) const {
    State state;
    if (last.offset > 0 || last.rank > 0) {
      state.low = mix_bits(part.number ^ mix_bits(static_cast<uint64_t>(last.offset)) ^ last.rank);
      state.high = mix_bits(state.low);
    }
    for (uint32_t rank : waiting_) {
      const uint32_t i = part.rectangles[rank];
      const uint64_t one = mix_bits(mix_bits(i + 1) + static_cast<uint64_t>(least_[i].offset));
      state.low += one;
      state.high += mix_bits(one);
    }
    return state;
  }

  // By rising offset, after what was tried: what may come next without a gap in which another one
  // fits. Each is looked for when it is its turn, so that nothing is held at any depth.
  std::optional<Last> find_next(const Part& part, Last last, std::optional<Last> tried) const {
    int64_t top = kPlaced;
    for (uint32_t rectangle : part.rectangles)
      top = std::min(top, least_[rectangle].offset + rectangles_[rectangle].bytes);
    std::optional<Last> next;
    for (uint32_t rank = 0; rank < part.rectangles.size(); ++rank) {
      const Last here{least_[part.rectangles[rank]].offset, rank};
      if (here.offset >= top || here < last || (tried && here <= *tried)) continue;
      if (!next || here < *next) next = here;
    }
    return next;
  }

  PackVerdict try_next(const Part& part, int64_t waiting, Last next) {
    const uint32_t rectangle = part.rectangles[next.rank];
    const Stretch at = places_[rectangle].sections;
    const size_t leasts = least_changes_.size();
    const size_t floors = floor_changes_.size();
    PackVerdict verdict = PackVerdict::kImpossible;
    if (put(rectangle, part.sections)) {
      bool apart = false;
      for (size_t s = at.begin; s + 1 < at.end; ++s) apart |= --joins_[s] == 0;
      verdict = apart ? solve_parts(part) : search(part, waiting, next);
      for (size_t s = at.begin; s + 1 < at.end; ++s) ++joins_[s];
    }
    for (size_t s = at.begin; s < at.end; ++s) waiting_bytes_[s] += rectangles_[rectangle].bytes;
    undo(least_changes_, leasts, least_);
    undo(floor_changes_, floors, floors_);
    return verdict;
  }

  PackVerdict solve_parts(const Part& part) {
    std::vector<Part> parts;
    {
      std::vector<uint32_t> left;
      for (uint32_t rectangle : part.rectangles) {
        if (waits(rectangle)) left.push_back(rectangle);
      }
      parts = split(left, part.sections);
    }
    for (Part& each : parts) {
      const PackVerdict verdict = solve(std::move(each));
      if (verdict != PackVerdict::kPacked) return verdict;
    }
    return PackVerdict::kPacked;
  }

  // Places the rectangle as low as it may lie; false: what waits does not fit any more.
  bool put(uint32_t rectangle, Stretch part) {
    const int64_t offset = least_[rectangle].offset;
    const Level top{offset + rectangles_[rectangle].bytes, static_cast<Support>(rectangle + 1)};
    const Place& place = places_[rectangle];
    const size_t changes = least_changes_.size();
    offsets_[rectangle] = offset;
    set_least(rectangle, {kPlaced, kNowhere});
    for (size_t s = place.sections.begin; s < place.sections.end; ++s) {
      waiting_bytes_[s] -= rectangles_[rectangle].bytes;
    }
    work_ -= place.neighbours;
    bool fits = true;
    neighbours_.visit(rectangle, [&](uint32_t other) {
      if (least_[other].offset >= top.offset) return true;
      fits = top.offset + rectangles_[other].bytes <= capacity_;
      if (fits) set_least(other, top);
      return fits;
    });
    if (!fits || !raise_floors(changes)) return false;
    for (size_t s = part.begin; s < part.end; ++s) {
      if (offset + waiting_bytes_[s] > capacity_) return false;
    }
    return true;
  }

  bool waits(uint32_t rectangle) const { return least_[rectangle].support != kNowhere; }

  void set_least(uint32_t rectangle, Level level) {
    least_changes_.push_back({static_cast<uint16_t>(rectangle), least_[rectangle].support});
    least_[rectangle] = level;
  }

  // Looks again at the sections whose lowest rectangle is among the changes from `first` on.
  bool raise_floors(size_t first) {
    ++stamp_;
    for (size_t c = first; c < least_changes_.size(); ++c) {
      const Stretch& at = places_[least_changes_[c].index].sections;
      const int64_t before = level_on(least_changes_[c].before).offset;
      for (size_t s = at.begin; s < at.end; ++s) {
        if (seen_[s] == stamp_ || floors_[s].offset != before) continue;
        seen_[s] = stamp_;
        const Level floor = find_floor(s, floors_[s].offset);
        if (floor.offset == floors_[s].offset) continue;
        floor_changes_.push_back({static_cast<uint16_t>(s), floors_[s].support});
        floors_[s] = floor;
        if (floor.offset != kPlaced && floor.offset + waiting_bytes_[s] > capacity_) return false;
      }
    }
    return true;
  }

  // The least of offsets that are at least `known`: no look at the rest where one is just that.
  Level find_floor(size_t section, int64_t known) const {
    Level floor{kPlaced, kNowhere};
    sections_.visit(section, [&](uint32_t i) {
      if (least_[i].offset < floor.offset) floor = least_[i];
      return floor.offset != known;
    });
    return floor;
  }

  // The rectangle is placed, or was when the change was made that is undone now.
  Level level_on(Support support) const {
    if (support == kGround) return {};
    if (support == kNowhere) return {kPlaced, kNowhere};
    const size_t below = support - size_t{1};
    return {offsets_[below] + rectangles_[below].bytes, support};
  }

  void undo(std::deque<Change>& changes, size_t keep, std::vector<Level>& levels) const {
    for (; changes.size() > keep; changes.pop_back()) {
      levels[changes.back().index] = level_on(changes.back().before);
    }
  }

  int64_t changes_bytes() const {
    return (std::ssize(least_changes_) + std::ssize(floor_changes_)) * int64_t{sizeof(Change)};
  }

  const std::vector<Rectangle>& rectangles_;
  int64_t capacity_;
  int64_t work_;
  int64_t room_ = kRoom;  // bytes, of which changes take what they count
  bool room_is_spent_ = false;
  int64_t nodes_ = 0;  // left in this round
  int order_ = 0;
  std::vector<Place> places_;
  BitRows neighbours_;  // by rectangle: those alive with it
  BitRows sections_;    // by section: the rectangles alive there
  std::vector<int64_t> offsets_;
  std::vector<Level> least_;            // by rectangle: the lowest offset that is left; or kPlaced
  std::vector<Level> floors_;           // by section: the least of those
  std::vector<int64_t> waiting_bytes_;  // by section
  std::vector<int64_t> joins_;          // by section: rectangles that wait there and in the next
  std::deque<Change> least_changes_;
  std::deque<Change> floor_changes_;
  std::vector<uint32_t> waiting_;  // places in the order of the part that is searched
  std::vector<uint64_t> seen_;     // by section: the last stamp
  uint64_t stamp_ = 0;
  States impossible_;
};

// Whether there is room for a bit for each two rectangles, and for each one and a section.
bool has_room_for(int64_t rectangles) {
  return rectangles <= kMostRectangles && 2 * rectangles * (rectangles / 8 + 8) <= kRoom;
}

}  // namespace

PackResult pack_within(const std::vector<Rectangle>& rectangles, int64_t capacity,
                       int64_t most_work) {
  // What has no bytes or no time lies anywhere.
  std::vector<uint32_t> numbers;
  std::vector<Rectangle> solid;
  for (uint32_t i = 0; i < rectangles.size(); ++i) {
    if (rectangles[i].bytes <= 0 || rectangles[i].begin >= rectangles[i].end) continue;
    numbers.push_back(i);
    solid.push_back(rectangles[i]);
  }
  PackResult result;
  if (!has_room_for(std::ssize(solid))) return result;
  Packer packer(solid, capacity, most_work);
  result.verdict = packer.run();
  result.work = most_work - packer.work_left();
  if (result.verdict != PackVerdict::kPacked) return result;
  result.offsets.resize(rectangles.size());
  for (size_t k = 0; k < numbers.size(); ++k) result.offsets[numbers[k]] = packer.offsets()[k];
  return result;
}

}  // namespace plimsoll::plan
