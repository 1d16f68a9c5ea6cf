#pragma once

// Arrays from standard input, so that any program can generate the data.
//
// What comes is what np.save writes, one array after another: x alone, or x, y, x, y, … in chunks
// of any number of rows; or one .npz. All of it is copied to an unlinked file first (an epoch needs
// it again), up to half of the free space there; nothing but a buffer is held in memory.
//
//   python generate.py | plimsoll fit model.keras --data -

#include <memory>
#include <string>

#include "base/ranks.h"
#include "codec/byte_reader.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// Reads descriptor `descriptor` (0: standard input) to its end. Of ranks the first one reads, and
// each has a copy in a folder of its own: rows are then read in any order, epoch after epoch, and
// pass between ranks once. Throws kIo.
std::shared_ptr<const codec::FileReader> spool_input(int descriptor, const std::string& folder,
                                                     Ranks* ranks = nullptr);

struct StreamSources {
  std::unique_ptr<RowSource> features;
  std::unique_ptr<RowSource> labels;  // null for a single array
};

// The arrays of such a file; with `labels` they are x and y in turn (unless there is but one).
// Throws kData with the number of the array.
StreamSources open_stream(const std::shared_ptr<const codec::FileReader>& file, bool labels);

}  // namespace plimsoll::data
