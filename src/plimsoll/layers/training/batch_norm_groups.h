#pragma once

// Over which samples BatchNormalization takes its statistics in training.
//
// The whole batch's (0), or those of groups of N consecutive samples, the last group being the
// rest: what Keras computes when it accumulates gradients over N samples at a time. The groups are
// part of the model, not of the plan: another N gives another result, another limit does not. N
// from the batch on is the whole batch; evaluation and prediction use moving statistics and have no
// groups.

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/program.h"

namespace plimsoll::layers {

// "full" is 0, "slice:8" is 8. Throws kConfig with a did-you-mean.
int64_t parse_batch_norm(std::string_view text);
std::string batch_norm_text(int64_t group);
// The groups that programs were built with: 0 where all statistics are the whole batch's.
int64_t batch_norm_group_of(const graph::ProgramSet& programs);

}  // namespace plimsoll::layers
