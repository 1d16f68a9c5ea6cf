#pragma once

// Labels of images that are images: a class for each pixel.
//
//   images/a/1.jpg   masks/a/1.png or masks/a/1_mask.png
//
// A mask belongs to the image of the same name, endings aside; one without the other is kData. Its
// pixels are the classes' numbers as they are stored, resized without mixing them (the nearest one,
// centres of pixels at halves: tf.image.resize(method="nearest")). Where the model tells two
// classes apart 255 means 1 too, and numbers above 127 of a JPEG or WebP do; where it tells more
// apart, those are refused: what their compression changes would be other classes. A sample is
// (height, width, 1) of numbers, or of a class for each of the output's channels (1 where it is
// this one) where the loss takes no numbers.

#include <memory>
#include <string>
#include <vector>

#include "data/rows/dataset_options.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_folder.h"

namespace plimsoll::data {

struct MaskedImages {
  std::unique_ptr<RowSource> images;              // as those of image_rows.h
  std::vector<std::shared_ptr<RowSource>> masks;  // in the order of the images, for each output
  int64_t skipped = 0;
  std::vector<std::string> notes{};  // of what was not done as asked
};

// The images of a flat folder and their masks, for each of `outputs` from the folder that its path
// names. With options.skip_damaged images that cannot be decoded, or whose masks cannot, leave the
// folder; partners are matched before. Throws kConfig where an output is no image, kData naming the
// file.
MaskedImages open_masked_images(const std::vector<Port>& outputs,
                                const std::shared_ptr<SampleFolder>& images,
                                const DatasetOptions& options);

}  // namespace plimsoll::data
