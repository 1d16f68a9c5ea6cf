#pragma once

// What a model looks up in files of one text each and in arrays of strings. Internal to data.
//
// Either is read once, in order, into unlinked files of numbers (looked_up_rows.h): no more than
// one sample's strings is in memory. A text is at most 1 MiB, as a table's record is.

#include <memory>
#include <string>

#include "base/bytes.h"
#include "codec/npy.h"
#include "data/lookup/field_ids.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_files.h"

namespace plimsoll::data {

struct LookedUpStrings {
  std::unique_ptr<RowSource> rows;
  Bytes opening_peak{};  // the most that reading them held
};

// A file is a sample. Throws kData naming the file, kConfig where the model takes several strings.
LookedUpStrings look_up_files(const SampleFiles& files, const std::shared_ptr<FieldIds>& ids,
                              const std::string& spill_directory);

// A row of the array is a sample. Throws kData naming array and row.
LookedUpStrings look_up_strings(const codec::ByteReader& file, const codec::NpyStrings& array,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory);

}  // namespace plimsoll::data
