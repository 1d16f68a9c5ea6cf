#pragma once

// The commands. Each adds its options to a subcommand and returns what runs it: an exit code, or an
// Error that main turns into one.

#include <functional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

using Command = std::function<int()>;

Command add_bench(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_fit(CLI::App& app);
Command add_evaluate(CLI::App& app);
Command add_predict(CLI::App& app);
Command add_show(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_check(CLI::App& app);
Command add_explain(CLI::App& app);
// `tail`: the command to watch.
Command add_watch(CLI::App& app, std::vector<std::string> tail);

}  // namespace plimsoll::cli
