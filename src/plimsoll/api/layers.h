#pragma once

// Keras's layers, with Keras's argument names, defaults and meaning.
//
// What has many arguments takes them by name: Conv2D(32, 3, {.padding = pl::same, .use_bias =
// false}). An empty `name` gives Keras's own ("conv2d", "conv2d_1"). `trainable = false` freezes a
// layer: no gradient, no optimizer state. Images are channels last: (height, width, channels).

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/tensor.h"

namespace plimsoll {

// An activation by Keras's name. Any of Keras's names may be given, the usual ones are below.
class ActivationFunction {
 public:
  constexpr explicit ActivationFunction(const char* name) : name_(name) {}
  constexpr const char* name() const { return name_; }

 private:
  const char* name_;
};
// NOLINTBEGIN(readability-identifier-naming): they are called as in Keras.
inline constexpr ActivationFunction linear{"linear"};
inline constexpr ActivationFunction relu{"relu"};
inline constexpr ActivationFunction sigmoid{"sigmoid"};
inline constexpr ActivationFunction softmax{"softmax"};
inline constexpr ActivationFunction tanh{"tanh"};
inline constexpr ActivationFunction elu{"elu"};
inline constexpr ActivationFunction selu{"selu"};
inline constexpr ActivationFunction gelu{"gelu"};
inline constexpr ActivationFunction silu{"silu"};
inline constexpr ActivationFunction softplus{"softplus"};
// NOLINTEND(readability-identifier-naming)

enum class Padding { kValid, kSame };
// NOLINTBEGIN(readability-identifier-naming)
inline constexpr Padding valid = Padding::kValid;
inline constexpr Padding same = Padding::kSame;
// NOLINTEND(readability-identifier-naming)

// One number for height and width, or both.
struct Pair {
  Pair(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  Pair(int64_t rows, int64_t columns) : height(rows), width(columns) {}
  int64_t height;
  int64_t width;
};

// By Keras's name ("he_normal", "TruncatedNormal") with Keras's arguments ({"stddev", 0.02}); an
// empty name is the layer's default.
struct Initializer {
  std::string name{};
  std::vector<std::pair<std::string, double>> arguments{};
};

// Added to the loss: l1 Σ|w| + l2 Σw².
struct Regularizer {
  double l1 = 0;
  double l2 = 0;
};

struct LayerOptions {
  std::string name{};
  bool trainable = true;
};

struct DenseOptions {
  ActivationFunction activation = linear;
  bool use_bias = true;
  Initializer kernel_initializer{};
  Initializer bias_initializer{};
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  std::string name{};
  bool trainable = true;
};
// (…, n) → (…, units)
class Dense : public Layer {
 public:
  explicit Dense(int64_t units, ActivationFunction activation = linear);
  Dense(int64_t units, const DenseOptions& options);
};

struct Conv2DOptions {
  ActivationFunction activation = linear;
  Pair strides = 1;
  Padding padding = valid;
  Pair dilation_rate = 1;
  int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer{};
  Initializer bias_initializer{};
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  std::string name{};
  bool trainable = true;
};
// (height, width, channels) → (height', width', filters)
class Conv2D : public Layer {
 public:
  Conv2D(int64_t filters, Pair kernel_size, ActivationFunction activation = linear);
  Conv2D(int64_t filters, Pair kernel_size, const Conv2DOptions& options);
};

struct PoolingOptions {
  std::optional<Pair> strides{};  // none: pool_size
  Padding padding = valid;
  std::string name{};
};
class MaxPooling2D : public Layer {
 public:
  explicit MaxPooling2D(Pair pool_size = 2, const PoolingOptions& options = {});
};
// The mean of what is in the window; padding does not count.
class AveragePooling2D : public Layer {
 public:
  explicit AveragePooling2D(Pair pool_size = 2, const PoolingOptions& options = {});
};

struct GlobalPoolingOptions {
  bool keepdims = false;
  std::string name{};
};
// (height, width, channels) → (channels)
class GlobalAveragePooling2D : public Layer {
 public:
  explicit GlobalAveragePooling2D(const GlobalPoolingOptions& options = {});
};
class GlobalMaxPooling2D : public Layer {
 public:
  explicit GlobalMaxPooling2D(const GlobalPoolingOptions& options = {});
};

class Flatten : public Layer {
 public:
  explicit Flatten(const LayerOptions& options = {});
};
// One sample's new shape; one -1 is worked out.
class Reshape : public Layer {
 public:
  explicit Reshape(const std::vector<int64_t>& target_shape, const LayerOptions& options = {});
};
class Activation : public Layer {
 public:
  explicit Activation(ActivationFunction activation, const LayerOptions& options = {});
};

struct ReLUOptions {
  std::optional<double> max_value{};
  double negative_slope = 0;
  double threshold = 0;
  std::string name{};
};
class ReLU : public Layer {
 public:
  explicit ReLU(const ReLUOptions& options = {});
};
class LeakyReLU : public Layer {
 public:
  explicit LeakyReLU(double negative_slope = 0.3, const LayerOptions& options = {});
};
class ELU : public Layer {
 public:
  explicit ELU(double alpha = 1.0, const LayerOptions& options = {});
};
class Softmax : public Layer {
 public:
  explicit Softmax(int64_t axis = -1, const LayerOptions& options = {});
};

// Zeroes a share of `rate` of its inputs in training and scales the others by 1 / (1 - rate).
class Dropout : public Layer {
 public:
  explicit Dropout(double rate, const LayerOptions& options = {});
};

struct BatchNormalizationOptions {
  int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string name{};
  bool trainable = true;
};
// Statistics are those of the whole batch, however small the slices that it is computed in.
class BatchNormalization : public Layer {
 public:
  explicit BatchNormalization(const BatchNormalizationOptions& options = {});
};

// The sum of tensors of one shape.
class Add : public Layer {
 public:
  explicit Add(const LayerOptions& options = {});
};
class Concatenate : public Layer {
 public:
  explicit Concatenate(int64_t axis = -1, const LayerOptions& options = {});
};
// {rows above and below, columns left and right}
class ZeroPadding2D : public Layer {
 public:
  explicit ZeroPadding2D(Pair padding = 1, const LayerOptions& options = {});
};
// x · scale + offset
class Rescaling : public Layer {
 public:
  explicit Rescaling(double scale, double offset = 0, const LayerOptions& options = {});
};

}  // namespace plimsoll
