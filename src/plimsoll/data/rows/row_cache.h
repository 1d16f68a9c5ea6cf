#pragma once

// Decoded samples kept in a folder, for later epochs and later runs.
//
//   FOLDER/images-<source>-<content>.npy      source: folder and form of the samples
//                                             content: names, sizes and times of all files, and
//                                                      what decoded them
//
// A cache is an .npy that the reader of arrays reads. It is written whole before the first step, to
// a temporary name that is renamed at the end, so that it is there whole or not at all. Where a
// file of the source has changed, content and thus the name is another: the old one is removed. A
// cache never changes a result. Where it cannot be written (no space, a folder that may not be
// written) the run goes on without, and says so. Errors of the source are errors. What it does not
// find: a file that was changed in place with size and time kept.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_folder.h"

namespace plimsoll::data {

// The version of this program's own decoding and resizing, and of the libraries that decode.
std::string decoding_version();

struct CacheRequest {
  std::string folder;          // made where it is missing
  std::optional<Bytes> limit;  // of one file; none: half of what is free there
  std::string form;            // of the samples: shape and whatever else makes them
  std::vector<int64_t> row_shape;
  std::string decoding = decoding_version();  // what makes the same samples of the same files
};

// Samples to be cached, and what holds all of their numbers: uint8 or float32.
struct CacheInput {
  std::unique_ptr<RowSource> rows;
  DType dtype = DType::kFloat32;
};

// The samples of `files`, from the cache where it has them; else `make` is called, and its rows are
// cached. `notes` says where that failed, and the rows are those of `make`.
std::unique_ptr<RowSource> cached_rows(const CacheRequest& request,
                                       std::shared_ptr<const SampleFolder> files,
                                       const std::function<CacheInput()>& make,
                                       std::vector<std::string>& notes);

}  // namespace plimsoll::data
