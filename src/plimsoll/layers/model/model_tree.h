#pragma once

// How Keras lists a model that was read from a file, where that is more than Model's flat list.
//
// Model knows layers of one level with one list of inputs and outputs. A file may have models
// inside models, ports by name, and sizes that it leaves open. The tree keeps what the file said,
// in Keras 3's words, so that the same model is written again; each leaf names the flat layer that
// computes it. Data only: formats makes it, formats writes it, and nobody plans by it.
//
//   file                                    tree                       Model
//   Sequential "net"                        net
//     Functional "body"                     ├ body                     body/conv, body/relu,
//       Conv2D "conv", ReLU "relu"          │ ├ conv → body/conv       head
//     Dense "head"                          │ └ relu → body/relu
//                                           └ head → head

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layers/config/config.h"
#include "layers/model/layer.h"

namespace plimsoll::layers {

struct ModelTree;

// Output `output` of the `call`-th call of a node.
struct TreeTensor {
  size_t node = 0;
  size_t call = 0;
  int output = 0;
  friend bool operator==(const TreeTensor&, const TreeTensor&) = default;
};

// One call. `args` and `kwargs` are those of the file with {"tensor": i} in place of inputs[i].
struct TreeCall {
  std::vector<TreeTensor> inputs{};
  Config args{};
  Config kwargs{};
  std::vector<ValueType> output_types{};  // where the model around it was called first
  friend bool operator==(const TreeCall&, const TreeCall&) = default;
};

struct TreeNode {
  std::string name{};
  std::string class_name{};
  std::string module{};  // "keras.layers"; of an operator "keras.src.ops.numpy"
  // As the file had it. Of a layer, only what differs from the flat layer's own is written.
  Config config{};
  std::string layer{};                       // the flat layer; empty where `model` is set
  std::shared_ptr<const ModelTree> model{};  // of a model inside the model
  std::vector<TreeCall> calls{};             // none in a Sequential
};

struct ModelTree {
  std::string name{};
  bool sequential = false;
  bool trainable = true;
  std::vector<TreeNode> nodes{};
  // Functional: one entry per input and output, in order; and the file's structure of them with
  // {"tensor": i} in place of each (a list, a name → tensor object, or one tensor alone).
  std::vector<TreeTensor> inputs{};
  std::vector<TreeTensor> outputs{};
  Config input_structure{};
  Config output_structure{};
};

}  // namespace plimsoll::layers
