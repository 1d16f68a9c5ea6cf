// BMP, as Windows' programs write it: rows of pixels as they are, mostly from the lowest up.
//
//   "BM" · size · – · offset of the pixels │ header of 12, 40 or more bytes │ palette │ rows, each
//   of a multiple of four bytes: 1, 4 or 8 bits of a palette, 16 or 32 bits by masks, or B G R (A)
//
// A row is read where it lies: no image is held. Run lengths are refused. Source: the structures
// BITMAPCOREHEADER to BITMAPV5HEADER of the Windows API.

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "base/format.h"
#include "codec/byte_cursor.h"
#include "codec/image/image_decoder.h"
#include "codec/image/luma.h"

namespace plimsoll::codec {
namespace {

constexpr int64_t kMaxSide = 65500;  // JPEG's own bound
constexpr int64_t kFileHeaderBytes = 14;
constexpr uint64_t kCoreBytes = 12;
constexpr uint64_t kInfoBytes = 40;
constexpr uint64_t kMostHeaderBytes = 124;
constexpr size_t kMostColours = 256;

enum Compression : uint64_t { kNone = 0, kBitFields = 3, kAlphaBitFields = 6 };

// Bits of a pixel that are one of its colours.
struct Mask {
  uint32_t bits = 0;
  uint8_t of(uint32_t pixel) const {
    if (bits == 0) return 255;
    const int shift = std::countr_zero(bits);
    const uint64_t most = bits >> shift;
    return static_cast<uint8_t>(((pixel & bits) >> shift) * 255ull / most);
  }
};

class BmpDecoder final : public ImageDecoder {
 public:
  explicit BmpDecoder(const ByteReader& file)
      : file_(file), fail_([this](const std::string& what) { refuse(what); }) {
    read_header();
    row_bytes_ = (info_.width * bits_ + 31) / 32 * 4;
    const bool inside =
        pixels_at_ <= file_.size() &&
        row_bytes_ <= (file_.size() - pixels_at_) / std::max<int64_t>(info_.height, 1);
    if (!inside) {
      throw Error(ErrorKind::kData,
                  file_.name() + ": expected a whole BMP image, received one that ends too soon.");
    }
    info_.working_bytes = Bytes(row_bytes_ + 4 * info_.width + (8 << 10));
  }

  void start(int channels) override {
    channels_ = static_cast<size_t>(channels);
    prepare();
  }
  int start_numbers() override {
    numbers_ = bits_ <= 8;
    channels_ = numbers_ ? 1 : 3;
    prepare();
    return static_cast<int>(channels_);
  }
  const uint8_t* next_row() override {
    const int64_t row = upwards_ ? info_.height - 1 - next_ : next_;
    ++next_;
    file_.read_at(pixels_at_ + row * row_bytes_, stored_);
    uint8_t* out = pixels_.data();
    for (int64_t x = 0; x < info_.width; ++x, out += channels_) put_pixel(x, out);
    return pixels_.data();
  }

 private:
  using Colour = std::array<uint8_t, 4>;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kData,
                file_.name() + ": expected a BMP image that can be read, received " + what + ".");
  }
  std::vector<std::byte> bytes_at(int64_t offset, uint64_t count) const {
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    if (offset + static_cast<int64_t>(count) > file_.size()) refuse("one that ends in its header");
    file_.read_at(offset, bytes);
    return bytes;
  }

  void read_header() {
    const std::vector<std::byte> start = bytes_at(0, kFileHeaderBytes + 4);
    ByteCursor first(start, fail_);
    first.skip(10);
    pixels_at_ = static_cast<int64_t>(first.take(4));
    const uint64_t header_bytes = first.take(4);
    const bool core = header_bytes == kCoreBytes;
    if (!core && (header_bytes < kInfoBytes || header_bytes > kMostHeaderBytes)) {
      refuse(fmt::format("a header of {} bytes", header_bytes));
    }
    const std::vector<std::byte> header = bytes_at(kFileHeaderBytes, header_bytes);
    ByteCursor cursor(header, fail_);
    cursor.skip(4);
    info_.width = core ? static_cast<int64_t>(cursor.take(2)) : take_signed(cursor);
    info_.height = core ? static_cast<int64_t>(cursor.take(2)) : take_signed(cursor);
    cursor.skip(2);
    bits_ = static_cast<int64_t>(cursor.take(2));
    const uint64_t compression = core ? uint64_t{kNone} : cursor.take(4);
    uint64_t colours = 0;
    if (!core) {
      cursor.skip(12);
      colours = cursor.take(4);
      cursor.skip(4);
    }
    upwards_ = info_.height > 0;
    info_.height = std::abs(info_.height);
    check(compression);
    int64_t after = kFileHeaderBytes + static_cast<int64_t>(header_bytes);
    if (compression != kNone) read_masks(compression, after);
    if (compression == kNone && bits_ == 16) masks_ = {{{0x7C00}, {0x3E0}, {0x1F}, {0}}};
    if (bits_ <= 8) read_palette(after, colours, core ? 3 : 4);
  }
  static int64_t take_signed(ByteCursor& cursor) {
    return static_cast<int32_t>(static_cast<uint32_t>(cursor.take(4)));
  }

