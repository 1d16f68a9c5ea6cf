// Any bytes as a JPEG, PNG, BMP, GIF or WebP: decoded row by row within what its header promised.

#include <cstdlib>

#include "base/error.h"
#include "codec/image/image.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  if (size == 0) return 0;
  const int channels = data[0] % 3 == 0 ? 1 : data[0] % 3 == 1 ? 3 : 4;
  const auto bytes = fuzz::bytes_of(data + 1, size - 1);
  const codec::MemoryReader file({bytes.begin(), bytes.end()}, "fuzz");
  constexpr int64_t kMostPixels = 1 << 20;
  try {
    const codec::ImageInfo info = codec::read_image_info(file);
    if (info.width * info.height > kMostPixels) return 0;
    int64_t sum = 0;
    codec::decode_image(
        file, channels,
        [&](const codec::ImageInfo& started) {
          if (!(started == info)) std::abort();
        },
        [&](int64_t y, std::span<const uint8_t> row) {
          if (y >= info.height) std::abort();
          if (static_cast<int64_t>(row.size()) != info.width * channels) std::abort();
          sum += row.front() + row.back();
        });
    codec::decode_mask(
        file, [](const codec::ImageInfo&) {},
        [&](int64_t, std::span<const uint8_t> row) {
          if (static_cast<int64_t>(row.size()) != info.width) std::abort();
          sum += row.front() + row.back();
        });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
