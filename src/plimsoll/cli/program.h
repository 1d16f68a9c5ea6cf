#pragma once

// What both programs have in common: parsing, calling one command, errors into exit codes.
//
// There are two programs so that what needs no engine starts in a few MiB: `plimsoll` holds
// `explain` and `watch` and hands everything else to `plimsoll-engine`, which holds all commands
// and brings oneDNN and OpenMP with it (start.cpp, main.cpp). Users call the first only.

#include <functional>
#include <map>
#include <string>

#include "cli/commands.h"
#include "cli/typed_command.h"

namespace plimsoll::cli {

// Adds commands to the app. Of `watch`, what stands after the first `--` is another program's
// command line, in which nothing is an option of ours.
using AddCommands =
    std::function<std::map<std::string, Command>(CLI::App& app, const TypedCommand& typed)>;

// What only a program may do, a library never: settings of the heap, and lines on standard error.
void own_the_process();

// Owns the process; the exit code; never throws.
int run_program(int argc, char** argv, const AddCommands& add_commands);

}  // namespace plimsoll::cli
