#include "manners.h"

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "base/log.h"

namespace plimsoll::python {

void keep_manners() {
  set_log_sink([](LogLevel, std::string_view line) {
    const nanobind::gil_scoped_acquire lock;
    PySys_FormatStderr("plimsoll: %s\n", std::string(line).c_str());
  });
  nanobind::set_leak_warnings(false);
}

}  // namespace plimsoll::python
