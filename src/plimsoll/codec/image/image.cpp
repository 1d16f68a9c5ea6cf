#include "codec/image/image.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/format.h"
#include "codec/image/image_decoder.h"

namespace plimsoll::codec {
namespace {

constexpr Bytes kMostWorking = 512_MiB;
// A file of a hundred bytes may say that it has 65,535 rows as wide: minutes for one sample.
constexpr int64_t kMostPixels = int64_t{1} << 28;

enum class Form { kNone, kJpeg, kPng, kBmp, kGif, kWebp };

Form form_of(const ByteReader& file) {
  std::array<std::byte, 12> start{};
  const int64_t count = std::min<int64_t>(file.size(), static_cast<int64_t>(start.size()));
  file.read_at(0, std::span(start).first(static_cast<size_t>(count)));
  static constexpr std::array<unsigned, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const auto holds = [&](std::ptrdiff_t at, std::span<const unsigned> magic) {
    return std::equal(magic.begin(), magic.end(), start.begin() + at,
                      [](unsigned a, std::byte b) { return a == std::to_integer<unsigned>(b); });
  };
  const auto starts = [&](std::span<const unsigned> magic) { return holds(0, magic); };
  static constexpr std::array<unsigned, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  static constexpr std::array<unsigned, 2> kBmp = {'B', 'M'};
  static constexpr std::array<unsigned, 4> kGif = {'G', 'I', 'F', '8'};
  static constexpr std::array<unsigned, 4> kRiff = {'R', 'I', 'F', 'F'};
  if (starts(kPng)) return Form::kPng;
  if (starts(kJpeg)) return Form::kJpeg;
  // Two letters alone are too few: a field that is always zero follows the size.
  if (starts(kBmp) && start[6] == std::byte{0} && start[7] == std::byte{0}) return Form::kBmp;
  if (starts(kGif)) return Form::kGif;
  // Sounds and films are in the same container.
  static constexpr std::array<unsigned, 4> kWebp = {'W', 'E', 'B', 'P'};
  return starts(kRiff) && holds(8, kWebp) ? Form::kWebp : Form::kNone;
}

std::unique_ptr<ImageDecoder> open_decoder(const ByteReader& file) {
  switch (form_of(file)) {
    case Form::kJpeg:
      return make_jpeg_decoder(file);
    case Form::kPng:
      return make_png_decoder(file);
    case Form::kBmp:
      return make_bmp_decoder(file);
    case Form::kGif:
      return make_gif_decoder(file);
    case Form::kWebp:
      return make_webp_decoder(file);
    case Form::kNone:
      break;
  }
  throw Error(ErrorKind::kData, file.name() +
                                    ": expected a JPEG, PNG, BMP, GIF or WebP image, "
                                    "received something else.");
}

void check_size(const ByteReader& file, const ImageInfo& info) {
  if (info.width > kMostPixels / std::max<int64_t>(info.height, 1)) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected an image of at most {} pixels, received {} × {}. Save it "
                            "smaller.",
                            file.name(), kMostPixels, info.width, info.height));
  }
  if (info.working_bytes <= kMostWorking) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected an image that can be decoded within {}, received one of {} "
                          "× {} pixels that takes more. Save it smaller, or without interlacing.",
                          file.name(), to_string(kMostWorking), info.width, info.height));
}

[[noreturn]] void refuse_colour(const ByteReader& file, size_t x, int64_t y, const uint8_t* pixel) {
  std::string colour;
  for (int c = 0; c < 3; ++c) colour += fmt::format("{}{}", c == 0 ? "" : ", ", pixel[c]);
  throw Error(
      ErrorKind::kData,
      fmt::format(
          "{}: expected a mask of one number a pixel, received the colour ({}) at column {}, row "
          "{}. Save the numbers of the classes as a grey PNG or as one with a palette.",
          file.name(), colour, x, y));
}

}  // namespace

bool looks_like_image(const ByteReader& file) { return form_of(file) != Form::kNone; }

ImageInfo read_image_info(const ByteReader& file) {
  const ImageInfo info = open_decoder(file)->info();
  check_size(file, info);
  return info;
}

std::string image_libraries() {
  return jpeg_library() + ", " + png_library() + ", " + webp_library();
}

std::string_view lossy_form(const ByteReader& file) {
  const Form form = form_of(file);
  if (form == Form::kJpeg) return "JPEG";
  if (form != Form::kWebp) return "";
  try {
    make_webp_decoder(file);
    return "WebP";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return "";  // lossless or damaged: decoding says which
  }
}

void decode_mask(const ByteReader& file, const ImageStart& start,
                 const ImageRowConsumer& consumer) {
  const std::unique_ptr<ImageDecoder> decoder = open_decoder(file);
  const ImageInfo& info = decoder->info();
  check_size(file, info);
  const auto channels = static_cast<size_t>(decoder->start_numbers());
  start(info);
  const auto width = static_cast<size_t>(info.width);
  std::vector<uint8_t> numbers(channels == 1 ? 0 : width);
  for (int64_t y = 0; y < info.height; ++y) {
    const uint8_t* row = decoder->next_row();
    for (size_t x = 0; x < numbers.size(); ++x) {
      const uint8_t* pixel = row + 3 * x;
      if (pixel[0] != pixel[1] || pixel[0] != pixel[2]) refuse_colour(file, x, y, pixel);
      numbers[x] = pixel[0];
    }
    consumer(y, std::span(numbers.empty() ? row : numbers.data(), width));
  }
}

void decode_image(const ByteReader& file, int channels, const ImageStart& start,
                  const ImageRowConsumer& consumer) {
  const std::unique_ptr<ImageDecoder> decoder = open_decoder(file);
  const ImageInfo& info = decoder->info();
  check_size(file, info);
  decoder->start(channels);
  start(info);
  const size_t row_bytes = static_cast<size_t>(info.width) * static_cast<size_t>(channels);
  for (int64_t y = 0; y < info.height; ++y) {
    consumer(y, std::span(decoder->next_row(), row_bytes));
  }
}

}  // namespace plimsoll::codec
