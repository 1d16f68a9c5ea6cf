#pragma once

// The options of commands that read a model file.

#include <string>
#include <vector>

#include "formats/model_file.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct FileOptions {
  std::string weights;
  std::vector<std::string> input_shapes;
};

void add_file_options(CLI::App& command, FileOptions& options);

// Throws kConfig for a shape that is none.
formats::LoadOptions load_options(const FileOptions& options);

}  // namespace plimsoll::cli
