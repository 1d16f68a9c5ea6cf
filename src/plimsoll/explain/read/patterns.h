#pragma once

// The sieve in front of the parsers: which lines of a log are worth a look.
//
// All patterns are searched at once by an Aho–Corasick automaton, one table look-up per byte,
// without regard to case. A line break leaves the automaton where it is, so that a pattern broken
// by a hard wrap is found in the line where it ends. Blocks are scanned at several places at once,
// since each look-up waits for the one before it. A hit says only that a parser should look: the
// sieve may let too much through, and decides nothing.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

// Lines are kept and counted by class; earlier classes matter more.
enum class LineClass : uint8_t {
  kFailure,  // names a refused request
  kTorch,
  kKernel,  // kernel, scheduler, cluster
  kLimits,  // descriptors, disk, shared memory, message sizes
  kKilled,
  kDriver,      // driver and library lines
  kPool,        // figures of an allocator's dump
  kXla,         // buffer assignment, peak buffers, TPU tables
  kNode,        // which operator
  kTensorList,  // list of live tensors
  kWarning,     // survivable by its own words
  kHost,        // MemoryError and the like
  kContext,     // banners and settings
  kTrace,       // Python frames
  kPhase,       // validation, checkpoint
  kError,       // names an exception
  kChunk,       // counted, not kept
  kSeries,      // memory figures printed by the user's program; counted
  kProgress,    // steps and epochs; the last ones are kept
  kDisguise,  // no statement: what may cut a pattern in two, so that the clean line is scanned too
  kCount,
};

using ClassMask = uint32_t;
constexpr ClassMask mask_of(LineClass line_class) {
  return ClassMask{1} << static_cast<unsigned>(line_class);
}

struct Pattern {
  std::string_view text;  // lower case
  LineClass line_class;
};

// The patterns of all families: those of pattern_table.cpp and the phrases of forms.h.
std::span<const Pattern> all_patterns();

// The tables, made once; nothing in them changes afterwards.
class PatternAutomaton {
 public:
  explicit PatternAutomaton(std::span<const Pattern> patterns);

  // The automaton of all_patterns().
  static const PatternAutomaton& shared();

 private:
  friend class PatternScanner;
  static constexpr unsigned kClassBits = 7;
  static constexpr size_t kByteClasses = size_t{1} << kClassBits;

  unsigned step(unsigned state, char byte) const {
    return next_[(state << kClassBits) | byte_class_[static_cast<uint8_t>(byte)]];
  }

  uint8_t byte_class_[256] = {};
  std::vector<uint16_t> next_;     // state * kByteClasses + byte class, states renumbered
  std::vector<ClassMask> output_;  // by state - first_output_
  uint16_t first_output_ = 0;      // states from here on end a pattern
  size_t longest_ = 0;             // bytes of a pattern
};

// Where a pattern ends.
struct PatternHit {
  uint32_t at = 0;
  ClassMask classes = 0;
  bool operator==(const PatternHit&) const = default;
};

// A position in the automaton. The automaton must outlive it.
class PatternScanner {
 public:
  explicit PatternScanner(const PatternAutomaton& automaton) : automaton_(&automaton) {}

  // Classes hit in `text`, which continues what was scanned before.
  ClassMask scan(std::string_view text);

  // The same for a block of at most 4 GiB, by place and in its order; valid until the next one.
  // Nothing is said to end at a line's end.
  std::span<const PatternHit> scan_block(std::string_view block);

 private:
  static constexpr size_t kLanes = 4;

  unsigned state_before(std::string_view block, size_t at) const;
  void note(unsigned state, std::string_view block, size_t at, size_t lane);

  const PatternAutomaton* automaton_;
  unsigned state_ = 0;
  std::array<std::vector<PatternHit>, kLanes> hits_;
};

}  // namespace plimsoll::explain
