#include "watch/measure/copies.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"
#include "watch/measure/kernel_file.h"
#include "watch/measure/map_line.h"

namespace plimsoll::watch {
namespace {

constexpr size_t kProbes = 16;           // must all agree
constexpr uint64_t kPlaces = 64;         // where a telling probe is looked for
constexpr uint64_t kSlack = 1 << 16;     // headers and alignment in front of an array
constexpr uint64_t kFront = 12u << 20;   // searched without gaps: stacks and small arrays beside it
constexpr uint64_t kAligned = 8;         // what every allocator keeps; halves of its 16
constexpr uint64_t kRegion = 32u << 20;  // pools take regions of powers of two beyond that
constexpr uint64_t kPage = 4096;
constexpr size_t kMostBlocks = 64;
constexpr size_t kMostContents = 32;
constexpr double kRest = 200;  // between two looks, for the time that one took

// Where a copy of `bytes` may begin in a block: at its front, at its end, and after the regions
// that an allocator put in front.
std::vector<uint64_t> likely_places(uint64_t extent, uint64_t bytes) {
  const uint64_t room = extent > bytes ? extent - bytes : 0;
  const uint64_t step = (bytes + kPage - 1) / kPage * kPage;
  std::vector<uint64_t> places;
  // Before the front too: the array's own front may be that of something small beside it.
  for (uint64_t at = 0; at <= kFront; at += 2 * kSlack) {
    if (at > 0) places.push_back(-at);
    if (at <= room + kSlack) places.push_back(at);
  }
  for (uint64_t at = kRegion; at <= room; at += kRegion) places.push_back(at);
  for (uint64_t at = step; at <= room + kPage; at += step) places.push_back(at);
  for (uint64_t back = 0; back * step <= room; ++back) places.push_back(room - back * step);
  return places;
}

uint64_t word_at(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Where in the bytes the word of eight lies that is found least by chance: zeros are everywhere.
size_t rarest_word(const char* bytes, size_t length) {
  size_t best = 0;
  int most = 0;
  for (size_t at = 0; at + sizeof(uint64_t) <= length; at += sizeof(uint64_t)) {
    std::array<char, sizeof(uint64_t)> word;
    std::memcpy(word.data(), bytes + at, word.size());
    std::sort(word.begin(), word.end());
    const auto distinct = static_cast<int>(std::unique(word.begin(), word.end()) - word.begin());
    if (distinct > most) best = at, most = distinct;
  }
  return best;
}

}  // namespace

std::string describe(const DataCopies& copies, int64_t peak_held) {
  const auto size = [](int64_t bytes) { return to_string(Bytes(bytes)); };
  std::string text = fmt::format("the same data are held {} times: ", copies.times());
  if (copies.equal > 0) {
    text += fmt::format("{} x {}", copies.equal, size(copies.array_bytes));
    if (copies.halved > 0) text += " and ";
  }
  if (copies.halved > 0) {
    text += fmt::format("{} x {} as float32 of the float64", copies.halved,
                        size(copies.array_bytes / 2));
  }
  if (copies.alike > 0) {
    text += fmt::format(", and {} more by the rise of the memory, which was not compared",
                        copies.alike);
  }
  return text + ", " + size(copies.total_bytes()) + " where the peak is " + size(peak_held);
}

// The memory rose from what it was before the first array by a whole number of arrays, plus
// at most two fifths of one for all else that a program takes meanwhile.
void add_alike(DataCopies& copies, std::span<const Sample> samples) {
  constexpr double kAllElse = 0.4;
  constexpr double kLess = 0.15;  // given back or shared meanwhile
  if (copies.times() < 2 || samples.empty()) return;
  int64_t before = -1;
  int64_t peak = 0;
  for (const Sample& sample : samples) {
    // A sample's lowest is that of all instants after the sample before it: the first one whose
    // time is not before the last look without the array holds that look, however late it is.
    const bool holds_look = sample.seconds >= copies.unseen;
    const bool just_before = holds_look && (before < 0 || sample.seconds <= copies.since);
    if (just_before && (before < 0 || sample.held_low < before)) before = sample.held_low;
    peak = std::max(peak, sample.held);
  }
  if (before < 0) return;
  const double arrays =
      static_cast<double>(peak - before) / static_cast<double>(copies.array_bytes);
  const double compared =
      static_cast<double>(copies.equal) + 0.5 * static_cast<double>(copies.halved);
  const double more = std::floor(arrays - compared + kLess);
  if (more >= 1 && more <= 2 && arrays - compared - more <= kAllElse) {
    copies.alike = static_cast<int64_t>(more);
  }
}

namespace {

// A few, in a run whose output counted no work, after whose last the memory hardly rose.
bool are_loaded(const DataCopies& copies, const Growth& growth, std::span<const Sample> samples) {
  constexpr int64_t kMostHeld = 4;                  // an array, a tensor, what a pipeline keeps
  constexpr int64_t kAllElse = int64_t{256} << 20;  // bytes that a program takes meanwhile
  const bool counted =
      growth.bytes_per_step != 0 || growth.bytes_per_epoch != 0 || growth.bytes_per_fit != 0;
  if (counted || copies.times() < 2 || copies.times() > kMostHeld) return false;
  const auto then = std::find_if(samples.begin(), samples.end(), [&](const Sample& sample) {
    return sample.seconds >= copies.seconds;
  });
  if (then == samples.end()) return false;
  int64_t most = 0;
  std::vector<CurvePoint> after;
  for (auto at = then; at != samples.end(); ++at) {
    most = std::max(most, at->held_low);
    after.push_back(
        {at->seconds, static_cast<double>(at->held_low), static_cast<double>(at->held)});
  }
  if (most - then->held >
      copies.alike * copies.array_bytes + std::min(kAllElse, copies.array_bytes * 2 / 5)) {
    return false;
  }
  // A leak after them shows in time.
  return after.back().seconds - then->seconds < Growth::kLoadingSeconds ||
         classify(after).form != CurveForm::kGrowth;
}

}  // namespace

void tell_loading_from_leaks(std::span<const Sample> samples, DataCopies& copies, Growth& growth) {
  if (growth.form != CurveForm::kGrowth || copies.seconds <= growth.from_seconds) return;
  if (!are_loaded(copies, growth, samples)) {
    copies = {};
    return;
  }
  growth.form = CurveForm::kTooShort;
  growth.confidence = 0;
  growth.bytes_per_minute = 0;
}

bool dominate(const DataCopies& copies, int64_t peak_held) {
  return copies.times() >= 2 && 2 * copies.total_bytes() >= peak_held;
}

void CopyFinder::line(std::string_view line) {
  MapLine map;
  if (!parse_map_line(line, map) || !map.permissions.starts_with("rw")) return;
  if (!map.name.empty() && !map.name.starts_with("[anon")) return;
  if (!ranges_.empty() && ranges_.back().end == map.begin) {
    ranges_.back().end = map.end;
  } else {
    ranges_.push_back({map.begin, map.end});
  }
}

// Bytes that are not found just anywhere.
bool CopyFinder::is_telling(const Probe& probe) {
  std::array<bool, 256> seen{};
  int distinct = 0;
  for (const char c : probe.bytes) {
    bool& known = seen[static_cast<unsigned char>(c)];
    distinct += known ? 0 : 1;
    known = true;
  }
  return distinct >= 12;
}

// The eight float64 as float32; false where they are no ordinary numbers.
bool CopyFinder::halve(Probe& probe) {
  std::array<double, Probe::kBytes / sizeof(double)> wide;
  std::memcpy(wide.data(), probe.bytes.data(), sizeof wide);
  std::array<float, wide.size()> narrow;
  for (size_t i = 0; i < wide.size(); ++i) {
    const double size = std::abs(wide[i]);
    if (!(size == 0 || (size > 1e-30 && size < 1e30))) return false;
    narrow[i] = static_cast<float>(wide[i]);
  }
  probe.offset /= 2;
  probe.length = sizeof narrow;
  std::memcpy(probe.bytes.data(), narrow.data(), sizeof narrow);
  return true;
}

// Telling bytes spread over all of the array; none where it has too few.
CopyFinder::Content CopyFinder::read_content(const Range& array, const Peek& peek) {
  Content content{array.extent(), array.born, array.unseen, {}, {}};
  const uint64_t step = static_cast<uint64_t>(array.extent()) / (kPlaces + 1);
  for (uint64_t i = 0; i < kPlaces && content.whole.size() < kProbes; ++i) {
    // Both ends first: an array that is still being filled, or a region in part in use, is none.
    // 5 has no common divisor with the places: even a few probes are spread over all of it.
    const uint64_t place = i == 0 ? kPlaces - 1 : (i * 5 - 5) % kPlaces;
    Probe probe;
    probe.offset = step * (place + 1) & ~uint64_t{Probe::kBytes - 1};
    const size_t got = peek(array.begin + probe.offset, probe.bytes.data(), Probe::kBytes);
    if (got != Probe::kBytes || !is_telling(probe)) {
      if (i < 2) return content;
      continue;
    }
    content.whole.push_back(probe);
    if (halve(probe)) content.halved.push_back(probe);
  }
  if (content.whole.size() < kProbes) content.whole.clear();
  if (content.halved.size() < kProbes) content.halved.clear();
  return content;
}

bool CopyFinder::is_there(const std::vector<Probe>& probes, uint64_t begin, const Peek& peek) {
  return std::all_of(probes.begin(), probes.end(), [&](const Probe& probe) {
    std::array<char, Probe::kBytes> there{};
    return peek(begin + probe.offset, there.data(), probe.length) == probe.length &&
           std::memcmp(there.data(), probe.bytes.data(), probe.length) == 0;
  });
}

int64_t CopyFinder::extent_of(const Content& content, bool halved) {
  return halved ? content.bytes / 2 : content.bytes;
}

bool CopyFinder::is_mapped(const Range& range) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& mapped) {
    return mapped.begin <= range.begin && range.end <= mapped.end;
  });
}

