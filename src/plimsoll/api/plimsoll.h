#pragma once

// Plimsoll's C++ face: #include <plimsoll/plimsoll.h>, namespace plimsoll (pl for short).
//
// The library does nothing to the process that it runs in: lines for a person go to set_log_sink
// (base/log.h), and nowhere where there is none. Sizes are written 256_MiB with `using namespace
// plimsoll::literals`. Every failure is a plimsoll::Error (base/error.h) with a kind; a memory
// limit that cannot be met is kBudget.

#include "api/dataset.h"
#include "api/layers.h"
#include "api/model.h"
#include "api/tensor.h"
#include "api/trainer.h"
#include "api/training.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
