#pragma once

// What a loop does, together with those around it, as one number.
//
// Plans that the search tries have the same few loops again and again. What a call costs and how
// many bytes an instance has follows from the node or value and from the loops around it: axes,
// extents and slices, outermost first. Such a chain gets a number when it is first seen, so that
// answers can be remembered by number. Plans that bind loops to axes of other names have no
// numbers: they are worked out anew. So are the bytes of instances where some loop's axis is not of
// samples: there they follow from the readers' windows, too.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plan/core/plan.h"

namespace plimsoll::plan {

// 0: no loop at all.
using ChainId = int32_t;

class LoopChains {
 public:
  // Per loop of the plan; nullopt where calls bind loops to axes of other names.
  std::optional<std::vector<ChainId>> number(const ProgramPlan& plan);

  // Whether the bytes of an instance follow from its value and its chain, whoever reads it.
  static bool decide_bytes(const ProgramPlan& plan);

  // The number at `scope`.
  static ChainId at(const std::vector<ChainId>& chains, LoopId scope) {
    return scope.valid() ? chains[scope.index()] : 0;
  }

 private:
  // Around, axis, extent, slice.
  std::map<std::tuple<ChainId, LoopAxis, int64_t, int64_t>, ChainId> known_;
};

// Answers by something's index and a chain.
template <typename Answer>
class ChainMemo {
 public:
  std::optional<Answer>& at(size_t index, ChainId chain) {
    if (rows_.size() <= index) rows_.resize(index + 1);
    std::vector<std::optional<Answer>>& row = rows_[index];
    if (row.size() <= static_cast<size_t>(chain)) row.resize(static_cast<size_t>(chain) + 1);
    return row[static_cast<size_t>(chain)];
  }

 private:
  std::vector<std::vector<std::optional<Answer>>> rows_;
};

}  // namespace plimsoll::plan
