#pragma once

// What a run's command says where no plan meets its limit.

#include <functional>

#include "cli/typed_command.h"

namespace plimsoll::cli {

// `body`'s exit code; where it throws that nothing fits, that is told with what would do, and the
// exit code is that of what does not fit. `plan`: the command that tells what else would do; empty:
// none does.
int or_refusal(const TypedCommand& typed, const std::function<std::string()>& plan,
               const std::function<int()>& body);

}  // namespace plimsoll::cli
