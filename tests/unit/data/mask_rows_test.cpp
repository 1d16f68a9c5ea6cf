#include "data/image/mask_rows.h"

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/codec/image_files.h"
#include "unit/codec/webp_files.h"

namespace plimsoll::data {
namespace {

using test::expect_error;

class MaskRowsTest : public ::testing::Test {
 protected:
  // One image, and its mask under that name.
  Dataset open(const std::string& name, const std::string& mask, int64_t classes,
               bool skip_damaged = false) {
    folder_.write("images/1.png", codec::png_text(8, 8, codec::ramp(8, 8)));
    folder_.write("masks/" + name, mask);
    DatasetOptions options;
    options.data = folder_ / "images";
    options.labels = folder_ / "masks";
    options.sample_shape = {8, 8, 3};
    options.outputs = {{.name = "out", .sample_shape = {8, 8, classes}, .class_numbers = true}};
    options.skip_damaged = skip_damaged;
    return open_dataset(options);
  }

  test::TemporaryFolder folder_;
};

// White on the left, black on the right.
std::string halves() {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), 3, i % 8 < 4 ? 255 : 0);
  return codec::jpeg_text(8, 8, pixels);
}

TEST_F(MaskRowsTest, LossyMasksTellTwoClassesApartAndNoMore) {
  Dataset dataset = open("1.jpg", halves(), 2);
  std::vector<int32_t> numbers(64);
  dataset.targets[0]->read(0, 1, DType::kInt32, numbers.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(numbers[i], i % 8 < 4 ? 1 : 0) << i;
  for (const bool skip_damaged : {false, true}) {
    expect_error(ErrorKind::kData,
                 "masks/1.jpg: expected a mask whose numbers are kept exactly (the model tells 3 "
                 "classes apart), received a JPEG, whose compression changes them. Save masks as "
                 "PNG",
                 [&] { open("1.jpg", halves(), 3, skip_damaged); });
  }
}

TEST_F(MaskRowsTest, ANameDoesNotMakeAJpegExact) {
  expect_error(ErrorKind::kData, "masks/1_mask.png: expected a mask whose numbers are kept",
               [&] { open("1_mask.png", halves(), 256); });
}

TEST_F(MaskRowsTest, WebpIsLossyOrRefusedByName) {
  const std::vector<uint8_t> pixels = codec::ramp(8, 8);
  expect_error(ErrorKind::kData, "received a WebP, whose compression changes them",
               [&] { open("1.webp", codec::webp_text(8, 8, pixels), 3); });
  expect_error(ErrorKind::kData, "masks/1.webp: expected a lossy WebP image, received a lossless",
               [&] { open("1.webp", codec::lossless_webp_text(8, 8, pixels), 3); });
}

}  // namespace
}  // namespace plimsoll::data
