#include "codec/png_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "codec/inflate.h"

namespace plimsoll::codec {
namespace {

constexpr std::string_view kPngMark = "\x89PNG\r\n\x1A\n";
constexpr size_t kChannels = 3;
constexpr uint8_t kUp = 2;  // the filter: bytes less those of the row above

// A stream of zlib's, appended to a text. Its memory is 24 KiB: a window of 4 KiB, few hashes.
class Deflater {
 public:
  explicit Deflater(std::string& output) : output_(output) {
    constexpr int kWindowBits = 12;
    constexpr int kMemoryLevel = 4;
    const int status = deflateInit2(&stream_, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits,
                                    kMemoryLevel, Z_DEFAULT_STRATEGY);
    if (status != Z_OK) {
      throw Error(ErrorKind::kBackend, "zlib: expected an encoder, received none (out of memory).");
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream_); }

  void write(std::span<uint8_t> bytes) { run(bytes, Z_NO_FLUSH); }
  void finish() { run({}, Z_FINISH); }

 private:
  void run(std::span<uint8_t> bytes, int flush) {
    std::array<Bytef, 4096> piece;
    stream_.next_in = bytes.data();
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = piece.data();
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int status = deflate(&stream_, flush);
      PLIMSOLL_CHECK(status != Z_STREAM_ERROR, "zlib's encoder lost its state");
      output_.append(reinterpret_cast<const char*>(piece.data()), piece.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  std::string& output_;
  z_stream stream_ = {};
};

void put_number(uint32_t number, std::string& text) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xFF);
}

// Its length, its name, what is in it, and the checksum of both.
void put_chunk(std::string_view name, std::string_view content, std::string& file) {
  put_number(static_cast<uint32_t>(content.size()), file);
  file += name;
  file += content;
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  put_number(update_crc32(update_crc32(0, bytes(name)), bytes(content)), file);
}

std::string header_of(const DrawnPicture& picture) {
  std::string header;
  put_number(static_cast<uint32_t>(picture.width), header);
  put_number(static_cast<uint32_t>(picture.height), header);
  // 8 bits a channel, red, green and blue; the one way of compressing, of filtering; no interlace.
  for (const char field : {8, 2, 0, 0, 0}) header += field;
  return header;
}

std::string compressed_rows(const DrawnPicture& picture) {
  const size_t row_bytes = kChannels * static_cast<size_t>(picture.width);
  std::vector<uint8_t> strip(row_bytes * static_cast<size_t>(picture.rows_at_once));
  std::vector<uint8_t> above(row_bytes);
  std::vector<uint8_t> filtered(1 + row_bytes, kUp);
  std::string compressed;
  Deflater deflater(compressed);
  for (int top = 0; top < picture.height; top += picture.rows_at_once) {
    const int rows = std::min(picture.rows_at_once, picture.height - top);
    std::ranges::fill(strip, uint8_t{255});
    const std::span<uint8_t> drawn(strip.data(), row_bytes * static_cast<size_t>(rows));
    picture.draw(top, drawn);
    for (size_t begin = 0; begin < drawn.size(); begin += row_bytes) {
      for (size_t i = 0; i < row_bytes; ++i) {
        filtered[1 + i] = static_cast<uint8_t>(drawn[begin + i] - above[i]);
        above[i] = drawn[begin + i];
      }
      deflater.write(filtered);
    }
  }
  deflater.finish();
  return compressed;
}

}  // namespace

std::string write_png(const DrawnPicture& picture) {
  if (picture.width < 1 || picture.height < 1 || picture.rows_at_once < 1) {
    throw Error(ErrorKind::kData,
                fmt::format("picture: expected sizes above 0, received {} × {}, {} rows at once.",
                            picture.width, picture.height, picture.rows_at_once));
  }
  std::string file(kPngMark);
  put_chunk("IHDR", header_of(picture), file);
  put_chunk("IDAT", compressed_rows(picture), file);
  put_chunk("IEND", "", file);
  return file;
}

}  // namespace plimsoll::codec
