#pragma once

// The largest batch that a limit has room for.

#include <cstdint>
#include <optional>
#include <string>

#include "layers/training/programs.h"
#include "planning/request.h"

namespace plimsoll::planning {

// With the kernel set's own blocks or smaller ones. `known` fits; 0: none is known to. `state`:
// what is known by then, for who waits. None: not even 1 fits, or there is no end to it
// (batch_search.h).
std::optional<int64_t> largest_batch(const layers::Model& model,
                                     const layers::CompileOptions& compile, PlanRequest request,
                                     int block_set, int64_t known, const std::string& state);

}  // namespace plimsoll::planning
