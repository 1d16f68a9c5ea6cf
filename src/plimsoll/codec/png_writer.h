#pragma once

// Writing a picture as PNG: 8 bits a channel, red, green, blue; no filters, one deflated stream.
//
// For small pictures that a program draws, whole in memory. Source: W3C, Portable Network Graphics
// (PNG) Specification (Second Edition), sections 5, 10 and 11.

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
