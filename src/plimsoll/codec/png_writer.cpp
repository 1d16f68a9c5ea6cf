#include "codec/png_writer.h"

#include <zlib.h>

#include <span>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "codec/inflate.h"

namespace plimsoll::codec {
namespace {

void put_big_endian(std::string& text, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>((value >> shift) & 0xFF);
}

void put_chunk(std::string& file, std::string_view type, std::string_view content) {
  put_big_endian(file, static_cast<uint32_t>(content.size()));
  std::string checked(type);
  checked += content;
  file += checked;
  put_big_endian(file, update_crc32(0, std::as_bytes(std::span(checked))));
}

std::string deflated(const std::string& content) {
  uLongf bytes = compressBound(static_cast<uLong>(content.size()));
  std::string result(bytes, '\0');
  const int status =
      compress(reinterpret_cast<Bytef*>(result.data()), &bytes,
               reinterpret_cast<const Bytef*>(content.data()), static_cast<uLong>(content.size()));
  PLIMSOLL_CHECK(status == Z_OK, "zlib does not deflate into its own bound");
  result.resize(bytes);
  return result;
}

}  // namespace

std::string write_png(const RgbPicture& picture) {
  const auto width = static_cast<size_t>(picture.width);
  const auto height = static_cast<size_t>(picture.height);
  if (picture.width < 1 || picture.height < 1 || picture.pixels.size() != 3 * width * height) {
    throw Error(
        ErrorKind::kData,
        fmt::format("picture: expected 3 bytes for each pixel of {} × {}, received {} bytes.",
                    picture.width, picture.height, picture.pixels.size()));
  }
  std::string lines;
  for (size_t y = 0; y < height; ++y) {
    lines += '\0';  // no filter
    lines.append(reinterpret_cast<const char*>(picture.pixels.data()) + 3 * width * y, 3 * width);
  }
  std::string header;
  put_big_endian(header, static_cast<uint32_t>(picture.width));
  put_big_endian(header, static_cast<uint32_t>(picture.height));
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, colours, not interlaced
  std::string file = "\x89PNG\r\n\x1a\n";
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT", deflated(lines));
  put_chunk(file, "IEND", "");
  return file;
}

}  // namespace plimsoll::codec
