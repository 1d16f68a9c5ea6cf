#pragma once

// Images that are strings of bytes in records: JPEG and other files, one a record.
//
// They are copied as they are into an unlinked file, their places into another, and decoded when
// they are read, as those of a folder are. Internal to data.

#include <memory>
#include <string>
#include <vector>

#include "codec/tf_record.h"
#include "data/rows/sample_files.h"

namespace plimsoll::data {

class RecordImages final : public SampleFiles {
 public:
  // Places and bytes of strings that are not written yet.
  static constexpr Bytes kMostPending = 576_KiB;

  // `path` names the data, for messages; unlinked files are made in `folder`.
  RecordImages(std::string path, const std::string& folder);

  // Adds the string of the record where the reader is.
  void add(codec::TfRecordReader& reader, const codec::ExampleFeature& feature);
  void finish();  // before the first is opened

  const std::string& path() const override { return path_; }
  int64_t count() const override { return count_; }
  std::string file(int64_t index) const override;
  std::shared_ptr<const codec::FileReader> open(int64_t index) const override;
  Bytes resident_bytes() const override { return {}; }

 private:
  std::string path_;
  std::shared_ptr<File> bytes_;
  File places_;  // the end of each string in bytes_, int64
  int64_t count_ = 0;
  int64_t end_ = 0;
  std::vector<int64_t> ends_;  // that are not written yet
  std::vector<std::byte> pending_;
  void flush();
};

}  // namespace plimsoll::data
