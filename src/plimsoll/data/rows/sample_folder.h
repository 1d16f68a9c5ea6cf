#pragma once

// The images or texts below a folder as a compact table: one class per folder, or all alike.
//
// Classes are the names of the folders, sorted bytewise; samples of a class are the files below it,
// sorted by path. Files are taken by their ending, as Keras does: images are .jpg, .jpeg, .png,
// .bmp and .gif, and .webp beside them, texts are .txt; anything else is no sample. The table holds
// the paths' text and four bytes a file, so that 200,000 of them take a few MiB, and says so. A
// flat folder has no classes: its samples are all files below it, sorted by path, but for names
// that begin with a dot.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "data/rows/growing_array.h"
#include "data/rows/sample_files.h"

namespace plimsoll::data {

class SampleFolder final : public SampleFiles {
 public:
  enum class Layout : uint8_t { kClasses, kFlat };
  enum class Kind : uint8_t { kImages, kTexts };

  // Lists the folder. Throws kIo, and kData where there is no sample. With `classes`, class numbers
  // are those of another folder: a class that is not among them is kData.
  explicit SampleFolder(const std::string& path, Layout layout = Layout::kClasses,
                        const std::vector<std::string>* classes = nullptr,
                        Kind kind = Kind::kImages);
  // Samples that lie in the folder itself rather than in folders of it.
  struct Loose {
    int64_t count = 0;
    std::string first;  // name, bytewise
  };
  static Loose find_loose(const std::string& path, Kind kind = Kind::kImages);
  // Whether one of its folders holds a sample.
  static bool has_class_files(const std::string& path, Kind kind = Kind::kImages);

  const std::string& path() const override { return path_; }
  const std::vector<std::string>& classes() const { return classes_; }
  // Those with samples, of whatever number.
  std::vector<std::string> filled_classes() const;
  int64_t count() const override { return static_cast<int64_t>(starts_.size()); }
  std::string file(int64_t index) const override;
  std::shared_ptr<const codec::FileReader> open(int64_t index) const override {
    return codec::open_reader(file(index));
  }
  // Below path(), without the ending.
  std::string_view stem(int64_t index) const;
  int64_t class_of(int64_t index) const;
  int64_t file_bytes() const { return file_bytes_; }

  // The samples that are at these indices now, in this order; of a flat folder.
  void reorder(const std::vector<int64_t>& order);
  // Keeps samples `keep[i]` only.
  void retain(const std::vector<bool>& keep);
  Bytes resident_bytes() const override;

 private:
  struct Group {
    int64_t first = 0;  // index of the first sample after those of the class before
    int64_t number = 0;
  };
  void list_class(const std::string& name);
  void list_files(const std::string& folder, bool hidden);

  std::string path_;
  Kind kind_;
  std::vector<std::string> classes_;
  std::vector<Group> groups_;
  GrowingArray<char> text_;        // paths relative to path_, each ended by a zero
  GrowingArray<uint32_t> starts_;  // of each sample's path in text_
  int64_t file_bytes_ = 0;
};

}  // namespace plimsoll::data