  void check(uint64_t compression) const {
    static constexpr std::array<int64_t, 6> kBits = {1, 4, 8, 16, 24, 32};
    const bool masks = compression == kBitFields || compression == kAlphaBitFields;
    if (compression != kNone && !masks) {
      refuse(fmt::format("one that is compressed (method {}). Save it without, or as PNG",
                         compression));
    }
    const bool known = std::ranges::find(kBits, bits_) != kBits.end();
    if (!known || (masks && bits_ != 16 && bits_ != 32)) {
      refuse(fmt::format("pixels of {} bits", bits_));
    }
    const auto sound = [](int64_t side) { return side > 0 && side <= kMaxSide; };
    if (!sound(info_.width) || !sound(info_.height)) {
      refuse(fmt::format("one of {} × {} pixels", info_.width, info_.height));
    }
  }

  // They lie where a longer header has them, too.
  void read_masks(uint64_t compression, int64_t after) {
    const bool alpha = compression == kAlphaBitFields || after >= kFileHeaderBytes + 56;
    const std::vector<std::byte> bytes =
        bytes_at(kFileHeaderBytes + static_cast<int64_t>(kInfoBytes), alpha ? 16 : 12);
    ByteCursor cursor(bytes, fail_);
    for (size_t i = 0; i < (alpha ? 4u : 3u); ++i) {
      masks_[i].bits = static_cast<uint32_t>(cursor.take(4));
    }
  }

  void read_palette(int64_t after, uint64_t colours, uint64_t entry_bytes) {
    const uint64_t most = uint64_t{1} << bits_;
    if (colours == 0 || colours > most) colours = most;
    // Fewer may be there than are announced.
    const int64_t room = std::max<int64_t>(std::min(pixels_at_, file_.size()) - after, 0);
    colours = std::min(colours, static_cast<uint64_t>(room) / entry_bytes);
    const std::vector<std::byte> bytes = bytes_at(after, colours * entry_bytes);
    ByteCursor cursor(bytes, fail_);
    for (uint64_t i = 0; i < colours; ++i) {
      const auto blue = static_cast<uint8_t>(cursor.take(1));
      const auto green = static_cast<uint8_t>(cursor.take(1));
      const auto red = static_cast<uint8_t>(cursor.take(1));
      cursor.skip(entry_bytes - 3);
      palette_[i] = {red, green, blue, 255};
    }
    colours_ = colours;
  }

  void prepare() {
    stored_.resize(static_cast<size_t>(row_bytes_));
    pixels_.resize(static_cast<size_t>(info_.width) * channels_);
  }

  uint32_t stored_at(int64_t at, int count) const {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
      value |= std::to_integer<uint32_t>(stored_[static_cast<size_t>(at + i)]) << (8 * i);
    }
    return value;
  }

  Colour colour_at(int64_t x) const {
    if (bits_ == 24 || (bits_ == 32 && masks_[0].bits == 0)) {
      const uint32_t pixel = stored_at(x * bits_ / 8, static_cast<int>(bits_ / 8));
      const auto alpha = static_cast<uint8_t>(bits_ == 32 ? pixel >> 24 : 255);
      return {static_cast<uint8_t>(pixel >> 16), static_cast<uint8_t>(pixel >> 8),
              static_cast<uint8_t>(pixel), alpha};
    }
    const uint32_t pixel = stored_at(x * bits_ / 8, static_cast<int>(bits_ / 8));
    return {masks_[0].of(pixel), masks_[1].of(pixel), masks_[2].of(pixel), masks_[3].of(pixel)};
  }

  void put_pixel(int64_t x, uint8_t* out) const {
    if (bits_ > 8) return put_colour(colour_at(x), out);
    const int64_t in_byte = x * bits_ % 8;
    const auto number = static_cast<size_t>(stored_at(x * bits_ / 8, 1) >> (8 - bits_ - in_byte) &
                                            ((1u << bits_) - 1));
    if (numbers_) {
      *out = static_cast<uint8_t>(number);
      return;
    }
    if (number >= colours_) refuse("a colour that is not in its palette");
    put_colour(palette_[number], out);
  }
  void put_colour(const Colour& colour, uint8_t* out) const {
    if (channels_ == 1) {
      *out = luma(colour[0], colour[1], colour[2]);
    } else {
      std::copy_n(colour.begin(), channels_, out);
    }
  }

  const ByteReader& file_;
  ByteCursor::Fail fail_;
  int64_t pixels_at_ = 0;
  int64_t bits_ = 0;
  int64_t row_bytes_ = 0;
  bool upwards_ = false;
  bool numbers_ = false;
  std::array<Mask, 4> masks_{};  // red, green, blue, alpha
  std::array<Colour, kMostColours> palette_{};
  uint64_t colours_ = 0;
  size_t channels_ = 3;
  int64_t next_ = 0;
  std::vector<std::byte> stored_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_bmp_decoder(const ByteReader& file) {
  return std::make_unique<BmpDecoder>(file);
}

}  // namespace plimsoll::codec
