// WebP of the lossy kind: one frame of VP8, which libwebp decodes.
//
//   "RIFF" · size · "WEBP" │ chunks: kind of 4 letters · size · content, padded to an even size
//   "VP8 "                                     all of a plain file
//   "VP8X" · … · ("ALPH") · "VP8 " · …         one with a profile, transparency, texts
//   "VP8 ": frame tag of 3 bytes · 9D 01 2A · width · height (14 bits each) · partitions
//
// The container is read here and libwebp sees the frame alone, so that no size that it allocates by
// is one that was not looked at: tables of its lossless bitstream (VP8L, and ALPH compressed by it)
// can take gigabytes for a file of some kilobytes. The picture is held as VP8 has it, a byte and a
// half a pixel; its rows become colours as libwebp makes them ("fancy upsampling"), bit by bit.
// Source: RFC 9649 (container) and RFC 6386 (VP8).

#include <webp/decode.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <vector>

#include "base/format.h"
#include "codec/byte_cursor.h"
#include "codec/image/image_decoder.h"
#include "codec/image/luma.h"

namespace plimsoll::codec {
namespace {

// Measured upper bounds on libwebp 1.2: state and tables, and lines of one row of macroblocks.
constexpr int64_t kFixedBytes = 64 << 10;
constexpr int64_t kBytesPerColumn = 160;
constexpr int64_t kFileHeaderBytes = 12;
constexpr int64_t kChunkHeaderBytes = 8;
constexpr int64_t kExtendedBytes = 10;
constexpr int64_t kFrameHeaderBytes = 10;
constexpr int kMostChunks = 1000;  // before the picture

// A line of a colour's half as many samples, from the two lines of samples about it: 9 parts of the
// nearest sample, 3 of each beside it, 1 of the farthest, in libwebp's order of rounding.
void upsample(const uint8_t* near, const uint8_t* far, size_t width, uint8_t* __restrict out) {
  const size_t last = (width - 1) / 2;
  out[0] = static_cast<uint8_t>((3 * near[0] + far[0] + 2) >> 2);
  if (width % 2 == 0) out[width - 1] = static_cast<uint8_t>((3 * near[last] + far[last] + 2) >> 2);
  ++out;
  for (size_t i = 0; i < last; ++i) {
    const int sum = near[i] + near[i + 1] + far[i] + far[i + 1] + 8;
    const int rising = (sum + 2 * (near[i + 1] + far[i])) >> 3;
    const int falling = (sum + 2 * (near[i] + far[i + 1])) >> 3;
    out[2 * i] = static_cast<uint8_t>((rising + near[i]) >> 1);
    out[2 * i + 1] = static_cast<uint8_t>((falling + near[i + 1]) >> 1);
  }
}

// libwebp's fixed point (ITU-R BT.601, 16 to 235), in 16 bits without a sign.
uint16_t times(uint8_t sample, uint16_t factor) {
  return static_cast<uint16_t>((uint32_t{sample} * 256 * factor) >> 16);
}
uint8_t difference(uint16_t a, uint16_t b) {
  return static_cast<uint8_t>(std::min((std::max(a, b) - b) >> 6, 255));
}

// Makes the colours of a row, each plane for itself.
void put_colours(const uint8_t* y, const uint8_t* u, const uint8_t* v, size_t width,
                 uint8_t* __restrict red, uint8_t* __restrict green, uint8_t* __restrict blue) {
  for (size_t x = 0; x < width; ++x) {
    const uint16_t bright = times(y[x], 19077);
    red[x] = difference(static_cast<uint16_t>(bright + times(v[x], 26149)), 14234);
    green[x] = difference(static_cast<uint16_t>(bright + 8708),
                          static_cast<uint16_t>(times(u[x], 6419) + times(v[x], 13320)));
    blue[x] = difference(static_cast<uint16_t>(bright + times(u[x], 33050)), 17685);
  }
}

class WebpDecoder final : public ImageDecoder {
 public:
  explicit WebpDecoder(const ByteReader& file)
      : file_(file), fail_([this](const std::string& what) { refuse("one with " + what); }) {
    find_frame();
    read_frame_header();
    half_width_ = (info_.width + 1) / 2;
    half_height_ = (info_.height + 1) / 2;
    picture_bytes_ = info_.width * info_.height + 2 * half_width_ * half_height_;
    info_.working_bytes =
        Bytes(kFixedBytes + kBytesPerColumn * info_.width + frame_bytes_ + picture_bytes_);
  }

