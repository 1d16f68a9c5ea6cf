#include "property/random_network.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/hash.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "ops/training/losses.h"

namespace plimsoll::property {
namespace {

using graph::Attributes;
using graph::GraphBuilder;
using graph::StateId;
using graph::StateRole;
using graph::ValueId;
using graph::ValueType;
using Ints = std::vector<int64_t>;

template <size_t kCount>
const char* pick(Random& random, const std::array<const char*, kCount>& names) {
  return names[static_cast<size_t>(random.between(0, static_cast<int64_t>(kCount) - 1))];
}

class NetworkMaker {
 public:
  NetworkMaker(uint64_t seed, bool training, const NetworkOptions& options)
      : builder_(ops::registry()),
        seed_(seed),
        training_(training),
        one_image_(options.one_image),
        mixed_(options.mixed) {
    if (options.groups) group_ = Random(seed + 815).between(1, 7);
  }

  graph::Graph make() {
    Random random(seed_);
    const bool image = one_image_ || random.chance(75);
    std::vector<int64_t> shape;
    if (one_image_) {
      shape = {random.between(20, 40), random.between(6, 9), random.between(1, 3)};
    } else if (image) {
      shape = {random.between(4, 8), random.between(4, 8), random.between(1, 3)};
    } else {
      shape = {random.between(2, 12)};
    }
    ValueId x = in_bf16(builder_.input("x", {DType::kFloat32, batch_shape(shape)}));
    const int64_t layers = one_image_ ? random.between(3, 8) : random.between(1, 6);
    for (int64_t layer = 0; layer < layers; ++layer) {
      builder_.set_layer("layer" + std::to_string(layer));
      Random own(seed_ * 1000 + static_cast<uint64_t>(layer) + 7);
      x = add_layer(own, x);
      if (group_ == 0 || layer > 0) continue;
      builder_.set_layer("norm");
      x = batch_norm(own, x);
    }
    add_head(random, x);
    return builder_.finish();
  }

 private:
  ValueType type(ValueId value) const { return builder_.type(value); }
  int64_t dim(ValueId value, int d) const { return type(value).shape[d].count; }
  int rank(ValueId value) const { return type(value).shape.rank(); }
  int64_t last(ValueId value) const { return dim(value, rank(value) - 1); }

  // A network of mixed precision has the value in bfloat16, or in float32 again.
  ValueId cast(ValueId x, DType dtype) {
    if (!mixed_) return x;
    const std::string to(to_string(dtype));
    return builder_.call("cast", builder_.graph().value(x).name + "/" + to, {x}, {{"dtype", to}});
  }
  ValueId in_bf16(ValueId x) { return cast(x, DType::kBFloat16); }

  ValueId weight(const std::string& name, const Ints& dims, bool trainable = true) {
    const StateId id = builder_.state({.name = name,
                                       .type = {DType::kFloat32, fixed_shape(dims)},
                                       .role = StateRole::kWeight,
                                       .layer = builder_.layer(),
                                       .trainable = trainable,
                                       .incoming = {},
                                       .write = {}});
    const ValueId value = builder_.read(id);
    if (trainable && training_) trainable_.emplace_back(id, value);
    return value;
  }

  StateId slot(const std::string& name, ValueType type, StateRole role) {
    return builder_.state({.name = name,
                           .type = std::move(type),
                           .role = role,
                           .layer = "",
                           .trainable = false,
                           .incoming = {},
                           .write = {}});
  }

  std::string named(const std::string& part) const { return builder_.layer() + "/" + part; }

  ValueId activation(Random& random, ValueId x) {
    static constexpr std::array<const char*, 9> kKinds = {
        "relu", "relu", "relu", "sigmoid", "tanh", "elu", "softplus", "silu", "gelu"};
    return builder_.call("activation", named("activation"), {x}, {{"kind", pick(random, kKinds)}});
  }

