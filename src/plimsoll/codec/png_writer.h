#pragma once

// Writing a picture as PNG by libpng: 8 bits a channel, red, green, blue.
//
// For small pictures that a program draws, whole in memory.

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::codec {

struct RgbPicture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;  // 3 · width · height, from the left to the right and downwards
};

// The bytes of a .png file. Throws kData where width or height are not above 0.
std::string write_png(const RgbPicture& picture);

}  // namespace plimsoll::codec