// What is no longer mapped goes; what is mapped and belongs to no block becomes one.
void CopyFinder::follow_ranges(double seconds) {
  std::erase_if(blocks_, [&](const Range& block) { return !is_mapped(block); });
  std::vector<Range> known = blocks_;
  std::sort(known.begin(), known.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // Before the first look, what came within its last seconds is taken for new.
  const double unseen = looked_ >= 0 ? looked_ : std::max(0.0, seconds - 2);
  const auto add = [&](uint64_t begin, uint64_t end) {
    if (end <= begin || end - begin < static_cast<uint64_t>(kSmallest / 2)) return;
    if (blocks_.size() < kMostBlocks) blocks_.push_back({begin, end, seconds, unseen});
  };
  for (Range range : ranges_) {
    for (const Range& block : known) {
      if (block.end <= range.begin || block.begin >= range.end) continue;
      add(range.begin, block.begin);
      range.begin = block.end;
    }
    add(range.begin, range.end);
  }
  ranges_.clear();
  looked_ = seconds;
}

void CopyFinder::drop_overwritten(const Peek& peek) {
  std::erase_if(holdings_, [&](const Holding& holding) {
    const Content& content = contents_[holding.content];
    return !is_there(holding.halved ? content.halved : content.whole, holding.begin, peek);
  });
}

bool CopyFinder::is_known(uint64_t begin) const {
  return std::any_of(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
    const auto extent =
        static_cast<uint64_t>(extent_of(contents_[holding.content], holding.halved));
    return begin + kFront > holding.begin && begin + kFront < holding.begin + extent;
  });
}