  ValueId conv2d(Random& random, ValueId x) {
    const int64_t groups = last(x) % 2 == 0 && random.chance(25) ? 2 : 1;
    const int64_t filters = groups * random.between(1, 3);
    const int64_t kernel = random.between(1, std::min<int64_t>(3, std::min(dim(x, 1), dim(x, 2))));
    const int64_t stride = random.between(1, 2);
    const bool same = random.chance(50);
    const int64_t before = same ? (kernel - 1) / 2 : 0;
    const int64_t after = same ? kernel - 1 - before : 0;
    const bool bias = random.chance(60);
    std::vector<ValueId> inputs = {
        x, in_bf16(weight(named("kernel"), {kernel, kernel, last(x) / groups, filters},
                          random.chance(85)))};
    if (bias) inputs.push_back(weight(named("bias"), {filters}));
    return builder_.call("conv2d", named("conv2d"), inputs,
                         {{"filters", filters},
                          {"kernel_size", Ints{kernel, kernel}},
                          {"strides", Ints{stride, stride}},
                          {"padding", Ints{before, after, before, after}},
                          {"dilation_rate", Ints{1, 1}},
                          {"groups", groups},
                          {"use_bias", bias},
                          {"activation", random.chance(40) ? "relu" : "linear"}});
  }

  ValueId pool(Random& random, ValueId x) {
    const int64_t size = random.between(1, std::min<int64_t>(2, std::min(dim(x, 1), dim(x, 2))));
    const Attributes attributes = {{"pool_size", Ints{size, size}},
                                   {"strides", Ints{size, size}},
                                   {"padding", Ints{0, 0, 0, 0}}};
    if (random.chance(40)) return builder_.call("avg_pool2d", named("pool"), {x}, attributes);
    const graph::NodeId node = builder_.add("max_pool2d", named("pool"), {x}, attributes);
    return builder_.graph().node(node).outputs[0];
  }

  ValueId flatten(ValueId x) {
    if (rank(x) == 2) return x;
    return builder_.call("reshape", named("flatten"), {x},
                         {{"shape", Ints{type(x).shape.elements_per_sample()}}});
  }

  ValueId dense(ValueId x, int64_t units, bool bias, const std::string& name) {
    std::vector<ValueId> inputs = {x, in_bf16(weight(name + "/kernel", {last(x), units}))};
    if (bias) inputs.push_back(weight(name + "/bias", {units}));
    return builder_.call("dense", name, inputs,
                         {{"units", units}, {"use_bias", bias}, {"activation", "linear"}});
  }

  // One weight with two uses, so that its gradient is a chain of accumulates.
  ValueId shared_dense(Random& random, ValueId x) {
    x = flatten(x);
    const int64_t units = last(x);
    const ValueId kernel = in_bf16(weight(named("kernel"), {units, units}));
    const Attributes attributes = {{"units", units}, {"use_bias", false}, {"activation", "linear"}};
    const ValueId first = builder_.call("dense", named("first"), {x, kernel}, attributes);
    const ValueId middle = activation(random, first);
    const ValueId second = builder_.call("dense", named("second"), {middle, kernel}, attributes);
    return random.chance(50) ? builder_.call("add", named("add"), {second, x}) : second;
  }

  ValueId dropout(Random& random, ValueId x) {
    if (!training_) return x;
    return builder_.call(
        "dropout", named("dropout"), {x},
        {{"rate", 0.125 * static_cast<double>(random.between(1, 5))}, {"site", ++sites_}});
  }

