// GIF: numbers of a palette, compressed by LZW; the first picture of an animation.
//
//   "GIF8?a" · width · height · flags · – · – │ palette │ blocks: ! extension, "," picture, ; end
//   picture: left · top · width · height · flags │ palette │ code size │ sub-blocks of up to 255
//
// A picture is decoded as its rows are asked for; one whose rows are interlaced has to be held, a
// byte a pixel. What the picture leaves uncovered is black, as TensorFlow has it. Source: GIF89a
// specification, appendix F.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/format.h"
#include "codec/image/image_decoder.h"
#include "codec/image/luma.h"

namespace plimsoll::codec {
namespace {

constexpr int kMostCodeBits = 12;
constexpr size_t kMostCodes = size_t{1} << kMostCodeBits;
constexpr size_t kBufferBytes = 4096;
constexpr int64_t kFixedBytes = 40 << 10;  // tables and buffers

// Bytes of the file in order.
class GifInput {
 public:
  explicit GifInput(const ByteReader& file) : file_(file) {}

  uint8_t byte() {
    if (at_ == end_) refill();
    return buffer_[at_++];
  }
  uint16_t word() {
    const uint8_t low = byte();
    return static_cast<uint16_t>(low | byte() << 8);
  }
  void skip(int count) {
    for (int i = 0; i < count; ++i) byte();
  }
  void skip_blocks() {
    while (const uint8_t length = byte()) skip(length);
  }

 private:
  void refill() {
    const int64_t left = file_.size() - offset_;
    if (left <= 0) {
      throw Error(ErrorKind::kData,
                  file_.name() + ": expected a whole GIF image, received one that ends too soon.");
    }
    at_ = 0;
    end_ = static_cast<size_t>(std::min<int64_t>(left, std::ssize(buffer_)));
    file_.read_at(offset_, std::as_writable_bytes(std::span(buffer_).first(end_)));
    offset_ += static_cast<int64_t>(end_);
  }

  const ByteReader& file_;
  std::array<uint8_t, kBufferBytes> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;
};

// The numbers that a picture's codes stand for, in order.
class Lzw {
 public:
  void start(int bits) {
    literal_bits_ = bits;
    clear_ = 1 << bits;
    reset();
  }
  // The next number; -1 where the codes are damaged or end.
  int next(GifInput& input) {
    while (stack_size_ == 0) {
      const int code = take_code(input);
      if (code < 0 || code == clear_ + 1) return -1;
      if (code == clear_) {
        reset();
      } else if (!expand(code)) {
        return -1;
      }
    }
    return stack_[--stack_size_];
  }

 private:
  void reset() {
    bits_ = literal_bits_ + 1;
    next_code_ = clear_ + 2;
    last_ = -1;
  }
  int take_code(GifInput& input) {
    while (held_bits_ < bits_) {
      if (block_left_ == 0 && (block_left_ = input.byte()) == 0) return -1;
      --block_left_;
      held_ |= static_cast<uint32_t>(input.byte()) << held_bits_;
      held_bits_ += 8;
    }
    const int code = static_cast<int>(held_ & ((1u << bits_) - 1));
    held_ >>= bits_;
    held_bits_ -= bits_;
    return code;
  }
  // Puts what a code stands for on the stack, its first number on top, and learns a new one.
  bool expand(int code) {
    if (code > next_code_ || (code == next_code_ && last_ < 0)) return false;
    int at = code;
    if (code == next_code_) {  // the last one, and its own first number again
      stack_[stack_size_++] = first_;
      at = last_;
    }
    while (at >= clear_) {
      if (at < clear_ + 2 || stack_size_ + 1 >= std::ssize(stack_)) return false;
      stack_[stack_size_++] = suffix_[static_cast<size_t>(at)];
      at = prefix_[static_cast<size_t>(at)];
    }
    first_ = static_cast<uint8_t>(at);
    stack_[stack_size_++] = first_;
    if (last_ >= 0 && next_code_ < static_cast<int>(kMostCodes)) {
      prefix_[static_cast<size_t>(next_code_)] = static_cast<uint16_t>(last_);
      suffix_[static_cast<size_t>(next_code_)] = first_;
      ++next_code_;
      if (next_code_ == 1 << bits_ && bits_ < kMostCodeBits) ++bits_;
    }
    last_ = code;
    return true;
  }

