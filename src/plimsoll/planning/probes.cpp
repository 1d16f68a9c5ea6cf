#include "planning/probes.h"

#include <utility>
#include <vector>

#include "layers/training/losses.h"
#include "layers/training/optimizers.h"

namespace plimsoll::planning {
namespace {

using layers::Config;
using layers::Tensor;

// A functional model under construction.
class Probe {
 public:
  explicit Probe(const char* name) : model_(name) {}
  Tensor input(Config::Array batch_shape, const char* dtype = "float32") {
    return model_.add_input(
        Config::Object{{"batch_shape", std::move(batch_shape)}, {"dtype", Config(dtype)}});
  }
  Tensor call(const char* layer, const std::vector<Tensor>& inputs, Config::Object config = {}) {
    return model_.call(model_.add_layer(layer, std::move(config)), inputs, Config())[0];
  }
  Tensor convolve(const char* layer, Tensor x, int64_t filters, int64_t size, int64_t stride = 1) {
    Config::Object config = {{"kernel_size", Config::Array{size, size}},
                             {"strides", Config::Array{stride, stride}},
                             {"padding", "same"},
                             {"use_bias", false}};
    if (filters > 0) config.emplace_back("filters", filters);
    return call(layer, {x}, std::move(config));
  }
  Tensor activate(Tensor x, const char* function) {
    return call("Activation", {x}, {{"activation", function}});
  }
  layers::Model finish(Tensor output) {
    model_.set_outputs({output});
    return std::move(model_);
  }

 private:
  layers::Model model_;
};

}  // namespace

layers::Model image_probe() {
  Probe net("rates_of_images");
  Config::Array shape(1);
  for (const int64_t size : {64, 64, 3}) shape.emplace_back(size);
  Tensor x = net.convolve("Conv2D", net.input(shape), 32, 3);
  x = net.call("ReLU", {net.call("BatchNormalization", {x})});
  Tensor y = net.convolve("Conv2D", x, 128, 1);
  y = net.activate(net.call("BatchNormalization", {y}), "silu");
  y = net.convolve("DepthwiseConv2D", y, 0, 3, 2);
  y = net.activate(net.call("BatchNormalization", {y}), "silu");
  Tensor gate = net.call("GlobalAveragePooling2D", {y}, {{"keepdims", true}});
  gate = net.activate(net.convolve("Conv2D", gate, 128, 1), "sigmoid");
  y = net.call("Multiply", {y, gate});
  y = net.call("BatchNormalization", {net.convolve("Conv2D", y, 64, 1)});
  Tensor z = net.convolve("Conv2D", net.call("MaxPooling2D", {x}), 64, 3);
  z = net.call("ReLU", {net.call("Add", {net.call("BatchNormalization", {z}), y})});
  // A convolution that a pooling is fused into.
  Tensor pooled =
      net.call("Conv2D", {x},
               {{"filters", 64}, {"kernel_size", 3}, {"padding", "same"}, {"activation", "relu"}});
  pooled = net.call("MaxPooling2D", {pooled});
  z = net.call("Concatenate", {z, y, pooled});
  z = net.call("AveragePooling2D", {net.convolve("DepthwiseConv2D", z, 0, 5)}, {{"pool_size", 2}});
  z = net.call("ReLU", {net.call("BatchNormalization", {net.convolve("Conv2D", z, 128, 3)})});
  // An image, as decoders end in.
  const Tensor image = net.convolve("Conv2DTranspose", y, 3, 4, 2);
  const Tensor means = net.call("GlobalAveragePooling2D", {net.activate(image, "tanh")});
  z = net.call("Flatten", {net.call("MaxPooling2D", {z})});
  z = net.call("Dropout", {net.call("Dense", {z}, {{"units", 256}, {"activation", "relu"}})},
               {{"rate", 0.25}});
  z = net.call("Concatenate", {z, means});
  return net.finish(net.call("Dense", {z}, {{"units", 10}, {"activation", "softmax"}}));
}

layers::Model sequence_probe() {
  Probe net("rates_of_sequences");
  Config::Array shape(1);
  shape.emplace_back(64);
  Tensor x = net.call("Embedding", {net.input(shape, "int32")},
                      {{"input_dim", 2000}, {"output_dim", 128}});
  const Tensor attended =
      net.call("MultiHeadAttention", {x, x}, {{"num_heads", 4}, {"key_dim", 32}});
  x = net.call("LayerNormalization", {net.call("Add", {x, attended})});
  Tensor y = net.call("Dense", {x}, {{"units", 512}, {"activation", "gelu"}});
  x = net.call("LayerNormalization",
               {net.call("Add", {x, net.call("Dense", {y}, {{"units", 128}})})});
  x = net.call("Multiply", {net.activate(x, "tanh"), net.activate(x, "sigmoid")});
  x = net.call("LSTM", {x}, {{"units", 128}, {"return_sequences", true}});
  x = net.call("GRU", {x}, {{"units", 64}});
  return net.finish(net.call("Dense", {x}, {{"units", 10}, {"activation", "softmax"}}));
}

layers::CompileOptions compile_probe(layers::Precision precision) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss("sparse_categorical_crossentropy")};
  compile.precision = precision;
  return compile;
}

}  // namespace plimsoll::planning
