#include "cli/refusal.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "train/session.h"

namespace plimsoll::cli {

int or_refusal(const TypedCommand& typed, const std::function<std::string()>& plan,
               const std::function<int()>& body) {
  try {
    return body();
  } catch (const train::DoesNotFit& refused) {
    const std::string text = report::to_refusal(refused.summary(), spelling(typed));
    std::fputs(("plimsoll: " + text).c_str(), stderr);
    if (plan) std::fprintf(stderr, "what else would do: %s\n", plan().c_str());
    return kDoesNotFit;
  }
}

}  // namespace plimsoll::cli
