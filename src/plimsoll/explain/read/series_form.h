#pragma once

// What a line is without its numbers.
//
// Programs print one message again and again with other numbers in it: stamps, sizes, addresses,
// ranks. Such lines are a series. Two lines are of one series where their forms are equal. A
// number is all that goes on from a digit without a blank, and a unit after it.

#include <cstdint>
#include <string_view>

namespace plimsoll::explain {

// A hash of the line's form. A blank that is a soft break is a blank.
uint64_t series_form(std::string_view line);

}  // namespace plimsoll::explain
