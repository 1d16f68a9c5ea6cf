// The larger networks, as Keras's applications and papers have them.

#include "bench/workloads.h"

namespace plimsoll::bench {
namespace {

using layers::Config;
using layers::Model;
using layers::Tensor;

// A functional model under construction: calls by class name.
class Network {
 public:
  explicit Network(const char* name) : model_(name) {}

  Tensor input(const Config::Array& batch_shape, const char* dtype = "float32") {
    return model_.add_input(Config::Object{{"batch_shape", batch_shape}, {"dtype", Config(dtype)}});
  }
  Tensor call(const char* layer, const std::vector<Tensor>& inputs, Config::Object config = {},
              const Config& arguments = Config()) {
    return model_.call(model_.add_layer(layer, std::move(config)), inputs, arguments)[0];
  }
  Model finish(Tensor output) {
    model_.set_outputs({output});
    return std::move(model_);
  }

  struct Convolution {
    int64_t filters = 0;  // 0: depthwise
    int64_t kernel = 1;
    int64_t stride = 1;
    const char* padding = "same";
    bool bias = false;
  };
  Tensor convolve(Tensor x, const Convolution& how) {
    Config::Object config = {{"kernel_size", Config::Array{how.kernel, how.kernel}},
                             {"strides", Config::Array{how.stride, how.stride}},
                             {"padding", how.padding},
                             {"use_bias", how.bias}};
    if (how.filters == 0) return call("DepthwiseConv2D", {x}, std::move(config));
    config.emplace_back("filters", how.filters);
    return call("Conv2D", {x}, std::move(config));
  }
  Tensor normalize(Tensor x, double epsilon = 1e-3, double momentum = 0.99) {
    return call("BatchNormalization", {x}, {{"epsilon", epsilon}, {"momentum", momentum}});
  }
  Tensor relu(Tensor x) { return call("ReLU", {x}); }
  Tensor pad(Tensor x, int64_t before, int64_t after) {
    const Config::Array sides = {before, after};
    return call("ZeroPadding2D", {x}, {{"padding", Config::Array{sides, sides}}});
  }
  Tensor classify(Tensor x, int64_t classes) {
    x = call("GlobalAveragePooling2D", {x});
    return call("Dense", {x}, {{"units", classes}, {"activation", "softmax"}});
  }

 private:
  Model model_;
};

constexpr double kResnetEpsilon = 1.001e-5;

Tensor bottleneck(Network& net, Tensor x, int64_t filters, int64_t stride, bool project) {
  Tensor shortcut = x;
  if (project) {
    shortcut =
        net.normalize(net.convolve(x, {4 * filters, 1, stride, "valid", true}), kResnetEpsilon);
  }
  Tensor y = net.convolve(x, {filters, 1, stride, "valid", true});
  y = net.relu(net.normalize(y, kResnetEpsilon));
  y = net.convolve(y, {filters, 3, 1, "same", true});
  y = net.relu(net.normalize(y, kResnetEpsilon));
  y = net.normalize(net.convolve(y, {4 * filters, 1, 1, "valid", true}), kResnetEpsilon);
  return net.relu(net.call("Add", {shortcut, y}));
}

// Expands `channels` by `factor`, convolves each channel, and projects to `filters`.
Tensor inverted_residual(Network& net, Tensor x, int64_t channels, int64_t filters, int64_t stride,
                         int64_t factor) {
  constexpr double kEpsilon = 1e-3;
  constexpr double kMomentum = 0.999;
  const auto clipped = [&](Tensor value) {
    return net.call("ReLU", {net.normalize(value, kEpsilon, kMomentum)}, {{"max_value", 6.0}});
  };
  Tensor y = x;
  if (factor > 1) y = clipped(net.convolve(y, {channels * factor}));
  if (stride == 2) y = net.pad(y, 0, 1);
  y = clipped(net.convolve(y, {0, 3, stride, stride == 2 ? "valid" : "same"}));
  y = net.normalize(net.convolve(y, {filters}), kEpsilon, kMomentum);
  return channels == filters && stride == 1 ? net.call("Add", {x, y}) : y;
}

}  // namespace

Model resnet50() {
  Network net("resnet50");
  Tensor x = net.input({Config(), 224, 224, 3});
  x = net.convolve(net.pad(x, 3, 3), {64, 7, 2, "valid", true});
  x = net.pad(net.relu(net.normalize(x, kResnetEpsilon)), 1, 1);
  x = net.call("MaxPooling2D", {x},
               {{"pool_size", Config::Array{3, 3}}, {"strides", Config::Array{2, 2}}});
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = bottleneck(net, x, int64_t{64} << stage, stride, block == 0);
    }
  }
  return net.finish(net.classify(x, 1000));
}

