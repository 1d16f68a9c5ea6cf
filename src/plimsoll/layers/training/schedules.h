#pragma once

// Keras's learning-rate schedules as configuration.

#include "graph/attributes.h"
#include "layers/config/config.h"

namespace plimsoll::layers {

// The attributes of a scheduled_rate node, of Keras's serialized schedule
// {"class_name": "CosineDecay", "config": {…}}. Throws kModel with a did-you-mean.
graph::Attributes read_schedule(const Config& config);

}  // namespace plimsoll::layers
