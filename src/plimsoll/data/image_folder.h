#pragma once

// The images below a folder, one class per folder, as a compact table.
//
// Classes are the names of the folders, sorted bytewise; images of a class are the files below it,
// sorted by path. Files are taken by their ending, as Keras does: .jpg, .jpeg and .png; .bmp and
// .gif are refused, anything else is no image. The table holds the paths' text and four bytes an
// image, so that 200,000 images take a few MiB, and says so.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::data {

class ImageFolder {
 public:
  // Lists the folder. Throws kIo, and kData where there is no image or one of a form that is not
  // read. With `classes`, class numbers are those of another folder: a class that is not among them
  // is kData.
  explicit ImageFolder(const std::string& path, const std::vector<std::string>* classes = nullptr);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& classes() const { return classes_; }
  int64_t count() const { return static_cast<int64_t>(starts_.size()); }
  std::string file(int64_t index) const;
  int64_t class_of(int64_t index) const;
  int64_t file_bytes() const { return file_bytes_; }

  // Keeps images `keep[i]` only.
  void retain(const std::vector<bool>& keep);
  Bytes resident_bytes() const;

 private:
  struct Group {
    int64_t first = 0;  // index of the first image behind those of the class before
    int64_t number = 0;
  };
  void list_class(const std::string& name);

  std::string path_;
  std::vector<std::string> classes_;
  std::vector<Group> groups_;
  std::vector<char> text_;        // paths relative to path_, each ended by a zero
  std::vector<uint32_t> starts_;  // of each image's path in text_
  int64_t file_bytes_ = 0;
};

}  // namespace plimsoll::data