  void start(int channels) override {
    if (channels == 4 && transparent_) {
      throw Error(ErrorKind::kData,
                  file_.name() +
                      ": expected an opaque WebP image where the model takes 4 channels, received "
                      "one with transparency. Convert it to PNG.");
    }
    channels_ = static_cast<size_t>(channels);
    decode_frame();
    const auto width = static_cast<size_t>(info_.width);
    lines_.resize(width * 5);
    row_.assign(width * channels_, 255);
  }
  int start_numbers() override {
    start(1);
    return 1;
  }
  const uint8_t* next_row() override {
    const int64_t near = next_ / 2;
    const int64_t beside = near + (next_ % 2 == 0 ? -1 : 1);
    const int64_t far = std::clamp<int64_t>(beside, 0, half_height_ - 1);
    const uint8_t* y = picture_.data() + next_++ * info_.width;
    const uint8_t* u = picture_.data() + info_.width * info_.height;
    const uint8_t* v = u + half_width_ * half_height_;
    const auto width = static_cast<size_t>(info_.width);
    uint8_t* lines = lines_.data();
    upsample(u + near * half_width_, u + far * half_width_, width, lines);
    upsample(v + near * half_width_, v + far * half_width_, width, lines + width);
    put_colours(y, lines, lines + width, width, lines + 2 * width, lines + 3 * width,
                lines + 4 * width);
    interleave();
    return row_.data();
  }

 private:
  struct Chunk {
    std::string kind;
    int64_t at = 0;  // of its content
    int64_t bytes = 0;
    int64_t end = 0;  // with the padding
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kData,
                file_.name() + ": expected a sound WebP image, received " + what + ".");
  }
  [[noreturn]] void refuse_end() const {
    throw Error(ErrorKind::kData,
                file_.name() + ": expected a whole WebP image, received one that ends too soon.");
  }
  [[noreturn]] void refuse_animation() const {
    throw Error(ErrorKind::kData, file_.name() +
                                      ": expected a WebP image of one picture, received an "
                                      "animation. Convert it to GIF, or one picture of it to PNG.");
  }

  template <size_t kCount>
  std::array<std::byte, kCount> bytes_at(int64_t offset) const {
    std::array<std::byte, kCount> bytes;
    if (offset + static_cast<int64_t>(kCount) > file_.size()) refuse_end();
    file_.read_at(offset, bytes);
    return bytes;
  }

  Chunk chunk_at(int64_t offset) const {
    if (offset + kChunkHeaderBytes > end_) refuse("one without a picture");
    const auto header = bytes_at<kChunkHeaderBytes>(offset);
    ByteCursor cursor(header, fail_);
    Chunk chunk{cursor.take_text(4), offset + kChunkHeaderBytes};
    chunk.bytes = static_cast<int64_t>(cursor.take(4));
    chunk.end = chunk.at + chunk.bytes + chunk.bytes % 2;
    if (chunk.bytes > end_ - chunk.at) refuse("a part that is larger than the file says to be");
    return chunk;
  }

  void find_frame() {
    const auto header = bytes_at<kFileHeaderBytes>(0);
    ByteCursor cursor(header, fail_);
    cursor.skip(4);
    end_ = kChunkHeaderBytes + static_cast<int64_t>(cursor.take(4));
    if (end_ > file_.size()) refuse_end();
    Chunk chunk = chunk_at(kFileHeaderBytes);
    if (chunk.kind == "VP8X") {
      read_extended(chunk);
      int count = 0;
      do {
        if (++count > kMostChunks) refuse("one with more than a thousand parts before its picture");
        chunk = chunk_at(chunk.end);
        if (chunk.kind == "ANIM" || chunk.kind == "ANMF") refuse_animation();
        transparent_ = transparent_ || chunk.kind == "ALPH";
      } while (chunk.kind != "VP8 " && chunk.kind != "VP8L");
    }
    if (chunk.kind == "VP8L") {
      throw Error(ErrorKind::kData,
                  file_.name() +
                      ": expected a lossy WebP image, received a lossless one (VP8L), for whose "
                      "decoding no bound of memory is known beforehand. Convert it to PNG.");
    }
    if (chunk.kind != "VP8 ") refuse("one that does not begin with a picture");
    frame_at_ = chunk.at;
    frame_bytes_ = chunk.bytes;
  }

