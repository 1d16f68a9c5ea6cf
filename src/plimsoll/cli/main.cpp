// plimsoll-engine: every command. `plimsoll` (start.cpp) hands over to it.

#include <map>
#include <string>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/rates.h"

int main(int argc, char** argv) {
  using namespace plimsoll::cli;  // NOLINT(google-build-using-namespace): the commands
  if (is_rates_process(argc, argv)) return run_rates_process(argc, argv);
  return run_program(argc, argv, [](CLI::App& app, const TypedCommand& typed) {
    return std::map<std::string, Command>{
        {"plan", add_plan(app, typed)},
        {"fit", add_fit(app, typed)},
        {"evaluate", add_evaluate(app, typed)},
        {"predict", add_predict(app, typed)},
        {"show", add_show(app)},
        {"convert", add_convert(app)},
        {"check", add_check(app)},
        {"bench", add_bench(app)},
        {"explain", add_explain(app)},
        {"watch", add_watch(app, typed)},
    };
  });
}
