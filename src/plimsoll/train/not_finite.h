#pragma once

// What training does with a step whose loss is infinite or no number.
//
// Where a row of the data is to blame, it is refused by its number, whatever was asked for. Else
// the weights are spoilt: the command line refuses to go on. Keras goes on, and so do its own
// calls; a callback of its (TerminateOnNaN) ends the training with that step, whose epoch is still
// validated.

#include <cstdint>

namespace plimsoll::train {

enum class NotFinite : uint8_t {
  kRefused,       // kData
  kGoesOn,        // as if nothing were wrong
  kEndsTraining,  // the epoch ends with the step, and no other one follows
};

}  // namespace plimsoll::train
