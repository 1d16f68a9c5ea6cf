#pragma once

// Which phase of a training a failure's frames and the lines before it speak of. A phase is read
// from whole words of a function's name, and never from a library that trains nothing:
// `validate_python` checks arguments, `validate` beside `train_one_epoch` runs the model.

#include "explain/detect/case.h"

namespace plimsoll::explain {

// The refusal of a device with no figures, which CUDA itself says, where the log shows no work on
// the device before it.
bool is_first_use(const Case& found);
bool validates(const Case& found);
// Prediction or generation, with no sign of training around it.
bool infers(const Case& found);
bool saves(const Case& found);
bool loads(const Case& found);

// The line before the failure which says that a checkpoint is being written, with no progress
// after it; npos without one.
size_t line_that_saves(const Case& found);

// A bar of other work that was being drawn when it happened; nullptr without one.
const Task* task_under_way(const Case& found);

// The last progress of training before the failure, or nullptr. A bare bar that had been finished
// says nothing of what was done then.
const Progress* last_progress(const Case& found);

}  // namespace plimsoll::explain
