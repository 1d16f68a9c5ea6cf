#pragma once

// The sieve in front of the parsers: which lines of a log are worth a look.
//
// All needles are searched at once by an Aho–Corasick automaton, one table look-up per byte,
// without regard to case. A line break leaves the automaton where it is, so that a needle broken by
// a hard wrap is found in the line where it ends. A hit says only that a parser should look: the
// sieve may let too much through, and decides nothing.

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
  kDisguise,    // no statement: what may cut a needle in two, so that the clean line is scanned too
  kCount,
};

using ClassMask = uint32_t;
constexpr ClassMask mask_of(LineClass line_class) {
  return ClassMask{1} << static_cast<unsigned>(line_class);
}

struct Needle {
  std::string_view text;  // lower case
  LineClass line_class;
};

// The needles of all families: those of needle_table.cpp and the phrases of forms.h.
std::span<const Needle> all_needles();

// The tables, made once; nothing in them changes afterwards.
class NeedleAutomaton {
 public:
  explicit NeedleAutomaton(std::span<const Needle> needles);

  // Of all_needles().
  static const NeedleAutomaton& shared();

 private:
  friend class NeedleScanner;
  static constexpr unsigned kClassBits = 7;
  static constexpr size_t kByteClasses = size_t{1} << kClassBits;

  uint8_t byte_class_[256] = {};
  std::vector<uint16_t> next_;     // state * kByteClasses + byte class, states renumbered
  std::vector<ClassMask> output_;  // by state - first_output_
  uint16_t first_output_ = 0;      // states from here on end a needle
};

// A position in the automaton. The automaton must outlive it.
class NeedleScanner {
 public:
  explicit NeedleScanner(const NeedleAutomaton& automaton) : automaton_(&automaton) {}

  // Classes hit in `text`, which continues what was scanned before.
  ClassMask scan(std::string_view text);

  // Whether what was scanned last may be the beginning of a needle.
  bool is_within() const { return state_ != 0; }

 private:
  const NeedleAutomaton* automaton_;
  uint16_t state_ = 0;
};

}  // namespace plimsoll::explain
