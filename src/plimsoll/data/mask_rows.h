#pragma once

// Labels of images that are images: a class for each pixel.
//
//   images/a/1.jpg   masks/a/1.png or masks/a/1_mask.png
//
// A mask belongs to the image of the same name, endings aside; one without the other is kData. Its
// pixels are the classes' numbers as they are stored, resized without mixing them (the nearest one,
// centres of pixels at halves: tf.image.resize(method="nearest")). Where the model tells two
// classes apart 255 means 1 too, and a JPEG's numbers above 127 do. A sample is (height, width, 1)
// of numbers, or of a class for each of the output's channels (1 where it is this one) where the
// loss takes no numbers.

#include <memory>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/image_folder.h"
#include "data/row_source.h"

namespace plimsoll::data {

// Masks in the order of `images`, for each of `outputs` from the folder that its path names. With
// options.skip_damaged images whose masks cannot be decoded leave `images` too, and are counted in
// `skipped`; `notes` says what was not done as asked. Throws kConfig where an output is no image,
// kData naming the file.
std::vector<std::shared_ptr<RowSource>> open_masks(const std::vector<Port>& outputs,
                                                   ImageFolder& images,
                                                   const DatasetOptions& options, int64_t& skipped,
                                                   std::vector<std::string>& notes);

}  // namespace plimsoll::data
