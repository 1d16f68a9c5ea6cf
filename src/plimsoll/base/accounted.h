#pragma once

// Which part of the predicted process memory an allocation outside of the arena belongs to.
//
// The prediction (planning/memory_model.h) names a bound for each part. Code that allocates a
// buffer which can reach 64 KiB outside of the arena sets a tag that names the part whose bound
// covers it; the tag covers everything that its thread allocates until it ends, calls into
// vendors' libraries included. A tag costs two stores and allocates nothing. It enforces nothing
// by itself: tests put an allocator in between (tests/toys/account_allocations.cpp), which fails on
// a large allocation without a tag, and on a part that passes its predicted bound.
//
//   { MemoryTag tag(MemoryPart::kData); chunk_.resize(bytes); }

#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class MemoryPart : uint8_t {
  kNone,        // nobody's: no allocation of 64 KiB or more may be made here
  kEngine,      // what a backend holds once it is loaded and made
  kKernels,     // code, descriptors and tables of the kernels of a run
  kStructures,  // model, graphs, the plan and its call tables
  kSearch,      // what the search for a plan holds and gives back before the arena is touched
  kData,        // buffers of data sources, dictionaries of words and categories
  kAhead,       // what they read ahead into
  kSpill,       // the spill file's buffers
  kFiles,       // model files, checkpoints and logs that are read or written
  kArena,       // the arena itself: the plan's
};
inline constexpr int kMemoryParts = 10;

// "kernels"
std::string_view to_string(MemoryPart part);

// The part that allocations of this thread belong to now.
MemoryPart current_memory_part() noexcept;

class MemoryTag {
 public:
  explicit MemoryTag(MemoryPart part) noexcept;
  ~MemoryTag();
  MemoryTag(const MemoryTag&) = delete;
  MemoryTag& operator=(const MemoryTag&) = delete;

 private:
  MemoryPart before_;
};

}  // namespace plimsoll

// For an allocator that is put in between from outside: the number of current_memory_part().
extern "C" __attribute__((visibility("default"))) int plimsoll_current_memory_part() noexcept;
