#pragma once

// What a Model points to: the one run that everything goes through. Internal to api.

#include "api/model.h"
#include "run/run.h"

namespace plimsoll {

class Model::Impl {
 public:
  template <typename... Arguments>
  explicit Impl(Arguments&&... arguments) : run(std::forward<Arguments>(arguments)...) {}

  run::Run run;
};

namespace api {

MemoryUse to_memory(const train::MemoryReport& report);

// What the options of every call have in common.
template <typename Options>
run::Settings common_settings(const Options& options) {
  run::Settings settings;
  settings.batch = options.batch;
  settings.memory = options.memory;
  settings.given = options.given;
  settings.parts = options.parts;
  settings.threads = options.threads;
  settings.lanes = options.lanes;
  settings.seed = options.seed;
  settings.backend = options.backend;
  settings.times = options.times;
  settings.tune = options.tune;
  settings.precision = options.precision;
  return settings;
}

}  // namespace api
}  // namespace plimsoll
