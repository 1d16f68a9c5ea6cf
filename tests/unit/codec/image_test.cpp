#include "codec/image/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <tuple>

#include "codec/png_writer.h"
#include "unit/base/expect_error.h"
#include "unit/codec/decode_text.h"
#include "unit/codec/image_files.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

TEST(Image, PngIsExact) {
  const std::vector<uint8_t> pixels = ramp(13, 7);
  const std::string text = png_text(13, 7, pixels);
  EXPECT_EQ(decode(text, 3), pixels);
  const std::vector<uint8_t> with_alpha = decode(text, 4);
  ASSERT_EQ(with_alpha.size(), 13u * 7 * 4);
  EXPECT_EQ(with_alpha[4 * 13 + 1], pixels[3 * 13 + 1]);
  EXPECT_EQ(with_alpha[4 * 13 + 3], 255);
  EXPECT_EQ(decode(text, 1).size(), 13u * 7);
  const ImageInfo info = read_image_info(MemoryReader(bytes_of(text), "i"));
  EXPECT_EQ(info.width, 13);
  EXPECT_EQ(info.height, 7);
}

TEST(Image, BmpAndGifAreExact) {
  const std::vector<uint8_t> pixels = ramp(13, 7);
  EXPECT_EQ(decode(bmp_text(13, 7, pixels), 3), pixels);
  EXPECT_EQ(decode(bmp_text(13, 7, pixels), 1), decode(png_text(13, 7, pixels), 1));
  std::vector<uint8_t> numbers;
  std::vector<uint8_t> grey;
  for (int i = 0; i < 40 * 30; ++i) {
    numbers.push_back(static_cast<uint8_t>(i * i));
    grey.insert(grey.end(), 3, numbers.back());
  }
  EXPECT_EQ(decode(gif_text(40, 30, numbers), 3), grey);
  EXPECT_EQ(decode(gif_text(40, 30, numbers), 1), numbers);
}

TEST(Image, MasksAreOneNumberAPixel) {
  const auto numbers_of = [](const std::string& text) {
    std::vector<uint8_t> numbers;
    decode_mask(
        MemoryReader(bytes_of(text), "mask"), [](const ImageInfo&) {},
        [&](int64_t, std::span<const uint8_t> row) {
          numbers.insert(numbers.end(), row.begin(), row.end());
        });
    return numbers;
  };
  const std::vector<uint8_t> grey = {7, 7, 7, 0, 0, 0, 255, 255, 255, 2, 2, 2};
  EXPECT_EQ(numbers_of(png_text(2, 2, grey)), (std::vector<uint8_t>{7, 0, 255, 2}));
  expect_error(ErrorKind::kData, "received the colour (0, 0, 9) at column 1, row 1", [&] {
    numbers_of(png_text(2, 2, {7, 7, 7, 0, 0, 0, 1, 1, 1, 0, 0, 9}));
  });
  EXPECT_EQ(numbers_of(gif_text(2, 2, {7, 0, 255, 2})), (std::vector<uint8_t>{7, 0, 255, 2}));
  EXPECT_EQ(numbers_of(bmp_text(2, 2, grey)), (std::vector<uint8_t>{7, 0, 255, 2}));
  EXPECT_EQ(lossy_form(MemoryReader(bytes_of(jpeg_text(9, 8, ramp(9, 8))), "j")), "JPEG");
  EXPECT_EQ(numbers_of(jpeg_text(9, 8, ramp(9, 8))).size(), 72u);
}

TEST(Image, WrittenPngIsExact) {
  for (const auto& [width, height, rows] : {std::tuple{13, 7, 1}, std::tuple{13, 7, 3},
                                            std::tuple{1, 1, 4}, std::tuple{640, 300, 18}}) {
    SCOPED_TRACE(testing::Message() << width << " × " << height << ", " << rows << " at once");
    const std::vector<uint8_t> pixels = ramp(width, height);
    const auto row_bytes = 3 * static_cast<size_t>(width);
    const auto draw = [&](int top, std::span<uint8_t> strip) {
      EXPECT_TRUE(std::ranges::all_of(strip, [](uint8_t value) { return value == 255; }));
      std::copy_n(pixels.data() + static_cast<size_t>(top) * row_bytes, strip.size(),
                  strip.begin());
    };
    EXPECT_EQ(decode(write_png({width, height, rows, draw}), 3), pixels);
  }
  expect_error(ErrorKind::kData, "expected sizes above 0, received 2 × 0, 1 rows at once", [] {
    write_png({2, 0, 1, {}});
  });
}

