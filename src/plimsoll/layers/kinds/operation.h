#pragma once

// Operands of Keras's operators (keras.ops) between layers, and NumPy's broadcasting of them.
//
// An operand is a value of the graph or a number or array that the file holds. Arrays become frozen
// states of the layer; a number stays one as long as an operator takes it.

#include <optional>
#include <string>
#include <vector>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// Operators that the layer Operation computes, by Keras's class names, sorted.
std::vector<std::string> operation_names();

struct Operand {
  ValueId value{};                 // invalid: a number
  std::optional<double> number{};  // set: a number
};

// Number or array of a configuration: plain, nested lists, or Keras's __tensor__ and __numpy__
// objects. Throws kModel by context.refuse.
Operand constant_operand(LayerContext& context, const Config& value, DType dtype);

// An operand as a value: numbers become scalars.
ValueId as_value(LayerContext& context, const Operand& operand, DType dtype);

// A value without a batch, repeated over the batch of a shape.
ValueId over_batch(LayerContext& context, ValueId value, const Shape& shape);

// Both values at one shape and one type (float32 where either is of floating point). Throws kModel
// where NumPy would not, or only by moving the batch.
void broadcast_together(LayerContext& context, ValueId& a, ValueId& b);
// Both values at one shape, whatever their types.
void stretch_together(LayerContext& context, ValueId& a, ValueId& b);

}  // namespace plimsoll::layers