  ValueId batch_norm(Random& random, ValueId x) {
    const int64_t channels = last(x);
    const ValueType per_channel{DType::kFloat32, fixed_shape(Ints{channels})};
    const bool scale = random.chance(70);
    const bool center = random.chance(70);
    std::vector<ValueId> parameters;
    if (scale) parameters.push_back(weight(named("gamma"), {channels}));
    if (center) parameters.push_back(weight(named("beta"), {channels}));
    const StateId mean = slot(named("moving_mean"), per_channel, StateRole::kMovingStatistic);
    const StateId variance =
        slot(named("moving_variance"), per_channel, StateRole::kMovingStatistic);
    const Attributes attributes = {{"epsilon", 1e-3}, {"scale", scale}, {"center", center}};
    std::vector<ValueId> inputs = {x};
    if (!training_) {
      inputs.insert(inputs.end(), {builder_.read(mean), builder_.read(variance)});
      inputs.insert(inputs.end(), parameters.begin(), parameters.end());
      return builder_.call("batch_norm_inference", named("batch_norm"), inputs, attributes);
    }
    if (group_ > 0) {
      groups_.push_back({mean, variance, x});
      inputs.insert(inputs.end(), parameters.begin(), parameters.end());
      Attributes grouped = attributes;
      grouped.set("group", group_);
      return builder_.call("batch_norm_groups", named("batch_norm"), inputs, grouped);
    }
    const ValueId moments = builder_.call("channel_moments", named("moments"), {x});
    inputs.push_back(moments);
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    moving_.push_back({mean, moments, 0, type(x).shape.elements_per_sample() / channels});
    moving_.push_back({variance, moments, 1, type(x).shape.elements_per_sample() / channels});
    return builder_.call("batch_norm", named("batch_norm"), inputs, attributes);
  }

  // x beside or on top of a layer of it.
  ValueId branch(Random& random, ValueId x) {
    const ValueId left = activation(random, x);
    const ValueId right =
        builder_.call("scale_shift", named("scale_shift"), {x}, {{"scale", 0.5}, {"offset", 0.25}});
    switch (random.between(0, 3)) {
      case 0:
        return builder_.call("add", named("add"), {left, right});
      case 1:
        return builder_.call("multiply", named("multiply"), {left, right});
      case 2:
        return builder_.call("subtract", named("subtract"), {x, left});
      default:
        return builder_.call("concat", named("concat"), {left, x, right}, {{"axis", -1}});
    }
  }

  ValueId image_layer(Random& random, ValueId x) {
    switch (random.between(0, one_image_ ? 5 : 7)) {
      case 0:
      case 1:
      case 2:
        return conv2d(random, x);
      case 3:
        return pool(random, x);
      case 4:
        return batch_norm(random, x);
      case 5:
        return builder_.call("zero_pad2d", named("pad"), {x},
                             {{"padding", Ints{random.between(0, 1), random.between(0, 1), 1, 0}}});
      case 6:
        return builder_.call("global_average_pool2d", named("global_pool"), {x},
                             {{"keepdims", false}});
      default:
        return flatten(x);
    }
  }

  ValueId add_layer(Random& random, ValueId x) {
    if (rank(x) == 4 && random.chance(65)) return image_layer(random, x);
    switch (random.between(0, one_image_ ? 3 : 6)) {
      case 0:
        return activation(random, x);
      case 1:
        return batch_norm(random, x);
      case 2:
        return dropout(random, x);
      case 3:
        return branch(random, x);
      case 4:
        return last(flatten(x)) <= 64 ? shared_dense(random, x) : activation(random, x);
      default:
        return dense(flatten(x), random.between(1, 9), random.chance(70), named("dense"));
    }
  }

  // Per-sample loss of (B, n) predictions; `elements` losses a sample.
  ValueId sample_loss(Random& random, ValueId logits, int64_t& elements) {
    elements = 1;
    const int64_t classes = last(logits);
    const int64_t kind = random.between(0, 5);
    if (kind <= 1) {
      const ValueId labels = builder_.input("labels", {DType::kInt32, batch_shape(Ints{})});
      labels_ = labels;
      return ops::sparse_crossentropy_from_logits(builder_, "crossentropy", logits, labels);
    }
    static constexpr std::array<const char*, 4> kLosses = {
        "categorical_crossentropy_logits", "binary_crossentropy_logits", "mean_squared_error",
        "mean_absolute_error"};
    const ValueId target = builder_.input("target", {DType::kFloat32, batch_shape(Ints{classes})});
    return builder_.call(kLosses[static_cast<size_t>(kind - 2)], "loss", {logits, target});
  }