Model mobilenet_v2() {
  Network net("mobilenet_v2");
  struct Stage {
    int64_t factor, filters, blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const auto clipped = [&](Tensor value) {
    return net.call("ReLU", {net.normalize(value, 1e-3, 0.999)}, {{"max_value", 6.0}});
  };
  Tensor x = clipped(net.convolve(net.input({Config(), 224, 224, 3}), {32, 3, 2}));
  int64_t channels = 32;
  for (const Stage& stage : kStages) {
    for (int64_t block = 0; block < stage.blocks; ++block) {
      x = inverted_residual(net, x, channels, stage.filters, block == 0 ? stage.stride : 1,
                            stage.factor);
      channels = stage.filters;
    }
  }
  return net.finish(net.classify(clipped(net.convolve(x, {1280})), 1000));
}

Model unet(int64_t side, int64_t filters) {
  Network net("unet");
  const auto twice = [&](Tensor x, int64_t count) {
    for (int i = 0; i < 2; ++i) x = net.relu(net.normalize(net.convolve(x, {count, 3})));
    return x;
  };
  Tensor x = net.input({Config(), side, side, 3});
  std::vector<Tensor> skips;
  for (int level = 0; level < 4; ++level) {
    skips.push_back(twice(x, filters << level));
    x = net.call("MaxPooling2D", {skips.back()}, {{"pool_size", Config::Array{2, 2}}});
  }
  x = twice(x, filters << 4);
  for (int level = 3; level >= 0; --level) {
    const Tensor up = net.call("Conv2DTranspose", {x},
                               {{"filters", filters << level},
                                {"kernel_size", Config::Array{2, 2}},
                                {"strides", Config::Array{2, 2}}});
    x = twice(net.call("Concatenate", {skips[static_cast<size_t>(level)], up}), filters << level);
  }
  return net.finish(
      net.call("Conv2D", {x},
               {{"filters", 1}, {"kernel_size", Config::Array{1, 1}}, {"activation", "sigmoid"}}));
}

Model gpt(int64_t blocks, int64_t width, int64_t heads, int64_t length, int64_t vocabulary) {
  Network net("gpt");
  const Config::Object keyword = {{"use_causal_mask", true}};
  const Config causal = Config::Object{
      {"args", Config::Array{Config::Object{{"tensor", 0}}, Config::Object{{"tensor", 1}}}},
      {"kwargs", keyword}};
  const Config::Object norm = {{"epsilon", 1e-5}};
  Tensor x = net.call("Embedding", {net.input({Config(), length}, "int32")},
                      {{"input_dim", vocabulary}, {"output_dim", width}});
  for (int64_t i = 0; i < blocks; ++i) {
    Tensor y = net.call("LayerNormalization", {x}, norm);
    y = net.call("MultiHeadAttention", {y, y}, {{"num_heads", heads}, {"key_dim", width / heads}},
                 causal);
    x = net.call("Add", {x, y});
    y = net.call("LayerNormalization", {x}, norm);
    y = net.call("Dense", {y}, {{"units", 4 * width}, {"activation", "gelu"}});
    x = net.call("Add", {x, net.call("Dense", {y}, {{"units", width}})});
  }
  x = net.call("LayerNormalization", {x}, norm);
  return net.finish(net.call("Dense", {x}, {{"units", vocabulary}, {"use_bias", false}}));
}

}  // namespace plimsoll::bench
