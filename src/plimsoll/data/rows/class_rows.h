#pragma once

// Labels that the folders of samples say. Internal to data.

#include <memory>
#include <string>
#include <vector>

#include "data/rows/dataset_options.h"
#include "data/rows/row_source.h"
#include "data/rows/sample_folder.h"

namespace plimsoll::data {

// Class numbers of a folder's samples, or one number a class where the model gives as many. The
// folder is counted with the samples.
std::unique_ptr<RowSource> class_rows(std::shared_ptr<const SampleFolder> folder,
                                      const DatasetOptions& options);

// Throws kData where names are more classes than the model's loss tells apart. `what` they are of:
// "class folders".
void check_classes(const DatasetOptions& options, const std::string& what,
                   const std::vector<std::string>& classes);

}  // namespace plimsoll::data