  int literal_bits_ = 0;
  int clear_ = 0;
  int bits_ = 0;
  int next_code_ = 0;
  int last_ = -1;
  uint8_t first_ = 0;
  uint32_t held_ = 0;
  int held_bits_ = 0;
  int block_left_ = 0;
  std::array<uint16_t, kMostCodes> prefix_{};
  std::array<uint8_t, kMostCodes> suffix_{};
  std::array<uint8_t, kMostCodes + 2> stack_{};
  std::ptrdiff_t stack_size_ = 0;
};

class GifDecoder final : public ImageDecoder {
 public:
  explicit GifDecoder(const ByteReader& file) : file_(file), input_(file) {
    input_.skip(6);
    info_.width = input_.word();
    info_.height = input_.word();
    const uint8_t flags = input_.byte();
    input_.skip(2);
    read_palette(flags);
    find_picture();
    const int64_t held = interlaced_ ? width_ * height_ : width_;
    info_.working_bytes = Bytes(kFixedBytes + 5 * info_.width + held);
  }

  void start(int channels) override {
    channels_ = static_cast<size_t>(channels);
    prepare();
  }
  int start_numbers() override {
    numbers_ = true;
    channels_ = 1;
    prepare();
    return 1;
  }
  const uint8_t* next_row() override {
    std::ranges::fill(pixels_, uint8_t{0});
    const int64_t row = next_++ - top_;
    if (row < 0 || row >= height_) return pixels_.data();
    if (!interlaced_) take_row(indices_.data());
    const uint8_t* indices = indices_.data() + (interlaced_ ? row * width_ : 0);
    uint8_t* out = pixels_.data() + static_cast<size_t>(left_) * channels_;
    for (int64_t x = 0; x < width_; ++x, out += channels_) put_pixel(indices[x], out);
    return pixels_.data();
  }

 private:
  using Colour = std::array<uint8_t, 3>;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kData,
                file_.name() + ": expected a sound GIF image, received " + what + ".");
  }

  void read_palette(uint8_t flags) {
    if ((flags & 0x80) == 0) return;
    colours_ = size_t{2} << (flags & 7);
    for (size_t i = 0; i < colours_; ++i) {
      for (uint8_t& part : palette_[i]) part = input_.byte();
    }
  }

  void find_picture() {
    for (uint8_t kind = input_.byte(); kind != ','; kind = input_.byte()) {
      if (kind != '!') refuse("no picture in it");
      const uint8_t label = input_.byte();
      constexpr uint8_t kControl = 0xF9;
      if (label == kControl && input_.byte() == 4) {
        const bool transparent = (input_.byte() & 1) != 0;
        input_.skip(2);
        const uint8_t number = input_.byte();
        transparent_ = transparent ? number : -1;
      }
      input_.skip_blocks();
    }
    left_ = input_.word();
    top_ = input_.word();
    width_ = input_.word();
    height_ = input_.word();
    const uint8_t flags = input_.byte();
    interlaced_ = (flags & 0x40) != 0;
    read_palette(flags);
    const uint8_t bits = input_.byte();
    const bool inside = width_ > 0 && height_ > 0 && left_ + width_ <= info_.width &&
                        top_ + height_ <= info_.height;
    if (!inside) refuse("a picture that is not inside of its frame");
    if (bits < 1 || bits > 8) refuse(fmt::format("codes of {} bits", bits));
    lzw_.start(bits);
  }

  void prepare() {
    if (!numbers_ && colours_ == 0) refuse("one without a palette");
    pixels_.resize(static_cast<size_t>(info_.width) * channels_);
    indices_.resize(static_cast<size_t>(interlaced_ ? width_ * height_ : width_));
    if (!interlaced_) return;
    static constexpr std::array<std::array<int, 2>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
    for (const auto& [first, step] : kPasses) {
      for (int64_t y = first; y < height_; y += step) take_row(indices_.data() + y * width_);
    }
  }

  void take_row(uint8_t* out) {
    for (int64_t x = 0; x < width_; ++x) {
      const int number = lzw_.next(input_);
      if (number < 0) refuse("one whose codes end too soon or are damaged");
      out[x] = static_cast<uint8_t>(number);
    }
  }

  void put_pixel(uint8_t number, uint8_t* out) const {
    if (numbers_) {
      *out = number;
      return;
    }
    if (number >= colours_) refuse("a colour that is not in its palette");
    const Colour& colour = palette_[number];
    if (channels_ == 1) {
      *out = luma(colour[0], colour[1], colour[2]);
      return;
    }
    std::ranges::copy(colour, out);
    if (channels_ == 4) out[3] = number == transparent_ ? 0 : 255;
  }

  const ByteReader& file_;
  GifInput input_;
  Lzw lzw_;
  std::array<Colour, 256> palette_{};
  size_t colours_ = 0;
  int transparent_ = -1;
  int64_t left_ = 0;
  int64_t top_ = 0;
  int64_t width_ = 0;
  int64_t height_ = 0;
  bool interlaced_ = false;
  bool numbers_ = false;
  size_t channels_ = 3;
  int64_t next_ = 0;
  std::vector<uint8_t> indices_;  // a row, or all of an interlaced picture
  std::vector<uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_gif_decoder(const ByteReader& file) {
  return std::make_unique<GifDecoder>(file);
}

}  // namespace plimsoll::codec
