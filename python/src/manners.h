#pragma once

// What the module does for a process that is not its own.

namespace plimsoll::python {

// Lines of the log go to Python's sys.stderr; objects that outlive the interpreter, as they do
// where threads of the program still run at its end, are no news for its user.
void keep_manners();

}  // namespace plimsoll::python
