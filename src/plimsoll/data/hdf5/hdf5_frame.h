#pragma once

// A data frame that pandas wrote into an HDF5 file.
//
// Its fixed format:
//
//   df/axis0                  names of all columns, in order
//   df/block0_items           names of the columns of one type
//   df/block0_values          (rows, columns of that type)
//   df/block1_items, …
//
// Columns of numbers become numbers of a sample, one each, as those of a table do; columns of
// objects (texts) are pickled, and not read. Its table format is in hdf5_table.h. Internal to data.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/hdf5/hdf5_reader.h"
#include "data/rows/dataset_options.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// The group that is a frame; "" at the root. None where the file holds none. Throws kData where it
// holds several.
std::optional<std::string> find_hdf5_frame(const codec::Hdf5Reader& file);

struct FrameSources {
  std::unique_ptr<RowSource> features;
  std::unique_ptr<RowSource> labels;  // null where they lie elsewhere
  std::vector<std::string> notes;
  std::string form;
  Bytes opening_peak{};  // the most that opening held, beside what is open
};

// The label is options.label_column, else a column called label, target, class or y, else the last
// one; features are options.columns, else all others. Throws kData, kConfig for a name that is not
// there.
FrameSources open_hdf5_frame(const codec::Hdf5Reader& file, const std::string& group,
                             const DatasetOptions& options);

// The same of datasets that options.columns names, two or more: a column each. None where it names
// anything else.
std::optional<FrameSources> open_hdf5_columns(const codec::Hdf5Reader& file,
                                              const DatasetOptions& options);

}  // namespace plimsoll::data
