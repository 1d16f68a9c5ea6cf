#pragma once

// What a source of data holds of which nothing is known yet but what the model takes and gives.
//
// A plan that is asked for without data has to hold for the run that has them. So it counts the
// most that any source of usual form takes: arrays in compressed chunks of HDF5, which are the
// largest buffers of arrays, tables, texts and records; or images that are decoded ahead. What
// depends on a file beyond that is not in it: names of more than some 50,000 files, images whose
// format needs all of them at once (progressive JPEG, WebP), categories of tables, a validation set
// beside the training data.

#include <span>

#include "base/bytes.h"
#include "data/rows/dataset_options.h"

namespace plimsoll::data {

struct AnySource {
  Bytes held;     // buffers, as Dataset::resident_bytes counts them
  Bytes opened;   // of these, tables that are there since it was opened
  Bytes opening;  // the most that opening holds, for a while
  friend bool operator==(const AnySource&, const AnySource&) = default;
};

// `inputs` and `outputs` with their shapes per sample; `threads` that decode images (0: as many as
// the process may use).
AnySource largest_usual_source(std::span<const Port> inputs, std::span<const Port> outputs,
                               int threads);
// The same for arrays that lie in the caller's memory.
AnySource largest_array_source(std::span<const Port> inputs, std::span<const Port> outputs);

}  // namespace plimsoll::data
