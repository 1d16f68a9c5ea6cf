#pragma once

// What a run's command says where no plan meets its limit, or data have another shape.

#include <functional>

#include "cli/typed_command.h"

namespace plimsoll::cli {

// `body`'s exit code; where it throws that nothing fits, that is told with what would do, and where
// samples have another shape than the model's input, the command that shows it; the exit code is
// that of the refusal. `plannable`: whether `plan` tells what else would do. `app` has parsed
// `typed`.
int or_refusal(const TypedCommand& typed, const CLI::App& app, bool plannable,
               const std::function<int()>& body);

}  // namespace plimsoll::cli
