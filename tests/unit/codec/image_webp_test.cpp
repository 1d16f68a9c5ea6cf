#include <gtest/gtest.h>
#include <webp/decode.h>

#include <algorithm>
#include <random>
#include <utility>

#include "codec/image/image.h"
#include "codec/image/luma.h"
#include "unit/base/expect_error.h"
#include "unit/codec/decode_text.h"
#include "unit/codec/image_files.h"
#include "unit/codec/memory_files.h"
#include "unit/codec/webp_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

void expect_refused(const std::string& text, const std::string& message, int channels = 3) {
  expect_error(ErrorKind::kData, "i: expected " + message, [&] { decode(text, channels); });
}

std::vector<uint8_t> noise(int width, int height) {
  std::mt19937 random(3);
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * width * height));
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  return pixels;
}

std::vector<uint8_t> pixels_of_libwebp(const std::string& text) {
  int width = 0;
  int height = 0;
  uint8_t* rgb =
      WebPDecodeRGB(reinterpret_cast<const uint8_t*>(text.data()), text.size(), &width, &height);
  std::vector<uint8_t> pixels(rgb, rgb + 3 * width * height);
  WebPFree(rgb);
  return pixels;
}

TEST(ImageWebp, PixelsAreThoseOfLibwebp) {
  for (const auto& [width, height] :
       {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 3}, std::pair{3, 2},
        std::pair{33, 1}, std::pair{1, 34}, std::pair{16, 17}, std::pair{40, 31},
        std::pair{301, 210}}) {
    for (const auto& pixels : {ramp(width, height, 7), noise(width, height)}) {
      const std::string text = webp_text(width, height, pixels);
      const std::vector<uint8_t> colours = pixels_of_libwebp(text);
      EXPECT_EQ(decode(text), colours) << width << " × " << height;
      std::vector<uint8_t> grey;
      std::vector<uint8_t> opaque;
      for (size_t i = 0; i < colours.size(); i += 3) {
        grey.push_back(luma(colours[i], colours[i + 1], colours[i + 2]));
        for (size_t c = 0; c < 3; ++c) opaque.push_back(colours[i + c]);
        opaque.push_back(255);
      }
      EXPECT_EQ(decode(text, 1), grey);
      EXPECT_EQ(decode(text, 4), opaque);
    }
  }
}

TEST(ImageWebp, HeadersTellWhatDecodingTakes) {
  const std::string text = webp_text(301, 210, noise(301, 210));
  const ImageInfo info = read_image_info(MemoryReader(bytes_of(text), "i"));
  EXPECT_EQ(info.width, 301);
  EXPECT_EQ(info.height, 210);
  const auto stored = static_cast<int64_t>(webp_frame(text).size());
  EXPECT_GE(info.working_bytes, Bytes(301 * 210 + 2 * 151 * 105 + stored));
  EXPECT_LE(info.working_bytes, Bytes(301 * 210 + 2 * 151 * 105 + stored) + 160_KiB);
}

TEST(ImageWebp, ChunksAroundThePictureAreSkipped) {
  const std::string plain = webp_text(23, 17, ramp(23, 17));
  const std::string frame = webp_chunk("VP8 ", webp_frame(plain));
  const std::vector<uint8_t> pixels = decode(plain);
  const std::string extended = webp_extended(23, 17, 0x2C);
  EXPECT_EQ(decode(webp_file(extended + webp_chunk("ICCP", "odd") + webp_chunk("what", "") + frame +
                             webp_chunk("EXIF", "even") + webp_chunk("XMP ", "text."))),
            pixels);
  EXPECT_EQ(decode(webp_file(extended + frame) + "more after the end"), pixels);
  expect_refused(webp_file(webp_chunk("ICCP", "odd") + frame), "a sound WebP image, received one");
}

TEST(ImageWebp, TransparencyIsDroppedWhereNobodyAsks) {
  const std::string plain = webp_text(23, 17, ramp(23, 17));
  const std::string alpha = "\1" + std::string(23 * 17, '\x7F');
  const std::string text = webp_file(webp_extended(23, 17, 0x10) + webp_chunk("ALPH", alpha) +
                                     webp_chunk("VP8 ", webp_frame(plain)));
  EXPECT_EQ(decode(text), decode(plain));
  EXPECT_EQ(decode(text, 1), decode(plain, 1));
  expect_refused(text,
                 "an opaque WebP image where the model takes 4 channels, received one with "
                 "transparency. Convert it to PNG.",
                 4);
}

TEST(ImageWebp, LosslessOnesAndAnimationsAreRefused) {
  const std::string plain = webp_text(23, 17, ramp(23, 17));
  const std::string frame = webp_chunk("VP8 ", webp_frame(plain));
  const std::string lossless = "a lossy WebP image, received a lossless one (VP8L)";
  expect_refused(lossless_webp_text(23, 17, ramp(23, 17)), lossless);
  expect_refused(webp_file(webp_extended(23, 17) + webp_chunk("VP8L", "x")), lossless);
  // Bytes that libwebp would take for another container or bitstream.
  for (const std::string start : {"RIFF", "/", "VP8X", "VP8L"}) {
    const std::string inner = start + webp_frame(plain).substr(start.size());
    expect_refused(webp_file(webp_chunk("VP8 ", inner)), "a sound WebP image, received one");
  }
  const std::string animation = "a WebP image of one picture, received an animation";
  const std::string frames = webp_chunk("ANMF", std::string(16, '\0') + frame);
  expect_refused(webp_file(webp_extended(23, 17, 2) + webp_chunk("ANIM", "123456") + frames),
                 animation);
  expect_refused(webp_file(webp_extended(23, 17) + webp_chunk("ANIM", "123456") + frame),
                 animation);
  expect_refused(webp_file(webp_extended(23, 17) + frames), animation);
}

