#include <png.h>

#include <csetjmp>
#include <exception>
#include <string>
#include <vector>

#include "codec/image/image_decoder.h"

namespace plimsoll::codec {
namespace {

// Measured upper bounds on libpng 1.6: inflate's window and state, and three rows.
constexpr int64_t kFixedBytes = 128 << 10;
constexpr int64_t kBytesPerColumn = 32;
constexpr png_uint_32 kMaxSide = 65500;  // JPEG's own bound
constexpr png_alloc_size_t kMaxChunkBytes = 4 << 20;

class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(const ByteReader& file) : file_(file) {
    if (!create() || !read_header()) {
      png_destroy_read_struct(&png_, &png_info_, nullptr);  // no destructor runs
      refuse();
    }
    info_.width = png_get_image_width(png_, png_info_);
    info_.height = png_get_image_height(png_, png_info_);
    interlaced_ = png_get_interlace_type(png_, png_info_) != PNG_INTERLACE_NONE;
    int64_t bytes = kFixedBytes + info_.width * kBytesPerColumn;
    if (interlaced_) bytes += info_.width * info_.height * 4;
    info_.working_bytes = Bytes(bytes);
  }
  ~PngDecoder() override { png_destroy_read_struct(&png_, &png_info_, nullptr); }

  void start(int channels) override {
    channels_ = static_cast<size_t>(channels);
    prepare(begin());
  }
  int start_numbers() override {
    const int type = png_get_color_type(png_, png_info_);
    if (png_get_bit_depth(png_, png_info_) == 16) {
      throw Error(ErrorKind::kData, file_.name() +
                                        ": expected a mask of 8 bits a pixel at most, received one "
                                        "of 16. Save it with 8.");
    }
    const bool colour = type != PNG_COLOR_TYPE_PALETTE && (type & PNG_COLOR_MASK_COLOR) != 0;
    channels_ = colour ? 3 : 1;
    prepare(begin_numbers());
    return colour ? 3 : 1;
  }
  const uint8_t* next_row() override {
    if (interlaced_) return rows_[next_++];
    if (!read_row()) refuse();
    return pixels_.data();
  }

 private:
  void prepare(bool begun) {
    if (!begun) refuse();
    const size_t row_bytes = static_cast<size_t>(info_.width) * channels_;
    if (png_get_rowbytes(png_, png_info_) != row_bytes) {
      message_ = "rows of unexpected length";
      refuse();
    }
    pixels_.resize(row_bytes * static_cast<size_t>(interlaced_ ? info_.height : 1));
    if (interlaced_) {
      for (int64_t y = 0; y < info_.height; ++y) {
        rows_.push_back(pixels_.data() + row_bytes * static_cast<size_t>(y));
      }
      if (!read_all()) refuse();
    }
  }

  [[noreturn]] void refuse() const {
    if (read_failure_) std::rethrow_exception(read_failure_);
    if (ended_) {
      throw Error(ErrorKind::kData, file_.name() +
                                        ": expected a whole PNG image, received one that ends too "
                                        "soon.");
    }
    throw Error(
        ErrorKind::kData,
        file_.name() + ": expected a sound PNG image, received a damaged one (" + message_ + ").");
  }

  static void on_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    self.message_ = text;
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep out, size_t count) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    self.ended_ = static_cast<int64_t>(count) > self.file_.size() - self.offset_;
    if (!self.ended_) {
      try {
        self.file_.read_at(self.offset_, std::as_writable_bytes(std::span(out, count)));
      } catch (const Error&) {
        self.read_failure_ = std::current_exception();
      }
    }
    if (self.ended_ || self.read_failure_) png_error(png, "end of file");
    self.offset_ += static_cast<int64_t>(count);
  }

  // Each of these makes calls that may jump; none holds an object with a destructor.
  bool create() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error,
                                  [](png_structp, png_const_charp) {});
    if (png_ != nullptr) png_info_ = png_create_info_struct(png_);
    return png_info_ != nullptr;
  }
  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, kMaxSide, kMaxSide);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    // Profiles and texts may be megabytes and say nothing of pixels: they are skipped unread.
    static constexpr png_byte kSkipped[] = "eXIf\0iCCP\0iTXt\0sPLT\0tEXt\0zTXt";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kSkipped, sizeof kSkipped / 5);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, png_info_);
    return true;
  }
  bool begin() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int type = png_get_color_type(png_, png_info_);
    const bool transparent = png_get_valid(png_, png_info_, PNG_INFO_tRNS) != 0;
    png_set_strip_16(png_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (transparent) png_set_tRNS_to_alpha(png_);
    const bool alpha = transparent || (type & PNG_COLOR_MASK_ALPHA) != 0;
    if (channels_ == 4 && !alpha) png_set_add_alpha(png_, 255, PNG_FILLER_AFTER);
    if (channels_ != 4 && alpha) png_set_strip_alpha(png_);
    const bool colour = (type & PNG_COLOR_MASK_COLOR) != 0;
    if (channels_ == 1 && colour) {
      png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);  // ITU-R BT.601, as JPEG
    }
    if (channels_ != 1 && !colour) png_set_gray_to_rgb(png_);
    if (interlaced_) png_set_interlace_handling(png_);
    png_read_update_info(png_, png_info_);
    return true;
  }
  bool begin_numbers() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_packing(png_);  // a byte for each number of fewer bits
    if ((png_get_color_type(png_, png_info_) & PNG_COLOR_MASK_ALPHA) != 0) {
      png_set_strip_alpha(png_);
    }
    if (interlaced_) png_set_interlace_handling(png_);
    png_read_update_info(png_, png_info_);
    return true;
  }
  bool read_all() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows_.data());
    return true;
  }
  bool read_row() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_row(png_, pixels_.data(), nullptr);
    return true;
  }

  const ByteReader& file_;
  png_structp png_ = nullptr;
  png_infop png_info_ = nullptr;
  std::exception_ptr read_failure_;
  std::string message_;
  bool ended_ = false;
  bool interlaced_ = false;
  int64_t offset_ = 0;
  size_t channels_ = 3;
  size_t next_ = 0;
  std::vector<uint8_t> pixels_;
  std::vector<png_bytep> rows_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_png_decoder(const ByteReader& file) {
  return std::make_unique<PngDecoder>(file);
}

std::string png_library() { return "libpng " PNG_LIBPNG_VER_STRING; }

}  // namespace plimsoll::codec
