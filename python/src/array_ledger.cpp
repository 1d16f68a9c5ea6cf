#include "array_ledger.h"

#include <algorithm>

#include "process_taken.h"

namespace plimsoll::python {
namespace {

std::vector<Held> sorted(const std::unordered_map<int32_t, Held>& lines) {
  std::vector<Held> found;
  for (const auto& [line, held] : lines) {
    if (held.arrays != 0) found.push_back(held);
  }
  std::sort(found.begin(), found.end(), [](const Held& one, const Held& other) {
    return one.bytes != other.bytes ? one.bytes > other.bytes : one.line < other.line;
  });
  return found;
}

}  // namespace

void ArrayLedger::copy_peak() {
  if (!peak_is_now_) return;
  at_peak_ = sorted(lines_);
  peak_is_now_ = false;
}

void ArrayLedger::take_off(const Array& array) {
  copy_peak();
  Held& held = lines_[array.line];
  held.bytes -= array.bytes;
  held.arrays -= 1;
  if (held.arrays == 0) held.largest = 0;
  total_ -= array.bytes;
  if (!array.is_filled) unfilled_ -= array.bytes;
}

void ArrayLedger::add(const void* begin, size_t bytes, int32_t line) {
  const std::lock_guard lock(mutex_);
  const Array array{static_cast<int64_t>(bytes), line, false};
  const auto [at, is_new] = arrays_.try_emplace(begin, array);
  if (!is_new) {  // it was freed in a way that nobody told
    take_off(at->second);
    at->second = array;
  }
  Held& held = lines_[line];
  held.line = line;
  held.bytes += array.bytes;
  held.arrays += 1;
  held.largest = std::max(held.largest, array.bytes);
  total_ += array.bytes;
  unfilled_ += array.bytes;
  if (total_ > peak_) {
    peak_ = total_;
    peak_is_now_ = true;
  }
}

size_t ArrayLedger::remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto at = arrays_.find(begin);
  if (at == arrays_.end()) return 0;
  const Array array = at->second;
  take_off(array);
  arrays_.erase(at);
  return static_cast<size_t>(array.bytes);
}

int64_t ArrayLedger::unfilled_at_most() const {
  const std::lock_guard lock(mutex_);
  return unfilled_;
}

int64_t ArrayLedger::measure_unfilled() {
  const std::lock_guard lock(mutex_);
  int64_t missing = 0;
  for (auto& [begin, array] : arrays_) {
    if (array.is_filled) continue;
    const int64_t of_this = untouched(begin, static_cast<size_t>(array.bytes));
    missing += of_this;
    if (of_this == 0) {
      array.is_filled = true;
      unfilled_ -= array.bytes;
    }
  }
  return missing;
}

std::vector<Held> ArrayLedger::held() const {
  const std::lock_guard lock(mutex_);
  return sorted(lines_);
}

std::vector<Held> ArrayLedger::held_at_peak() const {
  const std::lock_guard lock(mutex_);
  return peak_is_now_ ? sorted(lines_) : at_peak_;
}

int64_t ArrayLedger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::vector<Block> ArrayLedger::largest(size_t most) const {
  std::vector<Block> found;
  {
    const std::lock_guard lock(mutex_);
    found.reserve(arrays_.size());
    for (const auto& [begin, array] : arrays_) found.push_back({begin, array.bytes, array.line});
  }
  const size_t count = std::min(most, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                    [](const Block& one, const Block& other) { return one.bytes > other.bytes; });
  found.resize(count);
  return found;
}

}  // namespace plimsoll::python
