#include "cli/file_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"

namespace plimsoll::cli {
namespace {

// "10,42" or "10x42".
std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    const bool separated = next == end || ((*next == ',' || *next == 'x') && next + 1 < end);
    if (error != std::errc() || size < 1 || !separated) break;
    shape.push_back(size);
    at = next == end ? end : next + 1;
  }
  if (at < end || shape.empty()) {
    throw Error(ErrorKind::kConfig,
                "--input-shape: expected sizes without the batch, such as "
                "128,128,3, received " +
                    text);
  }
  return shape;
}

}  // namespace

void add_file_options(CLI::App& command, FileOptions& options) {
  command
      .add_option("--weights", options.weights,
                  "Weights to load in place of the model file's own: .weights.h5, .h5, .keras")
      ->type_name("FILE");
  command
      .add_option("--input-shape", options.input_shapes,
                  "Sizes that the file leaves open, without the batch: 128,128,3; once per input")
      ->type_name("SIZES")
      ->allow_extra_args(false);
}

formats::LoadOptions load_options(const FileOptions& options) {
  formats::LoadOptions load;
  load.weights = options.weights;
  for (const std::string& shape : options.input_shapes) {
    load.input_shapes.push_back(parse_shape(shape));
  }
  return load;
}

}  // namespace plimsoll::cli
