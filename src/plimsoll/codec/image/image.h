#pragma once

// JPEG, PNG, BMP, GIF and lossy WebP images, decoded row by row.
//
// A row is handed out as soon as it is decoded, so that an image never has to be in memory whole;
// what the decoder itself must hold (all coefficients of a progressive JPEG, all pixels of an
// interlaced PNG, the numbers of a GIF, the brightness and colours of a WebP) is told beforehand.
// Numbers are those of TensorFlow's decode_image: the fast integer inverse transform and smooth
// upsampling for JPEG, 16 bits cut to 8 and transparency dropped for PNG; of a GIF the first
// picture of an animation. A file that ends too soon or is not decodable is kData: nothing is
// guessed. Only extra bytes that every decoder skips are skipped. libjpeg-turbo, libpng and libwebp
// are used here alone.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "codec/byte_reader.h"

namespace plimsoll::codec {

struct ImageInfo {
  int64_t width = 0;
  int64_t height = 0;
  Bytes working_bytes;  // the most that decoding holds, beside the row handed out
  friend bool operator==(const ImageInfo&, const ImageInfo&) = default;
};

// True when the file starts as one of them.
bool looks_like_image(const ByteReader& file);

// From the header alone. Throws kData; images of more than 65,500 pixels a side or 2^28 in all, and
// those that would hold more than 512 MiB, are refused.
ImageInfo read_image_info(const ByteReader& file);

using ImageStart = std::function<void(const ImageInfo& info)>;
// `row` holds width × channels bytes.
using ImageRowConsumer = std::function<void(int64_t y, std::span<const uint8_t> row)>;

// Decodes to 1 (grey), 3 (red, green, blue) or 4 (with alpha; opaque where there is none) channels,
// rows in order after one call of `start`. Throws kData naming the file.
void decode_image(const ByteReader& file, int channels, const ImageStart& start,
                  const ImageRowConsumer& consumer);

// Decodes a mask: one byte a pixel, as it is stored. Numbers of a palette stay numbers, fewer than
// eight bits stay small, and colours are refused unless they are grey, as are 16 bits. A JPEG's
// or a WebP's numbers are those that its compression has left. Throws kData naming the file.
void decode_mask(const ByteReader& file, const ImageStart& start, const ImageRowConsumer& consumer);

// The name of the form where compression changes the numbers, JPEG or WebP; else nothing.
std::string_view lossy_form(const ByteReader& file);

// Names and versions of the libraries that decode: another version may give other pixels.
std::string image_libraries();

}  // namespace plimsoll::codec
