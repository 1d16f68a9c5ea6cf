#pragma once

// Samples from a folder of images, and the classes that its folders say.
//
// Images are decoded and resized (bilinear) ahead of their use (decoded_rows.h). Without class
// folders there are no labels: masks (mask_rows.h) or a file of their own bring them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/dataset_options.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_folder.h"

namespace plimsoll::data {

struct ImageSources {
  std::unique_ptr<RowSource> images;  // (height, width, channels), 0 to 255
  std::unique_ptr<RowSource> labels;  // class numbers, or one-hot where the model wants as many
  std::shared_ptr<SampleFolder> folder;
  int64_t skipped = 0;
  std::vector<std::string> notes{};  // of what was not done as asked
};

// Reads every header; with options.skip_damaged decodes every image once and leaves out those that
// fail. Throws kData naming the file, kConfig where the model's samples are no images.
ImageSources open_images(const std::string& path, const std::vector<std::string>* classes,
                         const DatasetOptions& options,
                         SampleFolder::Layout layout = SampleFolder::Layout::kClasses);

// The steps of open_images, for images that leave together with what belongs to them. All samples
// are sound unless options.skip_damaged; rows, and the name of their cache, follow what the folder
// holds when they are made: nothing may leave it later.
std::vector<bool> find_sound_images(const SampleFolder& folder, const DatasetOptions& options);
std::unique_ptr<RowSource> make_image_rows(const std::shared_ptr<const SampleFolder>& folder,
                                           const DatasetOptions& options,
                                           std::vector<std::string>& notes);

// Images of any files, which are as the model takes them; none of them is left out.
std::unique_ptr<RowSource> decoded_image_rows(const std::shared_ptr<const SampleFiles>& files,
                                              const DatasetOptions& options);

// Leaves out what is not sound; how many. Throws kData where nothing is left.
int64_t keep_sound(SampleFolder& folder, const std::vector<bool>& sound);

}  // namespace plimsoll::data
