#pragma once

// Data of a model with several inputs, a path for each. Internal to data.

#include "data/dataset.h"

namespace plimsoll::data {

// Whether inputs have paths of their own; the command line gives one to each or to none.
bool has_input_paths(const DatasetOptions& options);

// Features from the path of each of options.inputs, in any form that holds one array a sample; all
// columns of a table are features, and classes of image folders are not read. `like` is a data set
// of such paths. Throws kConfig for texts, windows and left-out images, whose rows are counted
// otherwise than those of the inputs beside them.
void open_inputs(const DatasetOptions& options, const Dataset* like, Dataset& dataset);

}  // namespace plimsoll::data
