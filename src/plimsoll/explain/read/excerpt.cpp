#include "explain/read/excerpt.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "explain/read/series_form.h"

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

// The classes whose lines may be a failure by themselves.
constexpr ClassMask kTelling =
    mask_of(LineClass::kFailure) | mask_of(LineClass::kTorch) | mask_of(LineClass::kKernel) |
    mask_of(LineClass::kLimits) | mask_of(LineClass::kKilled) | mask_of(LineClass::kDriver) |
    mask_of(LineClass::kXla) | mask_of(LineClass::kWarning) | mask_of(LineClass::kHost);

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

void Excerpt::Tail::push(const KeptSegment& segment, size_t budget) {
  bytes += segment.text.size() + kOverhead;
  segments.push(segment);
  while (bytes > budget && segments.size() > 0) {
    bytes -= segments[0].text.size() + kOverhead;
    segments.pop();
  }
}

// Whether lines of its form came so often that this one tells nothing new.
bool Excerpt::is_repeated(const KeptSegment& segment) {
  constexpr int64_t kOften = 256;
  const uint64_t form = series_form(segment.text);
  const auto known = std::find_if(forms_.begin(), forms_.end(),
                                  [form](const Form& it) { return it.form == form; });
  Form& entry = known != forms_.end() ? *known
                                      : *std::min_element(forms_.begin(), forms_.end(),
                                                          [](const Form& a, const Form& b) {
                                                            return a.last_line < b.last_line;
                                                          });
  if (known == forms_.end()) entry = {form, 0, 0};
  entry.last_line = segment.line;
  return ++entry.lines > kOften;
}

bool Excerpt::keep(size_t line_class, const KeptSegment& segment, bool repeated) {
  Store& store = stores_[line_class];
  const size_t budget = kRules[line_class].budget;
  if (repeated) {
    store.repeated.push(segment, budget / 2);
    return false;
  }
  const size_t cost = segment.text.size() + kOverhead;
  if (!store.first_full && store.first_bytes + cost <= budget) {
    store.first_bytes += cost;
    store.first.push_back(segment);
    return true;
  }
  store.first_full = true;
  store.last.push(segment, budget);
  return false;
}

void Excerpt::keep_candidate(size_t line_class, size_t before, bool repeated) {
  before = std::min(before, kRecent - 1);
  for (size_t back = before + 1; back-- > 0;) {
    Recent& entry = recent_[(recent_next_ + 2 * kRecent - 1 - back) % kRecent];
    if (entry.segment.line == 0 || entry.kept) continue;
    entry.kept = keep(line_class, entry.segment, repeated);
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
    const bool repeated = (hits & kTelling) != 0 && is_repeated(entry.segment);
    keep_candidate(best, kRules[best].before, repeated);
    // What comes after a line that came once is not left to a line that came often.
    const bool may_take = !repeated || after_repeated_ || after_left_ == 0;
    if (may_take && kRules[best].after >= after_left_) {
      after_left_ = kRules[best].after;
      after_class_ = best;
      after_repeated_ = repeated;
    }
  } else if (after_left_ > 0) {
    // Lines of a dump that are counted anyway are no one's neighbours.
    --after_left_;
    if (hits == 0) entry.kept = keep(after_class_, entry.segment, after_repeated_);
  }
}

std::vector<KeptSegment> Excerpt::collect() const {
  std::map<std::pair<int64_t, int32_t>, const KeptSegment*> sorted;
  for (const Store& store : stores_) {
    for (const KeptSegment& kept : store.first) sorted[{kept.line, kept.segment}] = &kept;
    for (const Queue* queue : {&store.last.segments, &store.repeated.segments}) {
      for (size_t i = 0; i < queue->size(); ++i) {
        sorted[{(*queue)[i].line, (*queue)[i].segment}] = &(*queue)[i];
      }
    }
  }
  std::vector<KeptSegment> result;
  result.reserve(sorted.size());
  for (const auto& [key, kept] : sorted) result.push_back(*kept);
  return result;
}

}  // namespace plimsoll::explain