bool CopyFinder::is_taken(const Range& block) const {
  return std::any_of(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
    const auto extent =
        static_cast<uint64_t>(extent_of(contents_[holding.content], holding.halved));
    return holding.begin < block.end && holding.begin + extent / 2 > block.begin;
  });
}

uint64_t CopyFinder::find_at(const std::vector<Probe>& probes, uint64_t place, const Peek& peek) {
  const Probe& first = probes.front();
  const size_t rarest = rarest_word(first.bytes.data(), first.length);
  const uint64_t wanted = word_at(first.bytes.data() + rarest);
  window_.resize(2 * kSlack + Probe::kBytes);
  const uint64_t from = place + first.offset - kSlack;
  const size_t got = peek(from, window_.data(), window_.size());
  for (size_t at = 0; at + first.length <= got; at += kAligned) {
    if (word_at(window_.data() + at + rarest) != wanted) continue;
    if (std::memcmp(window_.data() + at, first.bytes.data(), first.length) != 0) continue;
    const uint64_t begin = from + at - first.offset;
    if (is_there(probes, begin, peek)) return begin;
  }
  return 0;
}

uint64_t CopyFinder::find_copy(const Content& content, bool halved, const Range& block,
                               const Peek& peek) {
  const std::vector<Probe>& probes = halved ? content.halved : content.whole;
  if (probes.empty()) return 0;
  const auto bytes = static_cast<uint64_t>(extent_of(content, halved));
  for (const uint64_t place : likely_places(block.end - block.begin, bytes)) {
    if (is_known(block.begin + place)) continue;
    if (const uint64_t begin = find_at(probes, block.begin + place, peek)) return begin;
  }
  return 0;
}

