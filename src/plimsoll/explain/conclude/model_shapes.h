#pragma once

// The layers of a user's model as far as a failure log can mention them: what their outputs and
// weights are shaped like. Filled by the caller from a model file; this folder reads no models.

#include <cstdint>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace plimsoll::explain {

struct ModelLayer {
  std::string name;
  std::vector<int64_t> output;                // per sample, without the batch axis
  std::vector<std::vector<int64_t>> weights;  // as stored
  bool operator==(const ModelLayer&) const = default;
};

struct ModelShapes {
  std::string spelled;  // the model's file as a word of a command; "": none was named
  std::vector<ModelLayer> layers;
  bool operator==(const ModelShapes&) const = default;
};

// Layers whose output, with one more axis in front, or whose weight is shaped like `shape`. The
// front axis is the batch; channels first and channels last both count. At most 8, in the model's
// order; layers that the operator's name mentions come first.
std::vector<LayerMatch> match_layers(const ModelShapes& model, const std::vector<int64_t>& shape,
                                     std::string_view op);

}  // namespace plimsoll::explain
