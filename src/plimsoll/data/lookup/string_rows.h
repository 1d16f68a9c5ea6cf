#pragma once

// What a model looks up in files of one text each, in arrays of strings and in records. Internal to
// data.
//
// Either is read once, in order, into unlinked files of numbers (looked_up_rows.h): no more than
// one sample's strings is in memory. A text is at most 1 MiB, as a table's record is.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/npy.h"
#include "data/lookup/field_ids.h"
#include "data/lookup/looked_up_rows.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_files.h"

namespace plimsoll::data {

// Samples of as many strings as a model's input takes, one string after another.
class StringSamples {
 public:
  using Where = std::function<std::string()>;

  // Unlinked files are made in `folder`.
  StringSamples(std::shared_ptr<FieldIds> ids, const std::string& folder);

  // Strings of a sample.
  int64_t width() const { return std::ssize(strings_); }
  // Where the next string goes, which has so many bytes. Throws kData for one that is too long.
  std::string& next(int64_t bytes, const Where& where);
  // Looks the sample up of which next() gave the last string. Throws kData naming it.
  void add(const Where& where);
  // The most that it held so far.
  Bytes peak() const { return Bytes(writer_.peak_bytes() + most_); }
  std::unique_ptr<RowSource> finish(const std::string& origin) { return writer_.finish(origin); }

 private:
  TokenWriter writer_;
  std::vector<std::string> strings_;
  std::vector<std::string_view> views_;
  size_t place_ = 0;
  int64_t most_ = 0;  // bytes of a sample's strings
};

struct LookedUpStrings {
  std::unique_ptr<RowSource> rows;
  Bytes opening_peak{};  // the most that reading them held
};

// A file is a sample. Throws kData naming the file, kConfig where the model takes several strings.
LookedUpStrings look_up_files(const SampleFiles& files, const std::shared_ptr<FieldIds>& ids,
                              const std::string& spill_directory);

// A row of the array is a sample. Throws kData naming array and row, kModel where the file of an
// HDF5 dataset is damaged.
LookedUpStrings look_up_strings(const codec::ByteReader& file, const codec::NpyStrings& array,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory);
LookedUpStrings look_up_strings(codec::Hdf5Dataset& dataset, const std::string& name,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory);

}  // namespace plimsoll::data