void CopyFinder::look_for(const Content& content, size_t index, const Peek& peek) {
  for (const Range& block : blocks_) {
    for (const bool halved : {false, true}) {
      if (block.extent() < extent_of(content, halved) - static_cast<int64_t>(kFront)) continue;
      while (const uint64_t begin = find_copy(content, halved, block, peek)) {
        holdings_.push_back({begin, halved, index});
      }
    }
  }
}

// The array is known from its first copy on.
bool CopyFinder::look_for_new(const Range& array, const Peek& peek) {
  const Content content = read_content(array, peek);
  if (content.whole.empty()) return false;
  const size_t known = holdings_.size();
  contents_.push_back(content);
  holdings_.push_back({array.begin, false, contents_.size() - 1});
  look_for(content, contents_.size() - 1, peek);
  if (holdings_.size() > known + 1) return true;
  contents_.pop_back();
  holdings_.pop_back();
  return false;
}

// An array and its copies that came between two looks are mapped as one block.
void CopyFinder::look_inside(const Range& block, const Peek& peek) {
  constexpr uint64_t kMostInside = 4;
  constexpr uint64_t kBeside = 1 << 20;  // of small arrays between them
  const auto extent = static_cast<uint64_t>(block.extent());
  // The smallest first: two of them side by side are alike too.
  for (uint64_t parts = kMostInside; parts >= 2; --parts) {
    Range array = block;
    array.end = array.begin + extent / parts / kPage * kPage;
    if (array.extent() < kSmallest) continue;
    const Content content = read_content(array, peek);
    if (content.whole.empty()) continue;
    for (uint64_t back = 0; back <= kBeside; back += 2 * kSlack) {
      uint64_t second = find_at(content.whole, array.end - back, peek);
      if (second == 0) second = find_at(content.whole, array.end + back, peek);
      if (second == 0) continue;
      // One array that repeats itself is alike everywhere.
      if (find_at(content.whole, array.begin + extent / parts / 2, peek) != 0) return;
      array.end = second;
      look_for_new(array, peek);
      return;
    }
  }
}

void CopyFinder::look(const Peek& peek, double seconds) {
  follow_ranges(seconds);
  drop_overwritten(peek);
  for (size_t i = 0; i < contents_.size(); ++i) {
    const Content content = contents_[i];
    look_for(content, i, peek);
  }
  for (size_t i = 0; i < blocks_.size() && contents_.size() < kMostContents; ++i) {
    if (is_taken(blocks_[i]) || blocks_[i].extent() < kSmallest) continue;
    if (!look_for_new(blocks_[i], peek)) look_inside(blocks_[i], peek);
  }
  count(seconds);
}

void CopyFinder::count(double seconds) {
  for (size_t i = 0; i < contents_.size(); ++i) {
    DataCopies now{contents_[i].bytes, 0, 0, 0, contents_[i].born, seconds, contents_[i].unseen};
    for (const Holding& holding : holdings_) {
      if (holding.content == i) ++(holding.halved ? now.halved : now.equal);
    }
    if (now.times() >= 2 && now.total_bytes() > found_.total_bytes()) found_ = now;
  }
}

void CopyWatch::look(int64_t pid, int64_t anonymous_bytes, double seconds) {
  // A copy takes a while: what moved a moment ago may be complete only later.
  constexpr double kSettles = 2;
  // What a step takes and gives back again and again is no new array.
  if (anonymous_bytes >= highest_bytes_ + CopyFinder::kSmallest / 2) {
    highest_bytes_ = anonymous_bytes;
    moved_at_ = seconds;
    moved_ = true;
  }
  if (pid <= 0 || !moved_ || seconds < next_ || anonymous_bytes < CopyFinder::kSmallest) return;
  if (pid != pid_) {
    finder_ = CopyFinder();
    pid_ = pid;
  }
  const double begin = own_cpu_seconds();
  const std::string path = fmt::format("/proc/{}/maps", pid);
  if (!read_kernel_lines(path, [&](std::string_view line) { finder_.line(line); })) return;
  finder_.look(
      [pid](uint64_t address, void* into, size_t bytes) -> size_t {
        const iovec here{into, bytes};
        const iovec there{std::bit_cast<void*>(address), bytes};
        const ssize_t got = ::process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
        return got > 0 ? static_cast<size_t>(got) : 0;
      },
      seconds);
  moved_ = seconds < moved_at_ + kSettles;
  next_ = seconds + std::clamp(kRest * (own_cpu_seconds() - begin), 0.2, 2.0);
  if (finder_.found().total_bytes() > best_.total_bytes()) best_ = finder_.found();
}

}  // namespace plimsoll::watch
