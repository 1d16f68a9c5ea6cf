#pragma once

// Indices as distinct types: a ValueId never passes for a NodeId or a byte count.

#include <compare>
#include <cstdint>
#include <functional>

namespace plimsoll {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;  // invalid
  constexpr explicit Id(int32_t index) : index_(index) {}
  constexpr explicit Id(size_t index) : index_(static_cast<int32_t>(index)) {}

  constexpr bool valid() const { return index_ >= 0; }
  // Position in the table that owns the thing; only for valid ids.
  constexpr size_t index() const { return static_cast<size_t>(index_); }
  constexpr int32_t raw() const { return index_; }  // -1: invalid
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  int32_t index_ = -1;
};

}  // namespace plimsoll

template <typename Tag>
struct std::hash<plimsoll::Id<Tag>> {
  size_t operator()(plimsoll::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.raw()); }
};
