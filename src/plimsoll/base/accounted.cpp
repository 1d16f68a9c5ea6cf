#include "base/accounted.h"

#include <array>

namespace plimsoll {
namespace {

thread_local MemoryPart current = MemoryPart::kNone;

constexpr std::array<std::string_view, kMemoryParts> kNames = {
    "none", "engine", "kernels", "structures", "search",
    "data", "ahead",  "spill",   "files",      "arena"};

}  // namespace

std::string_view to_string(MemoryPart part) { return kNames[static_cast<size_t>(part)]; }

MemoryPart current_memory_part() noexcept { return current; }

MemoryTag::MemoryTag(MemoryPart part) noexcept : before_(current) { current = part; }

MemoryTag::~MemoryTag() { current = before_; }

}  // namespace plimsoll

int plimsoll_current_memory_part() noexcept {
  return static_cast<int>(plimsoll::current_memory_part());
}
