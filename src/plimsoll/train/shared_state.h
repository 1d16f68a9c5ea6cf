#pragma once

// The state of a session whose ranks hold parts of it (ops/fuse/shards.h), as one.
//
// The first rank reads it as it writes a checkpoint or a model; where a piece is another rank's, it
// asks for it, and the others answer until it has done. Nothing but the piece that is read is held.

#include <functional>
#include <memory>
#include <vector>

#include "base/ranks.h"
#include "base/tensor_io.h"
#include "ops/fuse/shards.h"

namespace plimsoll::train {

// What a rank holds of a tensor.
struct HeldPart {
  int64_t first = 0;  // byte of the tensor
  int64_t bytes = 0;  // of it; what the variable has beyond is filled up with 0
};
HeldPart held_part(const ops::ShardedState& state, int rank, int ranks);

struct StateHolder {
  std::function<std::unique_ptr<TensorSource>()> held;  // what this rank has of each tensor
  const std::vector<ops::ShardedState>& sharded;
  Ranks* ranks = nullptr;  // null: nobody else
};

// Has `use` read the whole state where that is wanted: where nothing is in parts, here; otherwise
// every rank calls this at the same place, and it is done where the first one wants it, by that
// one. What `use` throws comes out, after the others were told. Where a rank cannot read what it
// holds, `use` gets kIo that names the rank and the cause, and the others go on. Throws kBackend
// where a rank is gone, or asks for what there is not.
void with_whole_state(const StateHolder& holder, bool wanted,
                      const std::function<void(TensorSource&)>& use);

}  // namespace plimsoll::train