TEST(ImageWebp, CutFilesAreRefused) {
  const std::string plain = webp_text(40, 30, noise(40, 30));
  const std::string frame = webp_frame(plain);
  const std::string text = webp_file(webp_extended(40, 30) + webp_chunk("ICCP", "profile") +
                                     webp_chunk("VP8 ", frame) + webp_chunk("EXIF", "even"));
  for (size_t size = 0; size < text.size(); ++size) expect_refused(text.substr(0, size), "");
  expect_refused(text.substr(0, text.size() - 1), "a whole WebP image, received one that ends");
  // Where all sizes say what is there, the picture itself is too short.
  for (size_t size = 0; size + 8 < frame.size(); ++size) {
    expect_refused(webp_file(webp_chunk("VP8 ", frame.substr(0, size))), "a");
  }
  expect_refused(webp_file(webp_extended(40, 30) + webp_chunk("EXIF", "even")),
                 "a sound WebP image, received one without a picture");
}

TEST(ImageWebp, WrongSizesAreRefused) {
  const std::string plain = webp_text(40, 30, ramp(40, 30));
  const auto with = [](std::string text, size_t at, const std::string& bytes) {
    return text.replace(at, bytes.size(), bytes);
  };
  for (const size_t size : {size_t{0}, size_t{11}, plain.size() - 7, size_t{0xFFFFFFFF}}) {
    expect_refused(with(plain, 4, webp_size(size)), "a");   // of all
    expect_refused(with(plain, 16, webp_size(size)), "a");  // of the picture
  }
  const std::string sound = "a sound WebP image, received one";
  const std::string frame = webp_chunk("VP8 ", webp_frame(plain));
  expect_refused(webp_file(webp_extended(41, 30) + frame), sound + " of 40 × 30 pixels in");
  expect_refused(webp_file(webp_chunk("VP8X", "123456789") + frame), sound);
  for (const size_t at : {26u, 28u}) {  // width, height
    expect_refused(with(plain, at, std::string(2, '\0')), sound);
  }
  expect_refused(with(plain, 20, std::string(1, static_cast<char>(plain[20] | 1))), sound);
  std::string many = webp_extended(40, 30);
  for (int i = 0; i < 5000; ++i) many += webp_chunk("what", "");
  expect_refused(webp_file(many + frame), sound);
  // What would be much to decode is told before anything is.
  const std::string large = with(plain, 26, "\xFF\x3F\xFF\x3F");
  EXPECT_GT(read_image_info(MemoryReader(bytes_of(large), "i")).working_bytes, 384_MiB);
  EXPECT_FALSE(looks_like_image(MemoryReader(bytes_of("RIFF\0\0\0\0WAVEfmt "), "i")));
  EXPECT_TRUE(looks_like_image(MemoryReader(bytes_of(plain), "i")));
}

TEST(ImageWebp, MasksAreGreyAndLossy) {
  const std::string text = webp_text(16, 8, std::vector<uint8_t>(3 * 16 * 8, 200));
  const MemoryReader file(bytes_of(text), "mask");
  EXPECT_EQ(lossy_form(file), "WebP");
  const std::string lossless = lossless_webp_text(16, 8, ramp(16, 8));
  EXPECT_EQ(lossy_form(MemoryReader(bytes_of(lossless), "mask")), "");
  size_t count = 0;
  decode_mask(
      file, [](const ImageInfo&) {},
      [&](int64_t, std::span<const uint8_t> row) {
        for (const uint8_t number : row) EXPECT_NEAR(number, 200, 2);
        count += row.size();
      });
  EXPECT_EQ(count, 16u * 8);
}

// Whatever a file holds: an image of the promised size, or kData.
TEST(ImageWebp, DamagedFilesNeverDoHarm) {
  const std::string plain = webp_text(24, 20, ramp(24, 20));
  const std::string text = webp_file(webp_extended(24, 20) + webp_chunk("ALPH", "12345") +
                                     webp_chunk("VP8 ", webp_frame(plain)));
  int refused = 0;
  int decoded = 0;
  for (const std::string& good : {plain, text}) {
    for_each_mutation(bytes_of(good), 2000, 5, [&](std::vector<std::byte> bytes) {
      try {
        const ImageInfo info = read_image_info(MemoryReader(bytes, "i"));
        if (info.width * info.height > 1 << 20) return;
        EXPECT_EQ(decode(text_of(bytes)).size(), static_cast<size_t>(info.width * info.height * 3));
        ++decoded;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        ++refused;
      }
    });
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(decoded, 500);
}

}  // namespace
}  // namespace plimsoll::codec
