#pragma once

// How Keras makes names out of class names.

#include <string>
#include <string_view>

namespace plimsoll::layers {

// keras.utils.naming.to_snake_case: "MaxPooling2D" → "max_pooling2d", "ReLU" → "re_lu". It names
// layers ("conv2d_1"), and the groups of a .keras file's weights.
std::string snake_case(std::string_view class_name);

}  // namespace plimsoll::layers
