#include "codec/png_writer.h"

#include <png.h>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::codec {

std::string write_png(const RgbPicture& picture) {
  const auto width = static_cast<size_t>(picture.width);
  const auto height = static_cast<size_t>(picture.height);
  if (picture.width < 1 || picture.height < 1 || picture.pixels.size() != 3 * width * height) {
    throw Error(
        ErrorKind::kData,
        fmt::format("picture: expected 3 bytes for each pixel of {} × {}, received {} bytes.",
                    picture.width, picture.height, picture.pixels.size()));
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  const int written =
      png_image_write_to_memory(&image, file.data(), &bytes, 0, picture.pixels.data(), 0, nullptr);
  PLIMSOLL_CHECK(written != 0, fmt::format("libpng: {}", image.message));
  file.resize(bytes);
  return file;
}

}  // namespace plimsoll::codec
