#pragma once

// A model's file, completed by what a person says of its training.

#include <string>
#include <vector>

#include "formats/model_file.h"
#include "layers/training/programs.h"
#include "run/listener.h"
#include "run/request.h"

namespace plimsoll::run {

// What a command cannot do without.
struct Needs {
  bool optimizer = false;
  bool loss = false;
};

struct LoadedModel {
  formats::LoadedModel file;
  layers::CompileOptions compile;
  std::vector<std::string> left_out_metrics{};  // a sentence each, as layers::left_out_metrics
};

// Reads the file, runs its self-test by `settings`, and puts what is asked for in place of what it
// says. Metrics that are left out are noticed. Throws kModel, kIo, kConfig.
LoadedModel load(const ModelRequest& request, const Settings& settings, Needs needs,
                 Listener& listener);

}  // namespace plimsoll::run
