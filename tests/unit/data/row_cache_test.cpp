#include "data/rows/row_cache.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <optional>

#include "codec/image/image.h"
#include "data/image/image_rows.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/codec/image_files.h"

namespace {

// Entries until listing a folder fails as on a broken disk; below 0: never.
std::atomic<int> entries_left = -1;

}  // namespace

// In place of the C library's, which listing a folder calls.
extern "C" __attribute__((visibility("default"))) dirent* readdir(DIR* folder) {
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir"));
  if (entries_left == 0) {
    errno = EIO;
    return nullptr;
  }
  if (entries_left > 0) --entries_left;
  return real(folder);
}

namespace plimsoll::data {
namespace {

using test::expect_error;

class BrokenListing {
 public:
  explicit BrokenListing(int entries) { entries_left = entries; }
  BrokenListing(const BrokenListing&) = delete;
  BrokenListing& operator=(const BrokenListing&) = delete;
  ~BrokenListing() { entries_left = -1; }
};

class RowCacheTest : public ::testing::Test {
 protected:
  RowCacheTest() {
    for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) {
      images_.write(name, codec::png_text(5, 4, codec::ramp(5, 4, name[2])));
    }
    options_.sample_shape = {4, 5, 3};
  }
  // Rows by way of a cache; how often the images were decoded for it.
  int decodings(const std::string& version, std::vector<std::string>& notes) {
    const auto files = std::make_shared<SampleFolder>(images_.path());
    CacheRequest request{cache_.path(), std::nullopt, "bilinear", {4, 5, 3}};
    if (!version.empty()) request.decoding = version;
    int count = 0;
    const auto make = [&]() -> CacheInput {
      ++count;
      return {open_images(images_.path(), nullptr, options_).images, DType::kUInt8};
    };
    const std::unique_ptr<RowSource> rows = cached_rows(request, files, make, notes);
    EXPECT_EQ(rows->row_count(), 4);
    return count;
  }
  int decodings(const std::string& version = "") {
    std::vector<std::string> notes;
    const int count = decodings(version, notes);
    EXPECT_EQ(notes, std::vector<std::string>());
    return count;
  }

  test::TemporaryFolder images_;
  test::TemporaryFolder cache_;
  DatasetOptions options_;
};

TEST_F(RowCacheTest, AnotherDecoderReplacesTheCache) {
  EXPECT_EQ(decodings(), 1);
  EXPECT_EQ(decodings(), 0);
  EXPECT_EQ(decodings(decoding_version()), 0);
  EXPECT_EQ(decodings("0, libjpeg-turbo 1, libpng 1, libwebp 1"), 1);
  EXPECT_EQ(cache_.count_entries(), 1);
  EXPECT_EQ(decodings(), 1);
  const std::string libraries = codec::image_libraries();
  EXPECT_NE(decoding_version().find(libraries), std::string::npos);
  EXPECT_NE(libraries.find("libjpeg"), std::string::npos);
  EXPECT_NE(libraries.find("libpng 1."), std::string::npos);
  EXPECT_NE(libraries.find("libwebp 1."), std::string::npos);
}

TEST_F(RowCacheTest, AListingThatBreaksOffStopsNoCache) {
  cache_.write("other.npy", "");
  for (int entries = 0; entries < 3; ++entries) {
    const auto files = std::make_shared<SampleFolder>(images_.path());
    std::vector<std::string> notes;
    CacheRequest request{cache_.path(), std::nullopt, std::to_string(entries), {4, 5, 3}};
    std::optional<BrokenListing> broken;
    const auto make = [&]() -> CacheInput {
      CacheInput input{open_images(images_.path(), nullptr, options_).images, DType::kUInt8};
      broken.emplace(entries);
      return input;
    };
    EXPECT_EQ(cached_rows(request, files, make, notes)->row_count(), 4);
    EXPECT_EQ(entries_left, 0);
    EXPECT_EQ(notes, std::vector<std::string>());
  }
}

TEST_F(RowCacheTest, AFolderThatCannotBeListedIsAnError) {
  for (int entries = 0; entries < 3; ++entries) {
    const BrokenListing broken(entries);
    expect_error(ErrorKind::kIo, "cannot list the folder",
                 [&] { SampleFolder::find_loose(images_.path()); });
    expect_error(ErrorKind::kIo, "cannot list the folder",
                 [&] { SampleFolder::has_class_files(images_.path()); });
  }
}

}  // namespace
}  // namespace plimsoll::data
