#pragma once

// Samples from a folder of images, decoded and resized ahead of their use on threads of their own.
//
//   announced rows ──> workers ──> slots (decoded samples, a fixed number) ──> read()
//
// A sample is a pure function of its file, so what read() gives depends on neither threads nor
// slots: a row that is in no slot is decoded by the reader itself. Slots hold rows of the last
// announcement only. All buffers are made at the start and counted; what a decoder takes beside
// them is bounded by the largest image of the folder, whose header was read. Errors of a worker are
// thrown by the read of that row.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/image_folder.h"
#include "data/row_source.h"

namespace plimsoll::data {

struct ImageSources {
  std::unique_ptr<RowSource> images;  // (height, width, channels), 0 to 255
  std::unique_ptr<RowSource> labels;  // class numbers, or one-hot where the model wants as many
  std::shared_ptr<const ImageFolder> folder;
  int64_t skipped = 0;
};

// Reads every header; with options.skip_damaged decodes every image once and leaves out those that
// fail. Throws kData naming the file, kConfig where the model's samples are no images.
ImageSources open_images(const std::string& path, const std::vector<std::string>* classes,
                         const DatasetOptions& options);

}  // namespace plimsoll::data