  void add_head(Random& random, ValueId x) {
    builder_.set_layer("head");
    const ValueId logits = cast(
        dense(flatten(x), random.between(2, 7), random.chance(80), "head/dense"), DType::kFloat32);
    builder_.set_layer("");
    builder_.set_stage(graph::Stage::kLoss);
    int64_t elements = 1;
    const ValueId losses = sample_loss(random, logits, elements);
    std::vector<ValueId> summed = {losses};
    if (random.chance(30)) {
      summed.push_back(builder_.input("sample_weight", {DType::kFloat32, batch_shape(Ints{})}));
    }
    const ValueId sum = builder_.call("batch_sum", "loss/sum", summed);
    ValueId loss =
        builder_.call("divide_by_count", "loss/mean", {sum}, {{"elements_per_sample", elements}});
    add_metric(random, logits, sum);
    const bool regularized = random.chance(30);
    if (training_ && regularized && !trainable_.empty()) {
      const ValueId penalty =
          builder_.call(random.chance(50) ? "sum_squares" : "sum_abs", "loss/penalty",
                        {trainable_.front().second}, {{"factor", 0.01}});
      loss = builder_.call("add", "loss/total", {loss, penalty});
    }
    if (training_) add_updates(random, loss);
    builder_.output(loss);
    if (!training_ || random.chance(30)) builder_.output(logits);
  }

  void add_to(const std::string& name, ValueId value) {
    const StateId state = slot(name, {DType::kFloat32, Shape()}, StateRole::kMetric);
    builder_.write(state, builder_.call("add", name + "/add", {builder_.read(state), value}));
  }

  void add_metric(Random& random, ValueId logits, ValueId loss_sum) {
    builder_.set_stage(graph::Stage::kMetric);
    if (random.chance(60)) add_to("metric/loss", loss_sum);
    if (labels_.valid() && random.chance(70)) {
      const ValueId hits =
          builder_.call("sparse_categorical_accuracy", "metric/hits", {labels_, logits});
      add_to("metric/accuracy", builder_.call("batch_sum", "metric/sum", {hits}));
    }
  }

  void add_updates(Random& random, ValueId loss) {
    std::vector<ValueId> targets;
    for (const auto& [state, value] : trainable_) targets.push_back(value);
    std::vector<ValueId> gradients = graph::add_gradients(builder_, loss, targets);
    builder_.set_stage(graph::Stage::kUpdate);
    clip(gradients);
    const int64_t optimizer = random.between(0, 3);
    const ValueId rate = builder_.read(
        slot("learning_rate", {DType::kFloat32, Shape()}, StateRole::kHyperparameter));
    StateId iterations;
    if (optimizer == 2)
      iterations = slot("iterations", {DType::kInt64, Shape()}, StateRole::kCounter);
    for (size_t i = 0; i < trainable_.size(); ++i) {
      if (gradients[i].valid()) add_update(optimizer, i, gradients[i], rate, iterations);
    }
    if (iterations.valid()) {
      builder_.write(iterations, builder_.call("increment", "iterations/increment",
                                               {builder_.read(iterations)}));
    }
    for (const Moving& moving : moving_) {
      const ValueId updated = builder_.call(
          "moving_average", builder_.graph().state(moving.state).name + "/update",
          {builder_.read(moving.state), moving.moments},
          {{"momentum", 0.75}, {"row", moving.row}, {"elements_per_sample", moving.elements}});
      builder_.write(moving.state, updated);
    }
    for (const Groups& groups : groups_) {
      const graph::NodeId node =
          builder_.add("moving_moments", builder_.graph().state(groups.mean).name + "/update",
                       {groups.x, builder_.read(groups.mean), builder_.read(groups.variance)},
                       {{"momentum", 0.75}, {"group", group_}});
      const std::vector<ValueId> next = builder_.graph().node(node).outputs;
      builder_.write(groups.mean, next[0]);
      builder_.write(groups.variance, next[1]);
    }
  }

