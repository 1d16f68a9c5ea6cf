#pragma once

// What a call was given beyond its inputs, by the names of Keras's parameters.
//
// A call is recorded as Keras records it, {"args": […], "kwargs": {…}}, where {"tensor": i} stands
// for input i; or it has no record, and then the inputs are the first parameters in order.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "layers/model/layer.h"

namespace plimsoll::layers {

class CallArguments {
 public:
  // `parameters` are those of the layer's call, in order. Throws kModel by context.refuse where
  // the record has others.
  CallArguments(const LayerContext& context, size_t input_count,
                std::initializer_list<std::string_view> parameters);

  // Null where it was not given.
  const Config& get(std::string_view parameter) const;
  // Inputs that the parameter names, through lists; empty where it was not given.
  std::vector<size_t> tensors(std::string_view parameter) const;
  bool flag(std::string_view parameter, bool fallback) const;

 private:
  std::vector<std::pair<std::string, Config>> given_;
};

// A mask that the call's record gives by the name "mask" as its last input besides one other
// argument, as Keras does for layers that take one.
struct GivenMask {
  bool given = false;
  Config arguments{};  // without it; null where nothing else was given
};
GivenMask find_given_mask(const Config& arguments, size_t input_count);

// A mask that somebody gave, whatever its type: what is not zero counts.
ValueId as_bool(LayerContext& context, ValueId mask);

// {"tensor": i}: i; −1: something else.
int64_t tensor_index(const Config& value);
Config tensor_argument(size_t input);

}  // namespace plimsoll::layers
