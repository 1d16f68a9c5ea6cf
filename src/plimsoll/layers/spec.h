#pragma once

// Keras objects by name: "adam", {"class_name": "Adam", "config": {…}}, `adam(beta_1=0.8)`.
//
// Losses, metrics, optimizers, initializers and regularizers come in all three spellings, and under
// several names each ("mse", "MeanSquaredError"). A Spec is the one form behind them: the class
// name as Keras's serialization spells it, and its configuration.

#include <span>
#include <string>
#include <string_view>

#include "layers/config.h"

namespace plimsoll::layers {

struct Spec {
  std::string class_name;
  Config config;      // an object; empty where nothing was given
  std::string given;  // the name as it was written: metrics keep it in logs
  friend bool operator==(const Spec&, const Spec&) = default;
};

// A class and the names that mean it, compared without case; null-terminated short list.
struct KnownName {
  std::string_view class_name;
  std::string_view aliases;  // separated by blanks
};

// Reads a name or a serialized object. Throws kModel: what ("loss"), expected, received,
// did-you-mean.
Spec read_spec(const Config& value, std::string_view what, std::span<const KnownName> known);

// Reads the command line's spelling into {"class_name", "config"}. Throws kConfig.
Config parse_spec(std::string_view text, std::string_view what, std::span<const KnownName> known);

// {"module": …, "class_name": …, "config": …, "registered_name": null}, Keras 3's form.
Config serialized(std::string_view module, std::string_view class_name, Config config);

}  // namespace plimsoll::layers
