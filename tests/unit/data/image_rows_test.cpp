#include "data/image/image_rows.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/codec/image_files.h"

namespace plimsoll::data {
namespace {

using test::expect_error;

class ImageRowsTest : public ::testing::Test {
 protected:
  ImageRowsTest() {
    for (int i = 0; i < kCount; ++i) {
      const std::string name = std::string(i < 20 ? "ant" : "bee") + "/" + std::to_string(100 + i);
      const int width = 5 + i;
      const auto pixels = codec::ramp(width, 9, i);
      folder_.write(
          name + (i % 2 == 0 ? ".png" : ".JPG"),
          i % 2 == 0 ? codec::png_text(width, 9, pixels) : codec::jpeg_text(width, 9, pixels));
    }
  }
  ImageSources open(int threads, bool skip_damaged = false) {
    DatasetOptions options;
    options.sample_shape = {6, 7, 3};
    options.threads = threads;
    options.skip_damaged = skip_damaged;
    return open_images(folder_.path(), nullptr, options);
  }
  static std::vector<float> row(RowSource& rows, int64_t index) {
    std::vector<float> values(6 * 7 * 3);
    rows.read(index, 1, DType::kFloat32, values.data());
    return values;
  }

  static constexpr int kCount = 36;
  test::TemporaryFolder folder_;
};

TEST_F(ImageRowsTest, AheadOrNotTheRowsAreTheSame) {
  ImageSources plain = open(1);
  ASSERT_EQ(plain.images->row_count(), kCount);
  std::vector<std::vector<float>> expected;
  for (int64_t i = 0; i < kCount; ++i) expected.push_back(row(*plain.images, i));
  for (const int threads : {1, 3}) {
    ImageSources sources = open(threads);
    RowSource& images = *sources.images;
    const int64_t ahead = std::min<int64_t>(images.lookahead(), 11);
    for (int64_t round = 0; round < 3; ++round) {
      for (int64_t i = 0; i < kCount; ++i) {
        std::vector<int64_t> next;
        for (int64_t k = i; k < std::min<int64_t>(i + ahead, kCount); ++k) {
          next.push_back((k * 7 + round) % kCount);
        }
        images.announce(next);
        EXPECT_EQ(row(images, next.front()), expected[static_cast<size_t>(next.front())]);
        // One that was never announced, and one that is read twice.
        std::vector<int64_t> others;
        if (i % 5 == 0) others.push_back((i + 17) % kCount);
        if (i % 4 == 0) others.push_back(next.back());
        for (const int64_t other : others) {
          EXPECT_EQ(row(images, other), expected[static_cast<size_t>(other)]);
        }
      }
    }
  }
}

TEST_F(ImageRowsTest, LabelsFollowTheFolders) {
  ImageSources sources = open(2);
  std::vector<int32_t> labels(kCount);
  sources.labels->read(0, kCount, DType::kInt32, labels.data());
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(labels[static_cast<size_t>(i)], i < 20 ? 0 : 1);
  EXPECT_EQ(sources.folder->classes(), (std::vector<std::string>{"ant", "bee"}));
}

TEST_F(ImageRowsTest, ErrorsOfWorkersComeOutOfTheRead) {
  const std::string good = codec::jpeg_text(90, 90, codec::ramp(90, 90));
  folder_.write("bee/000.jpg", good.substr(0, good.size() - 200));
  ImageSources sources = open(2);
  const std::vector<int64_t> next = {20, 21};
  for (int i = 0; i < 3; ++i) {
    sources.images->announce(next);
    expect_error(ErrorKind::kData, "bee/000.jpg: expected a whole JPEG",
                 [&] { row(*sources.images, 20); });
    EXPECT_NO_THROW(row(*sources.images, 21));
  }
  ImageSources skipping = open(2, true);
  EXPECT_EQ(skipping.skipped, 1);
  EXPECT_EQ(skipping.images->row_count(), kCount);
  folder_.write("ant/000.png", "no image");
  expect_error(ErrorKind::kData, "ant/000.png: expected a JPEG, PNG, BMP, GIF or WebP",
               [&] { open(2); });
}

TEST_F(ImageRowsTest, NoPixelsAsWholeNumbersOnceResized) {
  ImageSources sources = open(1);
  std::vector<int32_t> values(6 * 7 * 3);
  expect_error(ErrorKind::kData, "the image was resized",
               [&] { sources.images->read(3, 1, DType::kInt32, values.data()); });
}

}  // namespace
}  // namespace plimsoll::data
