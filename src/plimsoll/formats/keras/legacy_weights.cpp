#include "formats/keras/legacy_weights.h"

#include <array>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::formats {
namespace {

using layers::Config;

// The gates of a recurrent layer in Keras 1's order of weights, three for each gate: W, U, b.
struct SplitGates {
  std::string_view class_name;
  std::array<size_t, 4> gates;  // positions of Keras 2's gates among them
  size_t count;
};
constexpr std::array kSplitGates = {
    SplitGates{"LSTM", {0, 2, 1, 3}, 4},  // i, c, f, o became i, f, c, o
    SplitGates{"GRU", {0, 1, 2, 0}, 3},   // z, r, h
};

[[noreturn]] void refuse_count(const codec::Hdf5Reader& file, const LayerWeights& layer,
                               size_t received) {
  throw Error(
      ErrorKind::kModel,
      fmt::format("{}: [{}] expected {} weights, received {}. The weights belong to another model.",
                  file.name(), layer.name, layer.weights.size(), received));
}

// The class whose weights a layer holds: of the wrapped one, where it is a wrapper.
std::string inner_class(const LayerWeights& layer) {
  if (layer.class_name != "Bidirectional" && layer.class_name != "TimeDistributed") {
    return layer.class_name;
  }
  const Config* wrapped = layer.config.find("layer");
  const Config* name = wrapped == nullptr ? nullptr : wrapped->find("class_name");
  return name != nullptr && name->is_string() ? name->as_string() : layer.class_name;
}

// Until Keras 3 hard_sigmoid was clip(0.2 x + 0.5), and is clip(x / 6 + 0.5) since: the same of
// 1.2 x. So the gates keep what they compute, and their activation its name.
constexpr float kHardSigmoidScale = 1.2F;
constexpr size_t kCandidate = 2;  // of the gates of Keras 2 the one with the other activation

float gate_scale(const LayerWeights& layer, const Writer& writer) {
  const Config* config = &layer.config;
  if (const Config* wrapped = config->find("layer")) config = wrapped->find("config");
  const Config* name = config == nullptr ? nullptr : config->find("recurrent_activation");
  const bool old = writer.keras_major < 3;
  return old && name != nullptr && *name == Config("hard_sigmoid") ? kHardSigmoidScale : 1.0F;
}

// One direction's kernel, recurrent kernel and bias from three datasets for each gate.
void join_gates(const SplitGates& split, float scale, std::span<const TensorInfo> weights,
                std::span<const std::string> datasets, std::vector<StoredTensor>& tensors) {
  for (size_t part = 0; part < 3; ++part) {
    StoredTensor tensor{weights[part], {}};
    for (size_t gate = 0; gate < split.count; ++gate) {
      tensor.pieces.push_back({datasets[3 * split.gates[gate] + part]});
      if (gate != kCandidate && scale != 1) tensor.pieces.back().scales = {scale};
    }
    tensors.push_back(std::move(tensor));
  }
}

// Weights whose last dimension is all gates, and whose old gates are scaled.
void scale_gates(size_t gates, float scale, const LayerWeights& layer,
                 const std::vector<std::string>& datasets, std::vector<StoredTensor>& tensors) {
  std::vector<float> scales(gates, scale);
  scales[kCandidate] = 1;
  for (size_t i = 0; i < datasets.size(); ++i) {
    tensors.push_back({layer.weights[i], {{datasets[i], {}, {}, scales}}});
  }
}

// A recurrent layer's weights; false where they are stored as they are wanted.
bool match_recurrent(const LayerWeights& layer, const std::vector<std::string>& datasets,
                     const Writer& writer, std::vector<StoredTensor>& tensors) {
  const std::string class_name = inner_class(layer);
  const float scale = gate_scale(layer, writer);
  if (class_name.starts_with("ConvLSTM") && scale != 1 && layer.weights.size() == datasets.size()) {
    scale_gates(4, scale, layer, datasets, tensors);
    return true;
  }
  for (const SplitGates& split : kSplitGates) {
    if (split.class_name != class_name) continue;
    const size_t directions = layer.class_name == "Bidirectional" ? 2 : 1;
    const size_t each = 3 * split.count;
    if (layer.weights.size() == 3 * directions && datasets.size() == each * directions) {
      for (size_t i = 0; i < directions; ++i) {
        join_gates(split, scale, std::span(layer.weights).subspan(3 * i, 3),
                   std::span(datasets).subspan(each * i, each), tensors);
      }
      return true;
    }
    if (scale == 1 || layer.weights.size() != datasets.size()) return false;
    scale_gates(split.count, scale, layer, datasets, tensors);
    return true;
  }
  return false;
}

// A layer of cuDNN has two biases in one row, and kernels in an order of its own.
void refuse_cudnn(const codec::Hdf5Reader& file, const LayerWeights& layer,
                  const std::vector<std::string>& datasets) {
  const std::string class_name = inner_class(layer);
  if (class_name != "LSTM" && class_name != "GRU") return;
  if (datasets.size() != layer.weights.size() || datasets.size() % 3 != 0) return;
  const std::vector<int64_t>& wanted = layer.weights.back().shape;
  if (datasets.empty() || !file.is_dataset(datasets.back())) return;
  const std::vector<int64_t> stored = file.open(datasets.back())->info().shape;
  if (stored.size() != 1 || stored[0] != 2 * wanted.back()) return;
  throw Error(ErrorKind::kModel,
              file.name() + ": [" + layer.name + "] expected the weights of " + class_name +
                  ", received those of CuDNN" + class_name +
                  ", which lie in an order of cuDNN's own. In Keras 2 build the model with " +
                  class_name + ", load these weights, which converts them, and save it.");
}

bool channels_first(const LayerWeights& layer) {
  const Config* format = layer.config.find("data_format");
  return format != nullptr && format->is_string() && format->as_string() == "channels_first";
}

// How a convolution's kernel lies in a file of Keras 1.
StoredPiece first_keras_kernel(const LayerWeights& layer, const std::string& path,
                               const std::vector<int64_t>& stored) {
  const std::vector<int64_t>& shape = layer.weights[0].shape;
  if (layer.class_name == "Conv1D" && stored.size() == 4 && shape.size() == 3) {
    // (length, 1, channels, filters), before Keras 1.1 (filters, channels, length, 1).
    if (stored[0] == shape[0] && stored[1] == 1) return {path, {0, 2, 3}};
    return {path, {2, 1, 0}};
  }
  if (layer.class_name == "Conv2D" && channels_first(layer) && stored.size() == 4) {
    return {path, {2, 3, 1, 0}};
  }
  return {path};
}

}  // namespace

std::vector<StoredTensor> match_layer(const codec::Hdf5Reader& file, const LayerWeights& layer,
                                      const std::vector<std::string>& datasets,
                                      const Writer& writer) {
  std::vector<StoredTensor> tensors;
  refuse_cudnn(file, layer, datasets);
  if (match_recurrent(layer, datasets, writer, tensors)) return tensors;
  if (datasets.size() != layer.weights.size()) refuse_count(file, layer, datasets.size());
  for (size_t i = 0; i < datasets.size(); ++i) {
    StoredPiece piece{datasets[i]};
    if (i == 0 && writer.keras_major < 2 && file.is_dataset(datasets[i])) {
      piece = first_keras_kernel(layer, datasets[i], file.open(datasets[i])->info().shape);
    }
    tensors.push_back({layer.weights[i], {std::move(piece)}});
  }
  return tensors;
}

}  // namespace plimsoll::formats
