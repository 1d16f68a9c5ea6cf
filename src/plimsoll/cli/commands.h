#pragma once

// The commands. Each adds its options to a subcommand and returns what runs it: an exit code, or an
// Error that main turns into one. `typed` outlives it.

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct TypedCommand;

using Command = std::function<int()>;

Command add_bench(CLI::App& app);
Command add_plan(CLI::App& app, const TypedCommand& typed);
Command add_fit(CLI::App& app, const TypedCommand& typed);
Command add_evaluate(CLI::App& app, const TypedCommand& typed);
Command add_predict(CLI::App& app, const TypedCommand& typed);
Command add_show(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_check(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_watch(CLI::App& app, const TypedCommand& typed);

}  // namespace plimsoll::cli
