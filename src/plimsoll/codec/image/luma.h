#pragma once

// Grey of a colour (ITU-R BT.601), in the fixed point that libpng computes it in, which is cut off.
// Internal to codec.

#include <cstdint>

namespace plimsoll::codec {

inline uint8_t luma(uint8_t red, uint8_t green, uint8_t blue) {
  if (red == green && red == blue) return red;
  constexpr uint32_t kRed = 9797;
  constexpr uint32_t kGreen = 19234;
  constexpr uint32_t kBlue = 32768 - kRed - kGreen;
  return static_cast<uint8_t>((kRed * red + kGreen * green + kBlue * blue) >> 15);
}

}  // namespace plimsoll::codec
