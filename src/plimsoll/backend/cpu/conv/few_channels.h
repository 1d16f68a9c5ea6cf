#pragma once

// conv_pool.h's work where a filter has few numbers, as in a first layer: the forward pass, and the
// kernel gradient. The lanes of a vector are filters.
//
// Forward, the four positions of a 2 × 2 window have their sums in registers until the winner is
// known, so the convolution's result is nowhere in memory. Backward, every number of the kernel has
// its sum in a register, and each position of a window adds to the lanes whose winner it is; the
// other lanes keep their sums untouched, whatever the source holds. (Lists would be longer to make
// than to use there.)

#include <cstdint>

#include "backend/cpu/conv/conv_pool.h"

namespace plimsoll::backend::cpu {

// One pooled row's share of the kernel gradient: `band` holds the source rows under it, `band_row`
// numbers apart, and dy and winners its windows; filters [begin, end). sums: [number of the
// kernel][filter].
using FewChannelsLoop = void (*)(const PatchShape&, const float* band, int64_t band_row,
                                 const float* dy, const uint8_t* winners, int64_t windows,
                                 int64_t begin, int64_t end, float* sums, float* bias_sums);

// Null: the shape has too many numbers, filters that fill no vector, or no variant.
FewChannelsLoop few_channels_loop(const PatchShape& shape, Isa isa);

// Whether the forward pass of such a node is done here. The kernel is then plain.
bool pools_few_channels(const ops::Conv2dPoolGeometry& geometry, Isa isa);

}  // namespace plimsoll::backend::cpu
