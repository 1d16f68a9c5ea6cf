#pragma once

// The Keras whose form is written.

#include <string_view>

namespace plimsoll::formats {

inline constexpr std::string_view kKerasVersion = "3.15.0";

}  // namespace plimsoll::formats
