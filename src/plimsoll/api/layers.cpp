#include "api/layers.h"

#include "api/spec_impl.h"

namespace plimsoll {
namespace {

using api::LayerSpec;
using layers::Config;

using Spec = std::shared_ptr<const LayerSpec>;

// A configuration argument by argument; what is left out is Keras's default.
class SpecWriter {
 public:
  SpecWriter(std::string class_name, const std::string& name, bool trainable = true)
      : spec_{std::move(class_name), Config(Config::Object{})} {
    if (!name.empty()) set("name", Config(name));
    if (!trainable) set("trainable", Config(false));
  }

  SpecWriter& set(const char* key, Config value) {
    spec_.config.set(key, std::move(value));
    return *this;
  }
  SpecWriter& set(const char* key, Pair value) {
    return set(key, Config::Array{Config(value.height), Config(value.width)});
  }
  SpecWriter& set(const char* key, Padding value) {
    return set(key, Config(value == Padding::kSame ? "same" : "valid"));
  }
  SpecWriter& set(const char* key, ActivationFunction value) {
    return set(key, Config(value.name()));
  }
  SpecWriter& set(const char* key, const Initializer& value) {
    if (value.name.empty()) return *this;
    Config::Object arguments;
    for (const auto& [name, number] : value.arguments) arguments.emplace_back(name, number);
    return set(key, Config(Config::Object{{"class_name", Config(value.name)},
                                          {"config", Config(std::move(arguments))}}));
  }
  SpecWriter& set(const char* key, const Regularizer& value) {
    if (value.l1 == 0 && value.l2 == 0) return *this;
    return set(
        key, Config(Config::Object{{"class_name", Config("L1L2")},
                                   {"config", Config(Config::Object{{"l1", Config(value.l1)},
                                                                    {"l2", Config(value.l2)}})}}));
  }

  Spec finish() { return std::make_shared<LayerSpec>(std::move(spec_)); }

