#pragma once

// What the process takes, for those who keep it within a limit.

#include <nanobind/nanobind.h>

namespace plimsoll::python {

void bind_memory(nanobind::module_& module);

}  // namespace plimsoll::python
