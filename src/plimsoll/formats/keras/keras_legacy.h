#pragma once

// The JSON of older Keras in the words of Keras 3.
//
// Keras 1 called a layer Convolution2D(nb_filter, nb_row, nb_col, border_mode, dim_ordering) what
// is Conv2D(filters, kernel_size, padding, data_format) today; Keras 2 wrote options that are gone
// (`implementation`, `time_major`, `fused`). Everything here is a translation of one layer's class
// and configuration that keeps what the layer computes; an old option that computes something else
// is refused by name. Layers inside wrappers (Bidirectional, TimeDistributed) are translated too.
// What is already Keras 3's passes unchanged. How old weights were stored is not said here
// (legacy_weights.h).

#include <string>

#include "formats/keras/keras_json_impl.h"
#include "layers/config/config.h"

namespace plimsoll::formats {

// What the layers of Keras 1 in a model's list say of their axes: "th" or "tf" where all that say
// it agree, else empty. Keras 1.0 left it out of layers that only pad and repeat rows and columns.
std::string common_ordering(const layers::Config::Array& entries);

// Throws kModel. `entry.config` is an object. `ordering` is that of the list that it stands in.
void modernize(LayerEntry& entry, const JsonSource& source, const std::string& ordering = "");

// The version of Keras whose words a layer's configuration uses, as far as it can be told: 1, or 0
// where it is no telling.
bool is_keras_1(const std::string& class_name, const layers::Config& config);

}  // namespace plimsoll::formats