 private:
  LayerSpec spec_;
};

Spec dense(int64_t units, const DenseOptions& options) {
  return SpecWriter("Dense", options.name, options.trainable)
      .set("units", Config(units))
      .set("activation", options.activation)
      .set("use_bias", Config(options.use_bias))
      .set("kernel_initializer", options.kernel_initializer)
      .set("bias_initializer", options.bias_initializer)
      .set("kernel_regularizer", options.kernel_regularizer)
      .set("bias_regularizer", options.bias_regularizer)
      .finish();
}

Spec conv2d(int64_t filters, Pair kernel_size, const Conv2DOptions& options) {
  return SpecWriter("Conv2D", options.name, options.trainable)
      .set("filters", Config(filters))
      .set("kernel_size", kernel_size)
      .set("strides", options.strides)
      .set("padding", options.padding)
      .set("dilation_rate", options.dilation_rate)
      .set("groups", Config(options.groups))
      .set("activation", options.activation)
      .set("use_bias", Config(options.use_bias))
      .set("kernel_initializer", options.kernel_initializer)
      .set("bias_initializer", options.bias_initializer)
      .set("kernel_regularizer", options.kernel_regularizer)
      .set("bias_regularizer", options.bias_regularizer)
      .finish();
}

Spec pooling(const char* class_name, Pair pool_size, const PoolingOptions& options) {
  return SpecWriter(class_name, options.name)
      .set("pool_size", pool_size)
      .set("strides", options.strides.value_or(pool_size))
      .set("padding", options.padding)
      .finish();
}

Spec global_pooling(const char* class_name, const GlobalPoolingOptions& options) {
  return SpecWriter(class_name, options.name).set("keepdims", Config(options.keepdims)).finish();
}

SpecWriter plain(const char* class_name, const LayerOptions& options) {
  return SpecWriter(class_name, options.name, options.trainable);
}

Spec relu_layer(const ReLUOptions& options) {
  SpecWriter writer("ReLU", options.name);
  if (options.max_value) writer.set("max_value", Config(*options.max_value));
  return writer.set("negative_slope", Config(options.negative_slope))
      .set("threshold", Config(options.threshold))
      .finish();
}

Spec reshape(const std::vector<int64_t>& target_shape, const LayerOptions& options) {
  Config::Array dims;
  for (const int64_t dim : target_shape) dims.emplace_back(dim);
  return plain("Reshape", options).set("target_shape", Config(std::move(dims))).finish();
}

Spec batch_normalization(const BatchNormalizationOptions& options) {
  return SpecWriter("BatchNormalization", options.name, options.trainable)
      .set("axis", Config(options.axis))
      .set("momentum", Config(options.momentum))
      .set("epsilon", Config(options.epsilon))
      .set("center", Config(options.center))
      .set("scale", Config(options.scale))
      .finish();
}

}  // namespace

Dense::Dense(int64_t units, ActivationFunction activation)
    : Dense(units, DenseOptions{.activation = activation}) {}
Dense::Dense(int64_t units, const DenseOptions& options) : Layer(dense(units, options)) {}

Conv2D::Conv2D(int64_t filters, Pair kernel_size, ActivationFunction activation)
    : Conv2D(filters, kernel_size, Conv2DOptions{.activation = activation}) {}
Conv2D::Conv2D(int64_t filters, Pair kernel_size, const Conv2DOptions& options)
    : Layer(conv2d(filters, kernel_size, options)) {}

MaxPooling2D::MaxPooling2D(Pair pool_size, const PoolingOptions& options)
    : Layer(pooling("MaxPooling2D", pool_size, options)) {}
AveragePooling2D::AveragePooling2D(Pair pool_size, const PoolingOptions& options)
    : Layer(pooling("AveragePooling2D", pool_size, options)) {}
GlobalAveragePooling2D::GlobalAveragePooling2D(const GlobalPoolingOptions& options)
    : Layer(global_pooling("GlobalAveragePooling2D", options)) {}
GlobalMaxPooling2D::GlobalMaxPooling2D(const GlobalPoolingOptions& options)
    : Layer(global_pooling("GlobalMaxPooling2D", options)) {}

Flatten::Flatten(const LayerOptions& options) : Layer(plain("Flatten", options).finish()) {}
Reshape::Reshape(const std::vector<int64_t>& target_shape, const LayerOptions& options)
    : Layer(reshape(target_shape, options)) {}
Activation::Activation(ActivationFunction activation, const LayerOptions& options)
    : Layer(plain("Activation", options).set("activation", activation).finish()) {}
ReLU::ReLU(const ReLUOptions& options) : Layer(relu_layer(options)) {}
LeakyReLU::LeakyReLU(double negative_slope, const LayerOptions& options)
    : Layer(plain("LeakyReLU", options).set("negative_slope", Config(negative_slope)).finish()) {}
ELU::ELU(double alpha, const LayerOptions& options)
    : Layer(plain("ELU", options).set("alpha", Config(alpha)).finish()) {}
Softmax::Softmax(int64_t axis, const LayerOptions& options)
    : Layer(plain("Softmax", options).set("axis", Config(axis)).finish()) {}

Dropout::Dropout(double rate, const LayerOptions& options)
    : Layer(plain("Dropout", options).set("rate", Config(rate)).finish()) {}
BatchNormalization::BatchNormalization(const BatchNormalizationOptions& options)
    : Layer(batch_normalization(options)) {}

Add::Add(const LayerOptions& options) : Layer(plain("Add", options).finish()) {}
Concatenate::Concatenate(int64_t axis, const LayerOptions& options)
    : Layer(plain("Concatenate", options).set("axis", Config(axis)).finish()) {}
ZeroPadding2D::ZeroPadding2D(Pair padding, const LayerOptions& options)
    : Layer(plain("ZeroPadding2D", options).set("padding", padding).finish()) {}
Rescaling::Rescaling(double scale, double offset, const LayerOptions& options)
    : Layer(plain("Rescaling", options)
                .set("scale", Config(scale))
                .set("offset", Config(offset))
                .finish()) {}

}  // namespace plimsoll
