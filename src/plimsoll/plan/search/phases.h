#pragma once

// Cuts a program into phases: what may run in one loop over the batch, and what stands between.
//
// A total over the batch is complete only when its loop has ended, so a node that needs one stands
// in a later phase. A plain network is one phase; each BatchNormalization cuts once on the way
// forward and once on the way back. Slots alternate: even ones hold nodes outside of loops, odd
// ones the nodes of a phase.
//
//   slot 0   pack, constants          slot 1   x → conv1 → moments of c1
//   slot 2   moving averages          slot 3   c1 → normalize → … → loss → … → sums of d(c1)
//   slot 4   updates that are ready   slot 5   …
//
// Nodes stand as early as they can, so that gradients are complete early, but for two kinds: what
// depends on inputs and constants alone is computed where it is needed first, and so is what would
// cross to a later phase with more bytes than what it is made from.
//
// `deferred_updates`: what belongs to the optimizer comes after everything else instead, so that
// values that were made from weights can be made again up to the end. A weight's gradient then is
// summed in the last phase where it is larger than one sample of what it is made from, and lives
// from its own phase to the end elsewhere. (Measured against the rule by all samples, under which
// nearly all stay: MobileNetV2 fits in 175 MiB instead of 196, a U-Net in 378 instead of 393.)
//
// Phases over the rows of images are cut at windows too: a convolution needs rows above and below
// its own, so what it reads is made in an earlier phase, and all nodes of a phase have images of
// one height.

#include <vector>

#include "plan/facts/dependencies.h"

namespace plimsoll::plan {

// The nodes of each slot in a valid order; slot 2k+1 holds phase k. At least one slot.
std::vector<std::vector<graph::NodeId>> find_slots(const ProgramFacts& facts,
                                                   const Dependencies& dependencies,
                                                   bool deferred_updates = false);

}  // namespace plimsoll::plan
