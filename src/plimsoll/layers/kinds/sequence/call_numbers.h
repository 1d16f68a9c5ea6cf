#pragma once

// Which call of a model inside of another a file means by a number.
//
// Files name a tensor by layer, call and output. A model that begins with inputs has a call of its
// own before those in the model around it, from its inputs to its outputs. Keras 3 counts that one
// where the outer model's ports are named, and never for a Sequential; before Keras 3 it counts
// everywhere, and a Sequential had it or not: then the lowest call that is named is the first,
// because every call is. Layers that are no models have no such call.

#include <cstdint>

namespace plimsoll::layers {

struct CallNumbering {
  bool keras_3 = false;     // calls are {"args", "kwargs"}
  bool port = false;        // named in input_layers or output_layers
  bool sequential = false;  // the model that is called
  int64_t lowest = 0;       // number of that model that is named anywhere
};

// The number of a model's first call.
constexpr int64_t first_call_number(const CallNumbering& numbering) {
  if (numbering.keras_3) return numbering.port && !numbering.sequential ? 1 : 0;
  return numbering.lowest == 1 ? 1 : 0;
}

// Files that Plimsoll wrote earlier count from 0 everywhere.
constexpr int64_t call_place(int64_t number, int64_t first, bool keras_3) {
  return keras_3 && number == 0 ? 0 : number - first;
}

}  // namespace plimsoll::layers
