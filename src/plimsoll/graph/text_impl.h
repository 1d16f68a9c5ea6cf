#pragma once

// Shared by the two directions of the text form: which names stand without quotes. Nothing else
// includes this.

namespace plimsoll::graph {

constexpr bool is_bare_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == ':' || c == '+' || c == '-';
}

}  // namespace plimsoll::graph
