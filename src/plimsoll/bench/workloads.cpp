#include "bench/workloads.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::bench {
namespace {

using layers::Config;
using layers::Model;

Config::Array shape_of(const std::vector<int64_t>& shape) {
  Config::Array result = {Config()};
  for (const int64_t extent : shape) result.emplace_back(extent);
  return result;
}

Model sequential(const std::vector<int64_t>& shape, const char* dtype = "float32") {
  Model model("sequential", layers::ModelKind::kSequential);
  model.append(layers::kInputLayer,
               Config::Object{{"batch_shape", shape_of(shape)}, {"dtype", Config(dtype)}});
  return model;
}

void add_dense(Model& model, int64_t units, const char* activation) {
  model.append("Dense", Config::Object{{"units", units}, {"activation", activation}});
}

// Convolutions of 3×3 and ReLU with a pooling of 2×2 after each, flattened.
Model conv_pool(const std::vector<int64_t>& filters, const std::vector<int64_t>& shape) {
  Model model = sequential(shape);
  for (const int64_t count : filters) {
    model.append("Conv2D", Config::Object{{"filters", count},
                                          {"kernel_size", Config::Array{3, 3}},
                                          {"activation", "relu"}});
    model.append("MaxPooling2D", Config::Object{{"pool_size", Config::Array{2, 2}}});
  }
  model.append("Flatten", Config::Object{});
  return model;
}

Model s0a() {
  Model model = conv_pool({32, 64}, {256, 256, 3});
  add_dense(model, 1, "sigmoid");
  return model;
}

Model s0c() {
  Model model = sequential({128}, "int64");
  model.append("Embedding", Config::Object{{"input_dim", 20000}, {"output_dim", 256}});
  model.append("LSTM", Config::Object{{"units", 64}});
  add_dense(model, 1, "sigmoid");
  return model;
}

Model s1a() {
  Model model = conv_pool({32}, {28, 28, 3});
  add_dense(model, 10, "softmax");
  return model;
}

Model s1c() {
  Model model = conv_pool({64, 128}, {64, 64, 3});
  add_dense(model, 256, "relu");
  add_dense(model, 10, "softmax");
  return model;
}

Model s2() {
  Model model = conv_pool({32, 64}, {32, 32, 3});
  add_dense(model, 10, "linear");
  return model;
}

Model dense_net(int64_t features, const std::vector<int64_t>& units, int64_t outputs,
                const char* activation) {
  Model model = sequential({features});
  for (const int64_t count : units) add_dense(model, count, "relu");
  add_dense(model, outputs, activation);
  return model;
}

constexpr const char* kBinary = "binary_crossentropy";
constexpr const char* kSparse = "sparse_categorical_crossentropy";
constexpr const char* kSparseLogits = "sparse_categorical_crossentropy(from_logits=true)";

struct Recipe {
  const char* name;
  Model (*build)();
  const char* loss;
  bool accuracy;
  int64_t batch;
  int64_t steps;
  DType stored = DType::kFloat32;
};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> kRecipes = {
      {"S0a", s0a, kBinary, true, 128, 4},
      {"S0b", s0a, kBinary, true, 32, 8},
      {"S0c", s0c, kBinary, true, 32, 40},
      {"S1a", s1a, kSparse, false, 256, 60},
      {"S1b", [] { return dense_net(10, {100}, 10, "softmax"); }, kSparse, false, 32, 2000},
      {"S1c", s1c, kSparse, false, 64, 12},
      {"S2", s2, "mse", false, 32, 100},
      {"S4", [] { return dense_net(1000, {128}, 1, "sigmoid"); }, kBinary, true, 1024, 100,
       DType::kFloat64},
      {"S4b", [] { return dense_net(1000, {128}, 1, "sigmoid"); }, kBinary, true, 32, 1000,
       DType::kFloat64},
      {"S4L",
       [] {
         return dense_net(1000, {512, 256, 128}, 1, "sigmoid");
       },
       kBinary, true, 1024, 40, DType::kFloat64},
      {"S4s",
       [] {
         return dense_net(1000, {64, 32}, 1, "sigmoid");
       },
       kBinary, true, 1024, 100, DType::kFloat64},
      {"ResNet50", resnet50, kSparse, false, 32, 3},
      {"MobileNetV2", mobilenet_v2, kSparse, false, 32, 3},
      {"U-Net", [] { return unet(256, 32); }, kBinary, false, 8, 3},
      {"GPT-small", [] { return gpt(6, 384, 6, 256, 8192); }, kSparseLogits, false, 8, 3},
      {"GPT", [] { return gpt(12, 768, 12, 256, 50257); }, kSparseLogits, false, 2, 2},
  };
  return kRecipes;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
    return names;
  }();
  return kNames;
}

Workload make_workload(std::string_view name) {
  const auto found = std::ranges::find(recipes(), name, &Recipe::name);
  if (found == recipes().end()) {
    throw Error(ErrorKind::kConfig, "bench: expected a workload or a model file, received \"" +
                                        std::string(name) + "\"." +
                                        did_you_mean(name, workload_names()) +
                                        " `plimsoll bench --list` names the workloads.");
  }
  Workload workload{found->name, found->build(), {}, found->batch, found->steps, found->stored};
  workload.compile.optimizer = layers::parse_optimizer("adam");
  workload.compile.losses = {layers::parse_loss(found->loss)};
  if (found->accuracy) workload.compile.metrics = {{layers::parse_metric("accuracy")}};
  return workload;
}

}  // namespace plimsoll::bench
