#pragma once

// Small WebP images as files, made by libwebp itself and put together chunk by chunk.

#include <webp/encode.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::codec {

inline std::string webp_size(size_t value) {
  std::string text;
  for (int shift : {0, 8, 16, 24}) text += static_cast<char>(value >> shift);
  return text;
}

inline std::string webp_chunk(std::string_view kind, std::string_view content) {
  std::string text = std::string(kind) + webp_size(content.size()) + std::string(content);
  if (content.size() % 2 != 0) text += '\0';
  return text;
}

inline std::string webp_file(const std::string& chunks) {
  return "RIFF" + webp_size(chunks.size() + 4) + "WEBP" + chunks;
}

inline std::string webp_text(int width, int height, const std::vector<uint8_t>& pixels,
                             float quality = 90) {
  uint8_t* out = nullptr;
  const size_t size = WebPEncodeRGB(pixels.data(), width, height, 3 * width, quality, &out);
  std::string text(reinterpret_cast<const char*>(out), size);
  WebPFree(out);
  return text;
}

inline std::string lossless_webp_text(int width, int height, const std::vector<uint8_t>& pixels) {
  uint8_t* out = nullptr;
  const size_t size = WebPEncodeLosslessRGB(pixels.data(), width, height, 3 * width, &out);
  std::string text(reinterpret_cast<const char*>(out), size);
  WebPFree(out);
  return text;
}

// The picture of a file of webp_text, which has that chunk alone.
inline std::string webp_frame(const std::string& text) {
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= size_t{static_cast<uint8_t>(text[16 + i])} << (8 * i);
  return text.substr(20, size);
}

// The chunk that an extended file begins with.
inline std::string webp_extended(int width, int height, int flags = 0) {
  return webp_chunk("VP8X", webp_size(static_cast<size_t>(flags)) +
                                webp_size(static_cast<size_t>(width - 1)).substr(0, 3) +
                                webp_size(static_cast<size_t>(height - 1)).substr(0, 3));
}

}  // namespace plimsoll::codec
