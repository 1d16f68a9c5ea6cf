#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

// After <cstdio>, whose types it takes for granted.
#include <jpeglib.h>

#include <jerror.h>

#include "base/format.h"
#include "codec/image/image_decoder.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kReadBytes = 16 << 10;
// Measured upper bounds on libjpeg-turbo 2.1: tables and state, and lines of one row of blocks.
constexpr int64_t kFixedBytes = 160 << 10;
constexpr int64_t kBytesPerColumn = 128;
constexpr int64_t kCoefficientBytes = 2;

class JpegDecoder final : public ImageDecoder {
 public:
  explicit JpegDecoder(const ByteReader& file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr jpeg) { of(jpeg).fail(); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) { of(jpeg).warn(level); };
    errors_.output_message = [](j_common_ptr) {};
    jpeg_.client_data = this;
    if (!create() || !read_header()) {
      jpeg_destroy_decompress(&jpeg_);  // no destructor runs for what was not made
      refuse();
    }
    fill_info();
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&jpeg_); }

  void start(int channels) override {
    channels_ = channels;
    if (!begin()) refuse();
    const auto components = static_cast<size_t>(jpeg_.output_components);
    line_.resize(jpeg_.output_width * components);
    row_.resize(jpeg_.output_width * static_cast<size_t>(channels));
  }

  int start_numbers() override {
    start(1);
    return 1;
  }

  const uint8_t* next_row() override {
    if (!read_line()) refuse();
    if (jpeg_.output_components == channels_) return line_.data();
    convert();
    return row_.data();
  }

 private:
  static JpegDecoder& of(j_common_ptr jpeg) {
    return *static_cast<JpegDecoder*>(jpeg->client_data);
  }
  static JpegDecoder& of(j_decompress_ptr jpeg) { return of(reinterpret_cast<j_common_ptr>(jpeg)); }

  [[noreturn]] void fail() { std::longjmp(back_, 1); }
  // Warnings tell that data were guessed; only bytes between segments are harmless.
  void warn(int level) {
    if (level >= 0) return;
    const int code = errors_.msg_code;
    if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) fail();
  }
  [[noreturn]] void refuse() {
    if (read_failure_) std::rethrow_exception(read_failure_);
    std::array<char, JMSG_LENGTH_MAX> text{};
    if (ended_) {
      throw Error(ErrorKind::kData, file_.name() +
                                        ": expected a whole JPEG image, received one that ends "
                                        "too soon.");
    }
    errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), text.data());
    throw Error(ErrorKind::kData, file_.name() +
                                      ": expected a sound JPEG image, received a damaged one (" +
                                      text.data() + ").");
  }

  // Each of these makes one call that may jump; none holds an object with a destructor.
  bool create() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr jpeg) { return of(jpeg).fill(); };
    source_.skip_input_data = [](j_decompress_ptr jpeg, long count) { of(jpeg).skip(count); };
    jpeg_.src = &source_;
    return true;
  }
  bool read_header() {
    if (setjmp(back_) != 0) return false;
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool begin() {
    if (setjmp(back_) != 0) return false;
    const bool four = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    jpeg_.out_color_space = four ? JCS_CMYK : channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_.dct_method = JDCT_IFAST;
    jpeg_.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&jpeg_);
    return true;
  }
  bool read_line() {
    if (setjmp(back_) != 0) return false;
    JSAMPROW line = line_.data();
    jpeg_read_scanlines(&jpeg_, &line, 1);
    return true;
  }

  boolean fill() {
    size_t count = 0;
    try {
      count = static_cast<size_t>(
          std::min<int64_t>(static_cast<int64_t>(buffer_.size()), file_.size() - offset_));
      file_.read_at(offset_, std::as_writable_bytes(std::span(buffer_)).first(count));
    } catch (const Error&) {
      read_failure_ = std::current_exception();
    }
    ended_ = count == 0;
    if (ended_ || read_failure_) fail();
    offset_ += static_cast<int64_t>(count);
    source_.next_input_byte = buffer_.data();
    source_.bytes_in_buffer = count;
    return TRUE;
  }
  void skip(long count) {
    if (count <= 0) return;
    const auto buffered = static_cast<long>(source_.bytes_in_buffer);
    const long now = std::min(count, buffered);
    source_.next_input_byte += now;
    source_.bytes_in_buffer -= static_cast<size_t>(now);
    offset_ = std::min(offset_ + (count - now), file_.size());
  }

  void fill_info() {
    info_.width = jpeg_.image_width;
    info_.height = jpeg_.image_height;
    int64_t bytes = kFixedBytes + info_.width * kBytesPerColumn;
    if (jpeg_has_multiple_scans(&jpeg_)) {
      for (int i = 0; i < jpeg_.num_components; ++i) {
        const jpeg_component_info& part = jpeg_.comp_info[i];
        bytes += (static_cast<int64_t>(part.width_in_blocks) + part.h_samp_factor) *
                 (static_cast<int64_t>(part.height_in_blocks) + part.v_samp_factor) * DCTSIZE2 *
                 kCoefficientBytes;
      }
    }
    info_.working_bytes = Bytes(bytes);
  }

  // From three components with alpha added, or from cyan, magenta, yellow and black, which Adobe's
  // programs store inverted.
  void convert() {
    const bool four = jpeg_.output_components == 4;
    const size_t channels = static_cast<size_t>(channels_);
    for (size_t x = 0; x < jpeg_.output_width; ++x) {
      std::array<unsigned, 3> colour{};
      if (four) {
        const uint8_t* ink = line_.data() + 4 * x;
        const unsigned black = jpeg_.saw_Adobe_marker ? ink[3] : 255u - ink[3];
        for (size_t c = 0; c < 3; ++c) {
          const unsigned part = jpeg_.saw_Adobe_marker ? ink[c] : 255u - ink[c];
          colour[c] = black * part / 255;
        }
      } else {
        for (size_t c = 0; c < 3; ++c) colour[c] = line_[3 * x + c];
      }
      uint8_t* out = row_.data() + channels * x;
      if (channels == 1) {
        // The weights of JPEG's own luminance (ITU-R BT.601).
        out[0] = static_cast<uint8_t>((299 * colour[0] + 587 * colour[1] + 114 * colour[2] + 500) /
                                      1000);
        continue;
      }
      for (size_t c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(colour[c]);
      if (channels == 4) out[3] = 255;
    }
  }

  const ByteReader& file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  std::jmp_buf back_{};
  std::exception_ptr read_failure_;
  bool ended_ = false;
  int64_t offset_ = 0;
  int channels_ = 3;
  std::array<JOCTET, kReadBytes> buffer_;
  std::vector<uint8_t> line_;
  std::vector<uint8_t> row_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_jpeg_decoder(const ByteReader& file) {
  return std::make_unique<JpegDecoder>(file);
}

std::string jpeg_library() {
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  return fmt::format("libjpeg-turbo {}", LIBJPEG_TURBO_VERSION_NUMBER);
#else
  return fmt::format("libjpeg {}", JPEG_LIB_VERSION);
#endif
}

}  // namespace plimsoll::codec
