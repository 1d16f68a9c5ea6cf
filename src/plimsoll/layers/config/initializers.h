#pragma once

// Keras's initializers, as configuration and as nodes of the program "initialize".
//
// Distributions are Keras's; the numbers are not, because each weight draws from Philox by its own
// call site. Fans are those of keras.initializers.compute_fans.

#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"

namespace plimsoll::layers {

// A name ("glorot_uniform", "GlorotUniform") or Keras's object, completed to Keras's object. Throws
// kModel with a did-you-mean, or where its arguments are wrong.
Config complete_initializer(const Config& given);
std::vector<std::string> initializer_class_names();
// The same of a layer's key.
Config read_initializer(ConfigReader& reader, std::string_view key, std::string_view fallback);

// The same for a kernel of an equation: where it scales by fans and names no axes itself, its fans
// are the products over these axes of the kernel (Keras 3.15,
// EinsumDense._update_kernel_initializer).
Config with_fans(const Config& initializer, const std::vector<int64_t>& inputs,
                 const std::vector<int64_t>& outputs);

// The initializer of LSTM's bias, {"initializer": …}: ones for the forget gate, the given one for
// the others. No file says it.
inline constexpr std::string_view kUnitForgetBias = "UnitForgetBias";

// Appends the node that makes a weight of this shape. Throws kModel where the initializer cannot
// (an orthogonal vector).
graph::ValueId add_initializer(graph::GraphBuilder& builder, const Config& initializer,
                               const std::vector<int64_t>& shape, const std::string& name);

}  // namespace plimsoll::layers
