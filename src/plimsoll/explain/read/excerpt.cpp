#include "explain/read/excerpt.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace plimsoll::explain {
namespace {

// Bytes counted per kept segment besides its text.
constexpr size_t kOverhead = sizeof(KeptSegment) + 32;

struct Rule {
  size_t before;
  int after;
  size_t budget;  // bytes, for the first and for the last ones each; 0: not kept
};

constexpr size_t kKiB = 1024;

constexpr std::array<Rule, static_cast<size_t>(LineClass::kCount)> kRules = {{
    {7, 6, 160 * kKiB},  // kFailure
    {6, 5, 96 * kKiB},   // kTorch
    {2, 1, 96 * kKiB},   // kKernel
    {3, 2, 96 * kKiB},   // kLimits
    {3, 1, 64 * kKiB},   // kKilled
    {3, 1, 64 * kKiB},   // kDriver
    {1, 1, 64 * kKiB},   // kPool
    {1, 3, 96 * kKiB},   // kXla
    {1, 1, 96 * kKiB},   // kNode
    {0, 48, 64 * kKiB},  // kTensorList
    {1, 0, 32 * kKiB},   // kWarning
    {4, 2, 96 * kKiB},   // kHost
    {0, 1, 48 * kKiB},   // kContext
    {1, 4, 64 * kKiB},   // kTrace: up to the exception after the last frame
    {0, 0, 16 * kKiB},   // kPhase
    {1, 3, 32 * kKiB},   // kError
    {0, 0, 0},           // kChunk
    {0, 0, 16 * kKiB},   // kSeries
    {0, 0, 24 * kKiB},   // kProgress
    {0, 0, 0},           // kDisguise
}};

}  // namespace

void Excerpt::Queue::push(const KeptSegment& segment) {
  if (count_ == slots_.size()) {
    std::rotate(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(head_), slots_.end());
    head_ = 0;
    slots_.resize(std::max<size_t>(16, 2 * count_));  // a power of two
  }
  slots_[(head_ + count_++) & (slots_.size() - 1)] = segment;
}

void Excerpt::Queue::pop() {
  constexpr size_t kUsualLine = 255;  // more would sum up
  std::string& text = slots_[head_].text;
  if (text.capacity() > kUsualLine) std::string().swap(text);
  head_ = (head_ + 1) & (slots_.size() - 1);
  --count_;
}

bool Excerpt::keep(size_t line_class, const KeptSegment& segment) {
  Store& store = stores_[line_class];
  const size_t budget = kRules[line_class].budget;
  const size_t cost = segment.text.size() + kOverhead;
  if (!store.first_full && store.first_bytes + cost <= budget) {
    store.first_bytes += cost;
    store.first.push_back(segment);
    return true;
  }
  store.first_full = true;
  store.last_bytes += cost;
  store.last.push(segment);
  while (store.last_bytes > budget && store.last.size() > 0) {
    store.last_bytes -= store.last[0].text.size() + kOverhead;
    store.last.pop();
  }
  return false;
}

void Excerpt::keep_candidate(size_t line_class, size_t before) {
  before = std::min(before, kRecent - 1);
  for (size_t back = before + 1; back-- > 0;) {
    Recent& entry = recent_[(recent_next_ + 2 * kRecent - 1 - back) % kRecent];
    if (entry.segment.line == 0 || entry.kept) continue;
    entry.kept = keep(line_class, entry.segment);
  }
}

void Excerpt::add(int64_t line, int32_t segment, bool ends_line, std::string_view text,
                  ClassMask hits) {
  Recent& entry = recent_[recent_next_];
  recent_next_ = (recent_next_ + 1) % kRecent;
  entry.segment.line = line;
  entry.segment.segment = segment;
  entry.segment.ends_line = ends_line;
  entry.segment.text.assign(text);
  entry.kept = false;
  if (hits == 0 && after_left_ == 0) return;

  for (ClassMask rest = hits; rest != 0; rest &= rest - 1) {
    ++counts_[static_cast<size_t>(std::countr_zero(rest))];
  }
  const ClassMask keepable = hits & ~mask_of(LineClass::kChunk);
  if (keepable != 0) {
    const size_t best = static_cast<size_t>(std::countr_zero(keepable));
    keep_candidate(best, kRules[best].before);
    if (kRules[best].after >= after_left_) {
      after_left_ = kRules[best].after;
      after_class_ = best;
    }
  } else if (after_left_ > 0) {
    // Lines of a dump that are counted anyway are no one's neighbours.
    --after_left_;
    if (hits == 0) entry.kept = keep(after_class_, entry.segment);
  }
}

std::vector<KeptSegment> Excerpt::collect() const {
  std::map<std::pair<int64_t, int32_t>, const KeptSegment*> sorted;
  for (const Store& store : stores_) {
    for (const KeptSegment& kept : store.first) sorted[{kept.line, kept.segment}] = &kept;
    for (size_t i = 0; i < store.last.size(); ++i) {
      sorted[{store.last[i].line, store.last[i].segment}] = &store.last[i];
    }
  }
  std::vector<KeptSegment> result;
  result.reserve(sorted.size());
  for (const auto& [key, kept] : sorted) result.push_back(*kept);
  return result;
}

}  // namespace plimsoll::explain
