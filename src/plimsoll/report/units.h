#pragma once

// One unit for all figures of a column or a sentence, chosen by the largest of them.

#include <string>

#include "base/bytes.h"

namespace plimsoll::report {

struct Unit {
  const char* name;  // "MiB", "ms"
  double size;       // in bytes, in seconds
  int decimals;
};

Unit size_unit(Bytes largest);
Unit time_unit(double largest_seconds);
Unit count_unit(double largest);  // "thousand", "million", …

// "58.1"; "<0.1" for what is not nothing and would read as such.
std::string in_unit(double value, const Unit& unit);
inline std::string in_unit(Bytes bytes, const Unit& unit) {
  return in_unit(static_cast<double>(bytes.count()), unit);
}
// "58.1 MiB", or in a smaller unit where that would say nothing: "12 B".
std::string amount(Bytes bytes, const Unit& unit);
// The next amount up that reads so in that unit: what is named as enough is.
Bytes round_up_to_unit(Bytes bytes, const Unit& unit);
// As an option's value that is not below it: "24.3MiB".
std::string size_option(Bytes bytes);

}  // namespace plimsoll::report
