#pragma once

// StringLookup, IntegerLookup, TextVectorization and Hashing: options as plain data.
//
// These layers stand directly after an input, and data sources do what they say (data/lookup): the
// InputLayer gives what the layer makes, and the layer's own call hands it on. `formats` sees to it
// that they stand nowhere else.

#include <memory>
#include <vector>

#include "base/input_lookup.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"

namespace plimsoll::layers {

// The options of such a layer, in Keras's order. A vocabulary that the configuration does not hold
// is empty. Throws kModel naming layer and key.
InputLookup read_input_lookup(ConfigReader& reader);

// What a layer makes of samples of `shape`, of text or of numbers. `described` is
// {"class_name": …, "config": …}. Throws kModel where the layer has no vocabulary, does not take
// such an input, or gives rows whose size depends on the data.
std::shared_ptr<const InputLookup> make_input_lookup(const Config& described,
                                                     std::vector<int64_t> shape, bool text,
                                                     bool fractions);

}  // namespace plimsoll::layers
