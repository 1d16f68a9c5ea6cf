#pragma once

// Options that several commands share, and the requests that they become.
//
// Every spelling here is fixed: scripts rely on it.

#include <string>

#include "cli/file_options.h"
#include "run/request.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct ModelOptions {
  run::ModelRequest model;
  FileOptions file;
  run::Settings settings;
  // As the user spelled them; empty: none.
  std::string memory;
  std::string max_slowdown;
  std::string spill_limit;
  bool spill = false;
  bool no_spill = false;
  bool json = false;
};

void add_model_options(CLI::App& command, ModelOptions& options);

run::ModelRequest model_request(const ModelOptions& options);
// Sizes are those of now: a percentage is of what the process may use. Throws kConfig naming the
// option.
run::Settings settings_of(const ModelOptions& options, const std::string& spill_directory);

}  // namespace plimsoll::cli
