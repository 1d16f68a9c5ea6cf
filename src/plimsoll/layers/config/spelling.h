#pragma once

// The command line's spelling of an optimizer, a loss or a metric:
//
//   adam     'adam(learning_rate=0.001,beta_1=0.9)'     'sgd(momentum=0.9, nesterov=true)'
//
// Values are true, false, null, numbers and words (with or without quotes).

#include "layers/config/config.h"

namespace plimsoll::layers {

struct Spelling {
  std::string name;
  Config::Object arguments{};
  friend bool operator==(const Spelling&, const Spelling&) = default;
};

// `what` ("--optimizer") stands in front of messages. Throws kConfig.
Spelling parse_spelling(std::string_view text, std::string_view what);

// What Keras's files hold in place of an optimizer, a loss or a metric: a name, an object with
// class_name and config, or the description of a function, alone or in a wrapper. Throws kModel.
Spelling read_object(const Config& config, std::string_view what);

// {"class_name": …, "config": {…}}
Config make_object(std::string_view class_name, Config::Object arguments);

}  // namespace plimsoll::layers
