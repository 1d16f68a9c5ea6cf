#pragma once

// Numbers that stand for call sites of random draws, made from stable names, so that a mask or a
// weight does not depend on what else the model holds.

#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace plimsoll::layers {

inline int64_t site_of(std::string_view name) {
  return static_cast<int64_t>(hash_text(name) >> 1);  // never negative
}

}  // namespace plimsoll::layers