  // By the norm of each, or of all, in some networks.
  void clip(std::vector<ValueId>& gradients) {
    const bool global = seed_ % 4 == 1;
    if (!global && seed_ % 4 != 2) return;
    std::vector<ValueId> squares(gradients.size());
    ValueId total;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      squares[i] = builder_.call("sum_squares", "clip/squares", {gradients[i]}, {{"factor", 1.0}});
      total = total.valid() ? builder_.call("add", "clip/total", {total, squares[i]}) : squares[i];
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      gradients[i] = builder_.call("clip_gradient", "clip/clipped",
                                   {gradients[i], global ? total : squares[i]},
                                   {{"kind", global ? "global" : "norm"}, {"limit", 0.25}});
    }
  }

  void add_update(int64_t optimizer, size_t i, ValueId gradient, ValueId rate, StateId iterations) {
    const auto& [state, value] = trainable_[i];
    const std::string name = builder_.graph().state(state).name;
    const ValueType weight_type = type(value);
    std::vector<ValueId> inputs = {value, gradient};
    std::vector<StateId> written = {state};
    const auto add_slot = [&](const std::string& suffix) {
      written.push_back(slot(name + "/" + suffix, weight_type, StateRole::kOptimizerSlot));
      inputs.push_back(builder_.read(written.back()));
    };
    Attributes attributes;
    const char* op = "sgd";
    if (optimizer == 1) {
      op = "sgd_momentum";
      add_slot("m");
      attributes = {{"momentum", 0.5}, {"nesterov", true}};
    } else if (optimizer == 2) {
      op = "adam";
      add_slot("m");
      add_slot("v");
      attributes = {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}};
    } else if (optimizer == 3) {
      op = "rmsprop";
      add_slot("v");
      attributes = {{"rho", 0.9}, {"epsilon", 1e-7}};
    }
    inputs.push_back(rate);
    if (optimizer == 2) inputs.push_back(builder_.read(iterations));
    const graph::NodeId node = builder_.add(op, name + "/update", inputs, attributes);
    const std::vector<ValueId> outputs = builder_.graph().node(node).outputs;
    for (size_t o = 0; o < outputs.size(); ++o) builder_.write(written[o], outputs[o]);
  }

  struct Moving {
    StateId state;
    ValueId moments;
    int64_t row = 0;
    int64_t elements = 0;  // per sample
  };

  struct Groups {
    StateId mean, variance;
    ValueId x;
  };

  GraphBuilder builder_;
  uint64_t seed_;
  bool training_;
  bool one_image_;  // of many rows, and an image to the end
  bool mixed_;
  int64_t group_ = 0;  // samples whose statistics are taken together; 0: the whole batch
  int64_t sites_ = 0;
  ValueId labels_;
  std::vector<std::pair<StateId, ValueId>> trainable_;
  std::vector<Moving> moving_;
  std::vector<Groups> groups_;
};

}  // namespace

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  return mix_bits(state_);
}

int64_t Random::between(int64_t least, int64_t most) {
  return least + static_cast<int64_t>(next() % static_cast<uint64_t>(most - least + 1));
}

graph::ProgramSet random_network(uint64_t seed, const NetworkOptions& options) {
  if (options.one_image) {
    return {.programs = {{"train", NetworkMaker(seed, true, options).make(), 1}}};
  }
  Random random(seed + 4711);
  const int64_t batch = random.between(2, 21);
  graph::ProgramSet set;
  set.programs.push_back({"train", NetworkMaker(seed, true, options).make(), batch});
  if (random.chance(40)) {
    set.programs.push_back({"train_tail", set.programs[0].graph, random.between(1, batch - 1)});
  }
  if (random.chance(50)) {
    set.programs.push_back(
        {"evaluate", NetworkMaker(seed, false, options).make(), random.between(1, 12)});
  }
  return set;
}

}  // namespace plimsoll::property
