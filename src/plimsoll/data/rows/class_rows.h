#pragma once

// Labels that the folders of samples say. Internal to data.

#include <memory>

#include "data/rows/row_source.h"
#include "data/rows/sample_folder.h"

namespace plimsoll::data {

// Class numbers of a folder's samples, or one number a class. The folder is counted with the
// samples.
std::unique_ptr<RowSource> class_rows(std::shared_ptr<const SampleFolder> folder, bool one_hot);

}  // namespace plimsoll::data
