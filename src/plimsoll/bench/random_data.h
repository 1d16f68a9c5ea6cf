#pragma once

// Random samples of the shapes that a model's programs take, without a file.
//
// A few rows lie in memory and are read again and again, converted on the way as a file's would be:
// what a step pays for its data is what it pays for data in page cache, less the system call.

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "layers/training/programs.h"

namespace plimsoll::bench {

// `inputs` as in BuiltPrograms; real-valued features are stored as `stored`. Labels are classes
// where the loss takes classes, else zeros and ones; tokens are rows that their tables have.
data::Dataset make_random_data(const std::vector<layers::ProgramInput>& inputs, DType stored,
                               int64_t row_count);

}  // namespace plimsoll::bench
