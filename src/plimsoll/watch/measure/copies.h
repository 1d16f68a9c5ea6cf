#pragma once

// Is one large array held several times over?
//
// Training data often are: an array that a program made, the tensor that a framework made of it,
// and what the input pipeline keeps. No batch size and no model changes that, so it has to be known
// before either is advised.
//
//   maps at one look    ├── 763 MiB ──┤                          a block: newly mapped, anonymous
//   maps at a later one ├── 763 MiB ──┤   ├──── 1056 MiB ────┤   another: does it hold the first?
//                          ▪    ▪    ▪       ▪    ▪    ▪         short probes, same places: equal?
//
// Size alone proves nothing (images and masks are alike in size): a block counts as a copy only
// when probes of the first array, spread over all of it, are found in the block at one common
// distance, byte for byte or as float64 rounded to float32. Probes of constant bytes prove nothing
// and are not used. A copy that was changed meanwhile, or lies at an unusual place of its block, is
// missed; no copy is ever reported of which none was compared. Where one was, blocks of the same
// size count too whose content differs (a framework's zero-filled stand-in for the data) if the
// rise of the memory is a whole number of arrays; they are named apart (`alike`).

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/measure/growth.h"
#include "watch/measure/sample.h"

namespace plimsoll::watch {

// Arrays of one content that were held at the same time.
struct DataCopies {
  int64_t array_bytes = 0;  // extent of one; 0: nothing is held twice
  int64_t equal = 0;        // how many, this one included
  int64_t halved = 0;       // and how many with float32 of its float64
  int64_t alike = 0;        // further ones by the rise of the memory, not compared
  double since = 0;         // when the first of them was seen
  double seconds = 0;       // when there were that many for the first time
  double unseen = 0;        // when the first of them was not there yet

  int64_t times() const { return equal + halved + alike; }
  int64_t total_bytes() const { return (equal + alike) * array_bytes + halved * (array_bytes / 2); }
  bool operator==(const DataCopies&) const = default;
};

// "the same data are held 3 times: …" with its figures; `peak_held` as in Peak.
std::string describe(const DataCopies& copies, int64_t peak_held);
// Sets `alike` from the curve of a run.
void add_alike(DataCopies& copies, std::span<const Sample> samples);
// Copies that came while memory grew and grew are results that a loop keeps, not data held twice:
// there are none then. But a few of them, in a run whose output counted no work and whose memory
// hardly rose after the last, were loaded slowly, and the growth is too short to be called.
void tell_loading_from_leaks(std::span<const Sample> samples, DataCopies& copies, Growth& growth);
// More than half of the peak: nothing else is worth making smaller.
bool dominate(const DataCopies& copies, int64_t peak_held);

class CopyFinder {
 public:
  static constexpr int64_t kSmallest = int64_t{64} << 20;  // arrays below are not looked at

  // Reads the watched process' memory; returns the bytes read.
  using Peek = std::function<size_t(uint64_t address, void* into, size_t bytes)>;

  // One look: its lines of /proc/PID/maps, then look().
  void line(std::string_view line);
  void look(const Peek& peek, double seconds);

  // The most that were seen at one time.
  const DataCopies& found() const { return found_; }

 private:
  struct Range {
    uint64_t begin = 0, end = 0;
    double born = 0;
    double unseen = 0;  // the look before that
    int64_t extent() const { return static_cast<int64_t>(end - begin); }
  };
  struct Probe {
    static constexpr size_t kBytes = 64;  // eight float64
    uint64_t offset = 0;                  // in the array
    std::array<char, kBytes> bytes{};
    size_t length = kBytes;
  };
  // The content of an array, by what was read of it when its first copy was found.
  struct Content {
    int64_t bytes = 0;
    double born = 0;
    double unseen = 0;
    std::vector<Probe> whole, halved;  // halved: empty where it cannot be
  };
  // Where a content is held.
  struct Holding {
    uint64_t begin = 0;
    bool halved = false;
    size_t content = 0;
  };

  static bool is_telling(const Probe& probe);
  static bool halve(Probe& probe);
  static Content read_content(const Range& array, const Peek& peek);
  static bool is_there(const std::vector<Probe>& probes, uint64_t begin, const Peek& peek);
  static int64_t extent_of(const Content& content, bool halved);

  bool is_mapped(const Range& range) const;
  void follow_ranges(double seconds);
  void drop_overwritten(const Peek& peek);
  bool is_known(uint64_t begin) const;
  bool is_taken(const Range& block) const;
  // Where an array begins that has the probes; looks kSlack around `place`. 0 if nowhere.
  uint64_t find_at(const std::vector<Probe>& probes, uint64_t place, const Peek& peek);
  // Where in the block the content begins, other than where it is known to; 0 if nowhere.
  uint64_t find_copy(const Content& content, bool halved, const Range& block, const Peek& peek);
  void look_for(const Content& content, size_t index, const Peek& peek);
  // Whether the array that was not known is held elsewhere too.
  bool look_for_new(const Range& array, const Peek& peek);
  void look_inside(const Range& block, const Peek& peek);
  void count(double seconds);

  std::vector<Range> ranges_;  // of this look
  std::vector<char> window_;   // what a search reads at a time
  std::vector<Range> blocks_;  // oldest first
  std::vector<Content> contents_;
  std::vector<Holding> holdings_;
  double looked_ = -1;  // when last; negative: never
  DataCopies found_;
};

// Looks at one process while its memory rises to new heights and once more after that; costs at
// most a two-hundredth of that time.
class CopyWatch {
 public:
  void look(int64_t pid, int64_t anonymous_bytes, double seconds);
  const DataCopies& found() const { return best_; }

 private:
  CopyFinder finder_;
  int64_t pid_ = 0;
  int64_t highest_bytes_ = 0;
  double moved_at_ = 0;
  bool moved_ = false;
  double next_ = 0;
  DataCopies best_;
};

}  // namespace plimsoll::watch
