#pragma once

// Options of `fit` for what happens at the ends of epochs, and the logs that it keeps beside --log.

#include "run/request.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

void add_callback_options(CLI::App& command, run::CallbackRequest& callbacks,
                          run::LogRequest& logs);

}  // namespace plimsoll::cli
