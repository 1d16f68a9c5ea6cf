#pragma once

// The networks that a machine's rates are measured on (rates.h): small, and with operators of every
// family, in shapes that networks have.

#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::planning {

// Convolutions of few and many channels, of single points and single channels, with what stands
// between them: normalization, activations, sums, products by channel, poolings.
layers::Model image_probe();
// Tables of words, recurrence, attention and the layers of transformers.
layers::Model sequence_probe();

layers::CompileOptions compile_probe(layers::Precision precision);

}  // namespace plimsoll::planning
