#pragma once

// Small models and checks that several tests of layers use.

#include <functional>
#include <string>

#include "base/error.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::layers::testing {

using Object = Config::Object;
using Array = Config::Array;

// [null, dims…]
inline Config batch_shape_config(const std::vector<int64_t>& dims) {
  Array shape = {Config()};
  for (int64_t dim : dims) shape.emplace_back(dim);
  return Object{{"batch_shape", std::move(shape)}};
}

inline Tensor add_input(Model& model, const std::vector<int64_t>& dims) {
  return model.add_input(batch_shape_config(dims));
}

// What `body` throws; its kind must be `kind`.
inline std::string error_of(const std::function<void()>& body, ErrorKind kind = ErrorKind::kModel) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind() == kind ? error.message()
                                : "another kind: " + std::string(to_string(error.kind()));
  }
  return "nothing was thrown";
}

// Conv 2 of 3×3 relu · MaxPooling · Flatten · Dropout · Dense 3 softmax on (6, 6, 1).
inline Model small_cnn() {
  Model model("small", ModelKind::kSequential);
  add_input(model, {6, 6, 1});
  model.append("Conv2D", Object{{"filters", 2}, {"kernel_size", 3}, {"activation", "relu"}});
  model.append("MaxPooling2D", Object{});
  model.append("Flatten", Object{});
  model.append("Dropout", Object{{"rate", 0.5}});
  model.append("Dense", Object{{"units", 3}, {"activation", "softmax"}});
  return model;
}

inline CompileOptions compile_options(std::string_view optimizer, std::string_view loss,
                                      const std::vector<std::string>& metrics = {}) {
  CompileOptions options;
  options.optimizer = parse_optimizer(optimizer);
  options.losses = {parse_loss(loss)};
  if (!metrics.empty()) {
    options.metrics.emplace_back();
    for (const std::string& metric : metrics) {
      options.metrics[0].push_back(parse_metric(metric));
    }
  }
  return options;
}

}  // namespace plimsoll::layers::testing
