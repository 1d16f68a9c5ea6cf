#include "plan/place/shelf.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace plimsoll::plan {
namespace {

constexpr int32_t kLatest = std::numeric_limits<int32_t>::max();

}  // namespace

void Shelf::clear() {
  order_.clear();
  used_ = 0;
}

Shelf::Block& Shelf::add_block(size_t at) {
  if (used_ == pool_.size()) pool_.emplace_back();
  Block& block = pool_[used_];
  block.begin.fill(kLatest);
  block.end.fill(0);
  block.size = 0;
  order_.insert(order_.begin() + static_cast<int64_t>(at), static_cast<uint32_t>(used_));
  ++used_;
  return block;
}

void Shelf::raise_above(const Block& block, const Rectangle& rectangle, int64_t& offset) {
  const auto begin = static_cast<int32_t>(rectangle.begin);
  const auto end = static_cast<int32_t>(rectangle.end);
  std::array<uint8_t, kBlock> together;
  for (size_t k = 0; k < kBlock; ++k) {
    const int starts = block.begin[k] < end ? 1 : 0;  // no branches: they would not be vectorized
    const int lasts = begin < block.end[k] ? 1 : 0;
    together[k] = static_cast<uint8_t>(starts & lasts);
  }
  for (size_t word = 0; word < kBlock; word += sizeof(uint64_t)) {
    uint64_t any = 0;
    std::memcpy(&any, together.data() + word, sizeof(any));
    if (any == 0) continue;
    for (size_t k = word; k < word + sizeof(any); ++k) {
      if (together[k] == 0) continue;
      if (block.offset[k] >= offset + rectangle.bytes) return;
      offset = std::max(offset, block.top[k]);
    }
  }
}

int64_t Shelf::put(const Rectangle& rectangle) {
  PLIMSOLL_CHECK(rectangle.begin >= 0 && rectangle.end < kLatest, "times are numbers of items");
  int64_t offset = 0;
  for (uint32_t number : order_) {
    const Block& block = pool_[number];
    if (block.offset[0] >= offset + rectangle.bytes) break;
    raise_above(block, rectangle, offset);
  }
  insert(rectangle, offset);
  return offset;
}

void Shelf::insert(const Rectangle& rectangle, int64_t offset) {
  looks_ = 1;
  size_t at = 0;  // the block: the last one that begins no higher
  for (size_t b = 0; b < order_.size(); ++b) {
    const Block& block = pool_[order_[b]];
    const auto last = block.offset.begin() + static_cast<int64_t>(block.size);
    if (block.offset[0] <= offset) at = b;
    if (block.offset[0] >= offset + rectangle.bytes) break;
    looks_ += std::lower_bound(block.offset.begin(), last, offset + rectangle.bytes) -
              block.offset.begin();
  }
  if (order_.empty()) add_block(0);
  if (pool_[order_[at]].size == kBlock) {
    Block& upper = add_block(at + 1);
    Block& lower = pool_[order_[at]];
    constexpr size_t kHalf = kBlock / 2;
    const auto move_half = [](auto& from, auto& to) {
      std::copy(from.begin() + kHalf, from.end(), to.begin());
    };
    move_half(lower.begin, upper.begin);
    move_half(lower.end, upper.end);
    move_half(lower.offset, upper.offset);
    move_half(lower.top, upper.top);
    std::fill(lower.begin.begin() + kHalf, lower.begin.end(), kLatest);
    std::fill(lower.end.begin() + kHalf, lower.end.end(), 0);
    lower.size = upper.size = kHalf;
    if (upper.offset[0] <= offset) ++at;
  }
  Block& block = pool_[order_[at]];
  const auto last = block.offset.begin() + static_cast<int64_t>(block.size);
  const auto place = std::upper_bound(block.offset.begin(), last, offset) - block.offset.begin();
  const auto put_in = [&](auto& values, auto value) {
    std::copy_backward(values.begin() + place, values.begin() + static_cast<int64_t>(block.size),
                       values.begin() + static_cast<int64_t>(block.size) + 1);
    values[static_cast<size_t>(place)] = value;
  };
  put_in(block.begin, static_cast<int32_t>(rectangle.begin));
  put_in(block.end, static_cast<int32_t>(rectangle.end));
  put_in(block.offset, offset);
  put_in(block.top, offset + rectangle.bytes);
  ++block.size;
}

}  // namespace plimsoll::plan