  void read_extended(const Chunk& chunk) {
    if (chunk.bytes < kExtendedBytes) refuse("one whose header is too short");
    const auto bytes = bytes_at<kExtendedBytes>(chunk.at);
    ByteCursor cursor(bytes, fail_);
    constexpr uint64_t kAnimation = 2;
    if ((cursor.take(4) & kAnimation) != 0) refuse_animation();
    canvas_width_ = static_cast<int64_t>(cursor.take(3)) + 1;
    canvas_height_ = static_cast<int64_t>(cursor.take(3)) + 1;
  }

  // With the signature, nothing that libwebp would take for another container or bitstream passes.
  void read_frame_header() {
    if (frame_bytes_ < kFrameHeaderBytes) refuse_end();
    const auto bytes = bytes_at<kFrameHeaderBytes>(frame_at_);
    ByteCursor cursor(bytes, fail_);
    const bool between = (cursor.take(3) & 1) != 0;
    constexpr uint64_t kSignature = 0x2A019D;
    if (between || cursor.take(3) != kSignature) refuse("one without a key frame");
    constexpr uint64_t kSide = (1 << 14) - 1;
    info_.width = static_cast<int64_t>(cursor.take(2) & kSide);
    info_.height = static_cast<int64_t>(cursor.take(2) & kSide);
    const std::string size = fmt::format("{} × {}", info_.width, info_.height);
    if (info_.width == 0 || info_.height == 0) refuse("one of " + size + " pixels");
    const bool covers = info_.width == canvas_width_ && info_.height == canvas_height_;
    if (canvas_width_ != 0 && !covers) {
      refuse(fmt::format("one of {} pixels in a frame of {} × {}", size, canvas_width_,
                         canvas_height_));
    }
  }

  void decode_frame() {
    std::vector<uint8_t> frame(static_cast<size_t>(frame_bytes_));
    file_.read_at(frame_at_, std::as_writable_bytes(std::span(frame)));
    picture_.resize(static_cast<size_t>(picture_bytes_));
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) refuse("a libwebp of another version");
    config.output.colorspace = MODE_YUV;
    config.output.is_external_memory = 1;
    WebPYUVABuffer& planes = config.output.u.YUVA;
    const auto half = static_cast<size_t>(half_width_ * half_height_);
    planes.y_size = picture_.size() - 2 * half;
    planes.u_size = planes.v_size = half;
    planes.y = picture_.data();
    planes.u = planes.y + planes.y_size;
    planes.v = planes.u + half;
    planes.y_stride = static_cast<int>(info_.width);
    planes.u_stride = planes.v_stride = static_cast<int>(half_width_);
    const VP8StatusCode status = WebPDecode(frame.data(), frame.size(), &config);
    if (status == VP8_STATUS_OK) return;
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) refuse_end();
    refuse("a damaged one");
  }

  void interleave() {
    const auto width = static_cast<size_t>(info_.width);
    const uint8_t* red = lines_.data() + 2 * width;
    const uint8_t* green = red + width;
    const uint8_t* blue = green + width;
    const size_t channels = channels_;
    uint8_t* out = row_.data();
    for (size_t x = 0; x < width; ++x, out += channels) {
      if (channels == 1) {
        *out = luma(red[x], green[x], blue[x]);
        continue;
      }
      out[0] = red[x];
      out[1] = green[x];
      out[2] = blue[x];
    }
  }

  const ByteReader& file_;
  ByteCursor::Fail fail_;
  int64_t end_ = 0;  // of the container
  int64_t frame_at_ = 0;
  int64_t frame_bytes_ = 0;
  int64_t canvas_width_ = 0;  // 0: the file is not extended
  int64_t canvas_height_ = 0;
  bool transparent_ = false;
  int64_t half_width_ = 0;
  int64_t half_height_ = 0;
  int64_t picture_bytes_ = 0;
  size_t channels_ = 3;
  int64_t next_ = 0;
  std::vector<uint8_t> picture_;  // brightness, then both colours at half of its width and height
  std::vector<uint8_t> lines_;    // of a row, at all of its width: both colours, red, green, blue
  std::vector<uint8_t> row_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_webp_decoder(const ByteReader& file) {
  return std::make_unique<WebpDecoder>(file);
}

std::string webp_library() {
  const auto version = static_cast<unsigned>(WebPGetDecoderVersion());
  return fmt::format("libwebp {}.{}.{}", version >> 16, version >> 8 & 255, version & 255);
}

}  // namespace plimsoll::codec
