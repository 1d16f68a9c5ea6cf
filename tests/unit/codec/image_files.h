#pragma once

// Small images as files, made by the libraries themselves.

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// After <cstdio>, whose types it takes for granted.
#include <jpeglib.h>

namespace plimsoll::codec {

// Pixels (height, width, 3) that are smooth enough for JPEG: a ramp of its own for each channel.
inline std::vector<uint8_t> ramp(int width, int height, int slope = 3) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.push_back(static_cast<uint8_t>(slope * x));
      pixels.push_back(static_cast<uint8_t>(slope * y));
      pixels.push_back(static_cast<uint8_t>(x + y));
    }
  }
  return pixels;
}

inline std::string jpeg_text(int width, int height, std::vector<uint8_t> pixels,
                             bool progressive = false) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = pixels.data() + 3 * width * y;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string text(reinterpret_cast<const char*>(out), size);
  jpeg_destroy_compress(&jpeg);
  std::free(out);
  return text;
}

inline std::string png_chunk(const std::string& kind, const std::string& content) {
  const auto word = [](uint32_t value) {
    std::string text;
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>(value >> shift);
    return text;
  };
  const std::string body = kind + content;
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return word(static_cast<uint32_t>(content.size())) + body + word(static_cast<uint32_t>(sum));
}

// Eight bits of red, green and blue.
inline std::string png_text(int width, int height, const std::vector<uint8_t>& pixels) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(pixels.data()) + 3 * width * y,
                static_cast<size_t>(3 * width));
  }
  std::string packed(compressBound(static_cast<uLong>(rows.size())), '\0');
  auto size = static_cast<uLongf>(packed.size());
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()));
  packed.resize(size);
  std::string head;
  for (const int extent : {width, height}) {
    for (int shift : {24, 16, 8, 0}) head += static_cast<char>(extent >> shift);
  }
  head += std::string("\x08\x02\x00\x00\x00", 5);
  return std::string("\x89PNG\r\n\x1a\n") + png_chunk("IHDR", head) + png_chunk("IDAT", packed) +
         png_chunk("IEND", "");
}

inline std::string little_endian(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// 24 bits a pixel, from the lowest row up.
inline std::string bmp_text(int width, int height, const std::vector<uint8_t>& pixels) {
  std::string rows;
  for (int y = height; y-- > 0;) {
    for (int x = 0; x < width; ++x) {
      for (int c = 2; c >= 0; --c) {
        rows += static_cast<char>(pixels[static_cast<size_t>(3 * (y * width + x) + c)]);
      }
    }
    while (rows.size() % 4 != 0) rows += '\0';
  }
  const auto word = [](size_t value) { return little_endian(static_cast<uint32_t>(value), 4); };
  return "BM" + word(54 + rows.size()) + word(0) + word(54) + word(40) +
         word(static_cast<size_t>(width)) + word(static_cast<size_t>(height)) +
         little_endian(1, 2) + little_endian(24, 2) + std::string(24, '\0') + rows;
}

// Numbers of a grey palette, every one of them a code of nine bits.
inline std::string gif_text(int width, int height, const std::vector<uint8_t>& numbers) {
  const auto word = [](int value) { return little_endian(static_cast<uint32_t>(value), 2); };
  std::string text = "GIF89a" + word(width) + word(height) + std::string("\xF7\0\0", 3);
  for (int i = 0; i < 256; ++i) text += std::string(3, static_cast<char>(i));
  text += "," + word(0) + word(0) + word(width) + word(height) + std::string("\0\x08", 2);
  std::string codes;
  uint32_t held = 0;
  int bits = 0;
  const auto put = [&](uint32_t code) {
    held |= code << bits;
    for (bits += 9; bits >= 8; bits -= 8, held >>= 8) codes += static_cast<char>(held);
  };
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i % 200 == 0) put(256);  // before codes grow longer
    put(numbers[i]);
  }
  put(257);
  codes += static_cast<char>(held);
  for (size_t at = 0; at < codes.size(); at += 255) {
    const std::string block = codes.substr(at, 255);
    text += static_cast<char>(block.size()) + block;
  }
  return text + std::string("\0;", 2);
}

}  // namespace plimsoll::codec
