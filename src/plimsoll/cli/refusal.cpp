#include "cli/refusal.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "data/sample_shape.h"
#include "train/session.h"

namespace plimsoll::cli {

int or_refusal(const TypedCommand& typed, const CLI::App& app, bool plannable,
               const std::function<int()>& body) {
  try {
    return body();
  } catch (const train::DoesNotFit& refused) {
    const std::string text = report::to_refusal(refused.summary(), spelling(typed));
    std::fputs(("plimsoll: " + text).c_str(), stderr);
    if (plannable) {
      std::fprintf(stderr, "what else would do: %s\n", other_command(typed, app, "plan").c_str());
    }
    return kDoesNotFit;
  } catch (const data::WrongShape& error) {
    std::fprintf(stderr, "plimsoll: %s\nthe model's inputs: %s\n", error.what(),
                 other_command(typed, app, "show").c_str());
    return exit_code_of(error.kind());
  }
}

}  // namespace plimsoll::cli
