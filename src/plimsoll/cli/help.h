#pragma once

// Help texts of at most 80 columns: what an option takes in one word, what it does beside it.

#include <CLI/CLI.hpp>
#include <string>

namespace plimsoll::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// Puts the options of a command that takes a model and data under titles.
void group_options(CLI::App& command);

// What stands in the help for the value of the option: "SIZE", "N"; empty for a flag.
std::string value_name(const CLI::Option& option);
// The range of numbers that it takes: "from 1 to 1024"; empty: any.
std::string value_range(const CLI::Option& option);

}  // namespace plimsoll::cli
