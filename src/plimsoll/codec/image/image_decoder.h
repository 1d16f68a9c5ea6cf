#pragma once

// What decode_image asks of a form's decoder. Internal to codec.
//
// libjpeg and libpng report errors by a jump out of their own code; the decoders turn it into kData
// after the call, where no object is left half-made.

#include <cstdint>
#include <memory>
#include <string>

#include "codec/image/image.h"

namespace plimsoll::codec {

class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  // Known once the decoder is made.
  const ImageInfo& info() const { return info_; }
  virtual void start(int channels) = 0;
  // Numbers as they are stored, in place of start: 1 where a pixel is one, 3 where it is a colour.
  virtual int start_numbers() = 0;
  // The next row, valid until the one after it; at most info().height of them.
  virtual const uint8_t* next_row() = 0;

 protected:
  ImageInfo info_;
};

std::unique_ptr<ImageDecoder> make_jpeg_decoder(const ByteReader& file);
std::unique_ptr<ImageDecoder> make_png_decoder(const ByteReader& file);
std::unique_ptr<ImageDecoder> make_bmp_decoder(const ByteReader& file);
std::unique_ptr<ImageDecoder> make_gif_decoder(const ByteReader& file);
std::unique_ptr<ImageDecoder> make_webp_decoder(const ByteReader& file);

// Name and version.
std::string jpeg_library();
std::string png_library();
std::string webp_library();

}  // namespace plimsoll::codec
