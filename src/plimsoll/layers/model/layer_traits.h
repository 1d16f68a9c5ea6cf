#pragma once

// What must be known of a layer by its class alone, while models are read: before it is made, or of
// all layers alike. layers/kinds/layer_registry.cpp says it beside the layer's maker; nobody else
// tells layers apart by their names.

#include <cstdint>
#include <string_view>

namespace plimsoll::layers {

// The class that feeds a value into a model, and that of an operator node (kinds/operation.h).
inline constexpr std::string_view kInputLayer = "InputLayer";
inline constexpr std::string_view kOperation = "Operation";

// What a call may say in a file.
enum class CallForm : uint8_t {
  kInputs,    // its inputs and nothing else
  kWithMask,  // or one input and the mask that another layer made
  kWithMore,  // arguments of its own
};

// What becomes of masks where the call says nothing of them (masking.h).
enum class MaskUse : uint8_t {
  kEnds,    // the output has none
  kPasses,  // the output has the first input's: Keras's Layer.supports_masking
  kMerges,  // the output has the union of all
};

struct LayerTraits {
  MaskUse masks = MaskUse::kEnds;
  CallForm calls = CallForm::kInputs;
  bool takes_masks_off = false;  // a call takes masks off the values that it is called on
  // A call changes what the next one begins with; where it says "stateful", if it is.
  bool keeps_state = false;
  bool reads_numbers = false;  // its input is integers, and "input_dim" bounds them
  bool says_trainable = true;  // its constructor in Keras takes "trainable"
  // Files have "layer/kernel", or else "layer/embeddings", a second time, before its own weights.
  bool lists_inner_kernel = false;
  // It makes numbers of an input's strings or whole numbers, and stands directly after it.
  bool looks_up = false;
  // What Keras's code calls the class, which names its weights' group in a file; empty: the same.
  std::string_view code_name{};
  // The module of Keras that it is of, which a file must name; empty: keras.layers.
  std::string_view module{};
};

// What a class is that make_layer accepts; the defaults for any other.
LayerTraits layer_traits(std::string_view class_name);

}  // namespace plimsoll::layers