TEST(Image, JpegIsClose) {
  const std::vector<uint8_t> pixels = ramp(40, 30);
  for (const bool progressive : {false, true}) {
    const std::string text = jpeg_text(40, 30, pixels, progressive);
    const std::vector<uint8_t> decoded = decode(text, 3);
    ASSERT_EQ(decoded.size(), pixels.size());
    int largest = 0;
    for (size_t i = 0; i < pixels.size(); ++i) {
      largest = std::max(largest, std::abs(int{decoded[i]} - int{pixels[i]}));
    }
    EXPECT_LT(largest, 30) << progressive;
    EXPECT_EQ(decode(text, 1).size(), 40u * 30);
    EXPECT_EQ(decode(text, 4)[3], 255);
  }
  const Bytes plain =
      read_image_info(MemoryReader(bytes_of(jpeg_text(40, 30, pixels)), "i")).working_bytes;
  const Bytes whole =
      read_image_info(MemoryReader(bytes_of(jpeg_text(40, 30, pixels, true)), "i")).working_bytes;
  EXPECT_GE(whole, plain + Bytes(40 * 30 * 2 * 3 / 2));  // all coefficients
}

TEST(Image, CutFilesAreRefused) {
  const std::vector<uint8_t> pixels = ramp(40, 30);
  for (const std::string& text :
       {jpeg_text(40, 30, pixels), jpeg_text(40, 30, pixels, true), png_text(40, 30, pixels),
        bmp_text(40, 30, pixels), gif_text(40, 30, std::vector<uint8_t>(1200, 7))}) {
    for (size_t size = 0; size + 16 < text.size(); size += 7) {
      expect_error(ErrorKind::kData, "i: expected", [&] { decode(text.substr(0, size), 3); });
    }
  }
}

// Whatever a file holds: an image of the promised size, or kData.
TEST(Image, DamagedFilesNeverDoHarm) {
  const std::vector<uint8_t> pixels = ramp(24, 20);
  std::mt19937 random(5);
  int refused = 0;
  for (const std::string& good :
       {jpeg_text(24, 20, pixels), jpeg_text(24, 20, pixels, true), png_text(24, 20, pixels),
        bmp_text(24, 20, pixels), gif_text(24, 20, std::vector<uint8_t>(480, 200))}) {
    for (int round = 0; round < 1500; ++round) {
      std::string text = good;
      for (int i = 0; i <= round % 3; ++i) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      try {
        const MemoryReader file(bytes_of(text), "i");
        const ImageInfo info = read_image_info(file);
        if (info.width * info.height > 1 << 20) continue;
        EXPECT_EQ(decode(text, 3).size(), static_cast<size_t>(info.width * info.height * 3));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Image, AnythingElse) {
  EXPECT_FALSE(looks_like_image(MemoryReader(bytes_of("GIT89a"), "i")));
  EXPECT_FALSE(looks_like_image(MemoryReader(bytes_of(""), "i")));
  expect_error(ErrorKind::kData, "i: expected a JPEG, PNG, BMP, GIF or WebP image",
               [] { decode("hello", 3); });
}

TEST(Image, AFewBytesAreNotMinutesOfRows) {
  std::string text = gif_text(4, 4, std::vector<uint8_t>(16, 7));
  for (const size_t at : {6, 7, 8, 9}) text[at] = '\xFE';  // width and height of the whole picture
  expect_error(ErrorKind::kData, "at most 268435456 pixels, received 65278 × 65278",
               [&] { decode(text, 3); });
}

}  // namespace
}  // namespace plimsoll::codec
