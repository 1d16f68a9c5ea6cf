#pragma once

// Every reason why a model file could not be trained, at once.
//
// Loading stops at the first thing that it refuses. This walks on: each layer of each model inside
// the file is made by itself, then the graph, the weights and the training configuration are tried
// as far as they can be without the parts that were refused.

#include <string>
#include <vector>

#include "formats/model_file.h"

namespace plimsoll::formats {

struct CheckReport {
  std::vector<std::string> reasons;  // messages, in the file's order; empty: it trains
  bool has_weights = false;
  bool is_compiled = false;
  std::vector<std::string> notes{};  // of metrics that training leaves out
  friend bool operator==(const CheckReport&, const CheckReport&) = default;
};

// Throws kIo where the file cannot be read at all; everything else is a reason.
CheckReport check_model(const std::string& path, const LoadOptions& options = {});

}  // namespace plimsoll::formats
