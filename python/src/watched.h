#pragma once

// Whether objects of a Python program are what they were, without a line of Python.

#include <nanobind/nanobind.h>

namespace plimsoll::python {

// Whether containers hold the very objects that they held: (dict, keys, values) or (list, none,
// items).
bool same_items(const nanobind::list& watched);

// Whether names hold the very objects that they held: (dict, name, value).
bool same_values(const nanobind::list& watched);

// Whether classes have the very attributes that they had: (class, name, value).
bool same_attributes(const nanobind::list& watched);

}  // namespace plimsoll::python
