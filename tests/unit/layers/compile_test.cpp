#include <gtest/gtest.h>

#include "layers/config/spelling.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::error_of;
using testing::Object;

ValueType output_of(int64_t columns) {
  return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(columns)})};
}

TEST(SpellingTest, ReadsNamesAndArguments) {
  EXPECT_EQ(parse_spelling("adam", "--optimizer"), (Spelling{"adam", {}}));
  EXPECT_EQ(parse_spelling("adam()", "--optimizer"), (Spelling{"adam", {}}));
  EXPECT_EQ(parse_spelling(" sgd ( momentum = 0.9 , nesterov=true,name='x y' ) ", "--optimizer"),
            (Spelling{"sgd", {{"momentum", 0.9}, {"nesterov", true}, {"name", "x y"}}}));
  EXPECT_EQ(parse_spelling("a(b=1e-3,c=2,d=null,e=word)", "--loss"),
            (Spelling{"a", {{"b", 1e-3}, {"c", 2}, {"d", Config()}, {"e", "word"}}}));
}

TEST(SpellingTest, RefusesWhatIsBroken) {
  const auto refusal = [](std::string_view text) {
    return error_of([&] { parse_spelling(text, "--optimizer"); }, ErrorKind::kConfig);
  };
  const std::string hint = ". Write it like 'adam(learning_rate=0.001,beta_1=0.9)'.";
  EXPECT_EQ(refusal(""), "--optimizer '': expected a name, received the end" + hint);
  EXPECT_EQ(refusal("adam(beta_1)"),
            "--optimizer 'adam(beta_1)': expected \"=\" after beta_1, received \")\"" + hint);
  EXPECT_EQ(refusal("adam(beta_1=0.9"),
            "--optimizer 'adam(beta_1=0.9': expected \",\" or \")\", received the end" + hint);
  EXPECT_EQ(refusal("adam(beta_1=)"),
            "--optimizer 'adam(beta_1=)': expected a value, received \")\"" + hint);
  EXPECT_EQ(refusal("adam(a=1,a=2)"),
            "--optimizer 'adam(a=1,a=2)': expected each option once, received a twice" + hint);
  EXPECT_EQ(refusal("adam) x"), "--optimizer 'adam) x': expected the end, received \") x\"" + hint);
}

// Names of the optimizer's variables; weights whose shape does not matter are vectors.
std::vector<std::string> optimizer_state_names(const Optimizer& optimizer,
                                               const std::vector<std::string>& weights,
                                               const std::vector<int64_t>& shape = {3}) {
  std::vector<TensorInfo> infos;
  for (const std::string& name : weights) infos.push_back({name, DType::kFloat32, shape});
  std::vector<std::string> names;
  for (const TensorInfo& state : optimizer_states(optimizer, infos)) names.push_back(state.name);
  return names;
}

TEST(OptimizerTest, DefaultsAreKeras) {
  const Optimizer sgd = read_optimizer("sgd");
  EXPECT_EQ(sgd.op, "sgd");
  EXPECT_EQ(sgd.learning_rate, 0.01);
  EXPECT_TRUE(sgd.slots.empty());
  const Optimizer adam = read_optimizer("Adam");
  EXPECT_EQ(adam.op, "adam");
  EXPECT_EQ(adam.learning_rate, 0.001);
  EXPECT_EQ(adam.attributes.get_double("beta_2"), 0.999);
  EXPECT_EQ(adam.attributes.get_double("epsilon"), 1e-7);
  EXPECT_FALSE(adam.attributes.has("weight_decay"));
  EXPECT_EQ(adam.slots, (std::vector<std::string>{"momentum", "velocity"}));
  EXPECT_EQ(read_optimizer("adamw").attributes.get_double("weight_decay"), 0.004);
  const Optimizer rmsprop = read_optimizer("rmsprop");
  EXPECT_EQ(rmsprop.op, "rmsprop");
  EXPECT_EQ(rmsprop.attributes.get_double("rho"), 0.9);
}

TEST(OptimizerTest, OptionsChooseTheOperator) {
  EXPECT_EQ(read_optimizer(parse_optimizer("sgd(momentum=0.9,nesterov=true)")).op, "sgd_momentum");
  EXPECT_EQ(read_optimizer(parse_optimizer("adam(amsgrad=true)")).op, "adam_amsgrad");
  EXPECT_EQ(read_optimizer(parse_optimizer("rmsprop(momentum=0.5)")).op, "rmsprop_momentum");
  EXPECT_EQ(read_optimizer(parse_optimizer("rmsprop(centered=true)")).op, "rmsprop_centered");
  const Optimizer both = read_optimizer(parse_optimizer("rmsprop(centered=true,momentum=0.5)"));
  EXPECT_EQ(both.op, "rmsprop_centered_momentum");
  EXPECT_EQ(both.slots, (std::vector<std::string>{"velocity", "average_gradient", "momentum"}));
}

TEST(OptimizerTest, ReadsKerasFiles) {
  // keras.optimizers.serialize(keras.optimizers.Adam()) of 3.15
  const Config file = Object{{"module", "keras.optimizers"},
                             {"class_name", "Adam"},
                             {"config", Object{{"name", "adam"},
                                               {"learning_rate", 0.0010000000474974513},
                                               {"weight_decay", Config()},
                                               {"clipnorm", Config()},
                                               {"global_clipnorm", Config()},
                                               {"clipvalue", Config()},
                                               {"use_ema", false},
                                               {"ema_momentum", 0.99},
                                               {"ema_overwrite_frequency", Config()},
                                               {"loss_scale_factor", Config()},
                                               {"gradient_accumulation_steps", Config()},
                                               {"beta_1", 0.9},
                                               {"beta_2", 0.999},
                                               {"epsilon", 1e-07},
                                               {"amsgrad", false}}},
                             {"registered_name", Config()}};
  EXPECT_EQ(read_optimizer(file).learning_rate, 0.0010000000474974513);
  const Config old =
      Object{{"class_name", "Custom>Adam"}, {"config", Object{{"lr", 0.5}, {"decay", 0.0}}}};
  EXPECT_EQ(read_optimizer(old).learning_rate, 0.5);
}

// Keras 3.5 writes every optimizer's options of this one, too.
TEST(OptimizerTest, ReadsLossScalesOfOldFiles) {
  Object options{{"name", "loss_scale_optimizer"}, {"weight_decay", Config()},
                 {"clipnorm", Config()},           {"global_clipnorm", Config()},
                 {"clipvalue", Config()},          {"inner_optimizer", "adam"}};
  const auto file = [&] {
    return Config(Object{{"class_name", "LossScaleOptimizer"}, {"config", options}});
  };
  EXPECT_EQ(read_optimizer(file()).class_name, "Adam");
  options[2].second = 1.0;
  const std::string refused = error_of([&] { read_optimizer(file()); }, ErrorKind::kModel);
  EXPECT_NE(refused.find("clipnorm: expected no such option"), std::string::npos) << refused;
}

TEST(OptimizerTest, Refusals) {
  const auto usage = [](std::string_view text) {
    return error_of([&] { parse_optimizer(text); }, ErrorKind::kConfig);
  };
  EXPECT_EQ(usage("adan"),
            "--optimizer: optimizer: expected one of adadelta, adafactor, adagrad, adam, adamw, "
            "adamax, ftrl, lamb, lion, muon, nadam, rmsprop, sgd, schedulefreeadamw, received "
            "\"adan\". Did you mean \"adam\"?");
  EXPECT_EQ(usage("adam(beta1=0.9)"),
            "--optimizer: adam, beta1: expected no such option, received 0.9. Did you mean "
            "\"beta_1\"?");
  EXPECT_EQ(usage("adam(beta_1=2)"),
            "--optimizer: adam, beta_1: expected a number from 0.0 to 1.0, received 2.");
  EXPECT_EQ(usage("sgd(learning_rate=-1)"),
            "--optimizer: sgd, learning_rate: expected a number of at least 0.0, received -1.");
  EXPECT_EQ(usage("sgd(learning_rate=2e30)"),
            "--optimizer: sgd, learning_rate: expected a number from 0.0 to 1e+30, received "
            "2e+30.");
  EXPECT_EQ(usage("sgd(nesterov=3)"),
            "--optimizer: sgd, nesterov: expected true or false, received 3.");
  EXPECT_NE(usage("adam(clipnorm=1,clipvalue=2)").find("one way to clip"), std::string::npos);
  const Config schedule =
      Object{{"class_name", "SGD"},
             {"config", Object{{"learning_rate", Object{{"class_name", "ExponentialDekay"}}}}}};
  EXPECT_NE(error_of([&] { read_optimizer(schedule); }).find("\"ExponentialDecay\""),
            std::string::npos);
}

TEST(OptimizerTest, ClipsGradients) {
  EXPECT_EQ(read_optimizer(parse_optimizer("sgd(clipvalue=0.5)")).clip, "value");
  EXPECT_EQ(read_optimizer(parse_optimizer("sgd(clipnorm=0.5)")).clip, "norm");
  const Optimizer global = read_optimizer(parse_optimizer("adam(global_clipnorm=2)"));
  EXPECT_EQ(global.clip, "global");
  EXPECT_EQ(global.clip_limit, 2.0);
  EXPECT_EQ(read_optimizer(parse_optimizer("sgd(clipnorm=0)")).clip, "");
}

// keras.optimizers.schedules.CosineDecay(0.1, 100, warmup_target=0.2, warmup_steps=10) serialized.
TEST(OptimizerTest, ASchedulesRateIsNoVariable) {
  const Config file = Object{
      {"class_name", "SGD"},
      {"config", Object{{"momentum", 0.9},
                        {"learning_rate", Object{{"module", "keras.optimizers.schedules"},
                                                 {"class_name", "CosineDecay"},
                                                 {"config", Object{{"initial_learning_rate", 0.1},
                                                                   {"decay_steps", 100},
                                                                   {"alpha", 0.0},
                                                                   {"name", "CosineDecay"},
                                                                   {"warmup_target", 0.2},
                                                                   {"warmup_steps", 10}}},
                                                 {"registered_name", Config()}}}}}};
  const Optimizer optimizer = read_optimizer(file);
  ASSERT_TRUE(optimizer.schedule);
  EXPECT_EQ(optimizer.schedule->get_string("kind"), "cosine");
  EXPECT_EQ(optimizer_state_names(optimizer, {"d/kernel"}),
            (std::vector<std::string>{"optimizer/iteration", "optimizer/d/kernel/momentum"}));
}

// [v.path for v in optimizer.variables] of Keras 3.15, in our names.
TEST(OptimizerTest, SlotsThatDifferFromWeightToWeight) {
  const Optimizer muon = read_optimizer(parse_optimizer("muon(adam_lr_ratio=0.5)"));
  EXPECT_EQ(muon.attributes.get_double("weight_decay"), 0.008);  // of a half of the rate
  EXPECT_EQ(optimizer_state_names(muon, {"d/kernel", "my_Embedding/table"}, {3, 2}),
            (std::vector<std::string>{
                "optimizer/iteration", "optimizer/learning_rate", "optimizer/d/kernel/momentum",
                "optimizer/my_Embedding/table/momentum", "optimizer/my_Embedding/table/velocity"}));
  const Optimizer adafactor = read_optimizer("adafactor");
  const std::vector<TensorInfo> states =
      optimizer_states(adafactor, {{"k", DType::kFloat32, {2, 3, 4}}, {"b", DType::kFloat32, {4}}});
  ASSERT_EQ(states.size(), 8u);
  EXPECT_EQ(states[2], (TensorInfo{"optimizer/k/r", DType::kFloat32, {2, 3}}));
  EXPECT_EQ(states[3], (TensorInfo{"optimizer/k/c", DType::kFloat32, {2, 4}}));
  EXPECT_EQ(states[4], (TensorInfo{"optimizer/k/velocity", DType::kFloat32, {2, 3, 4}}));
  EXPECT_EQ(states[5], (TensorInfo{"optimizer/b/r", DType::kFloat32, {}}));
}

TEST(OptimizerTest, MuonsPatterns) {
  const auto muon = [](const char* pattern) {
    return Config(Object{{"class_name", "Muon"},
                         {"config", Object{{"exclude_layers", Config::Array{pattern}}}}});
  };
  const Optimizer some = read_optimizer(muon("^he.d/"));
  EXPECT_FALSE(takes(*some.muon, "head/kernel", 2));
  EXPECT_TRUE(takes(*some.muon, "forehead/kernel", 2));
  EXPECT_FALSE(takes(*some.muon, "conv/kernel", 4));
  EXPECT_FALSE(takes(*read_optimizer(muon("/kernel$")).muon, "head/kernel", 2));
  EXPECT_TRUE(takes(*read_optimizer(muon("/kern$")).muon, "head/kernel", 2));
  EXPECT_FALSE(takes(*read_optimizer(muon("ad/k")).muon, "head/kernel", 2));
  EXPECT_FALSE(takes(*read_optimizer(muon("$")).muon, "head/kernel", 2));
  for (const char* pattern : {"(a*)*b", "a|b", "a+", "[a]", "a^", "\\d"}) {
    EXPECT_NE(error_of([&] { read_optimizer(muon(pattern)); }).find("special characters"),
              std::string::npos)
        << pattern;
  }
}

TEST(OptimizerTest, VariablesStandInKerasOrder) {
  const std::vector<std::string> weights = {"d/kernel", "d/bias"};
  EXPECT_EQ(
      optimizer_state_names(read_optimizer(parse_optimizer("adam(amsgrad=true)")), weights),
      (std::vector<std::string>{
          "optimizer/iteration", "optimizer/learning_rate", "optimizer/d/kernel/momentum",
          "optimizer/d/kernel/velocity", "optimizer/d/bias/momentum", "optimizer/d/bias/velocity",
          "optimizer/d/kernel/velocity_hat", "optimizer/d/bias/velocity_hat"}));
  EXPECT_EQ(optimizer_state_names(
                read_optimizer(parse_optimizer("rmsprop(centered=true,momentum=0.5)")), {"w"}),
            (std::vector<std::string>{"optimizer/iteration", "optimizer/learning_rate",
                                      "optimizer/w/velocity", "optimizer/w/momentum",
                                      "optimizer/w/average_gradient"}));
  EXPECT_EQ(optimizer_state_names(read_optimizer("ftrl"), weights),
            (std::vector<std::string>{"optimizer/iteration", "optimizer/learning_rate",
                                      "optimizer/d/kernel/accumulator", "optimizer/d/kernel/linear",
                                      "optimizer/d/bias/accumulator", "optimizer/d/bias/linear"}));
  EXPECT_EQ(optimizer_state_names(read_optimizer("sgd"), weights),
            (std::vector<std::string>{"optimizer/iteration", "optimizer/learning_rate"}));
}

TEST(LossTest, NamesClassesAndOptions) {
  EXPECT_EQ(read_loss("mse", output_of(2)).kind, LossKind::kMeanSquaredError);
  EXPECT_EQ(read_loss("MAE", output_of(2)).kind, LossKind::kMeanAbsoluteError);
  EXPECT_EQ(read_loss("bce", output_of(2)).name, "binary_crossentropy");
  EXPECT_EQ(read_loss("ce", output_of(1)).kind, LossKind::kBinaryCrossentropy);
  const Loss sparse = read_loss(
      parse_loss("sparse_categorical_crossentropy(from_logits=true,reduction=sum)"), output_of(3));
  EXPECT_TRUE(sparse.from_logits);
  EXPECT_EQ(sparse.reduction, Reduction::kSum);
  EXPECT_EQ(parse_loss("bce").to_json(),
            "{\"class_name\": \"BinaryCrossentropy\", \"config\": {}}");
  const Config function = Object{{"module", "builtins"},
                                 {"class_name", "function"},
                                 {"config", "mean_squared_error"},
                                 {"registered_name", "function"}};
  EXPECT_EQ(read_loss(function, output_of(2)).kind, LossKind::kMeanSquaredError);
}

TEST(LossTest, FurtherLossesAreOperatorsWithAttributes) {
  const Loss huber = read_loss(parse_loss("huber(delta=0.5)"), output_of(3));
  EXPECT_EQ(huber.kind, LossKind::kDense);
  EXPECT_EQ(huber.op, "huber");
  EXPECT_EQ(huber.attributes, (graph::Attributes{{"delta", 0.5}}));
  const Loss focal = read_loss(
      parse_loss("BinaryFocalCrossentropy(gamma=3,apply_class_balancing=true)"), output_of(1));
  EXPECT_EQ(focal.attributes,
            (graph::Attributes{{"alpha", 0.25}, {"gamma", 3.0}, {"apply_class_balancing", true}}));
  EXPECT_EQ(read_loss("kld", output_of(3)).op, "kl_divergence");
  EXPECT_EQ(read_loss("logcosh", output_of(3)).op, "log_cosh");
  EXPECT_EQ(loss_class("kullback_leibler_divergence"), "KLDivergence");
}

TEST(OptimizerTest, FurtherOptimizersHaveKerasDefaults) {
  const Optimizer adagrad = read_optimizer("adagrad");
  EXPECT_EQ(adagrad.op, "adagrad");
  EXPECT_EQ(initial_slot_value(adagrad, slot_state("d/kernel", "accumulator")), 0.1);
  EXPECT_EQ(initial_slot_value(read_optimizer("ftrl"), slot_state("w", "linear")), 0.0);
  EXPECT_EQ(read_optimizer("lion").attributes,
            (graph::Attributes{{"beta_1", 0.9}, {"beta_2", 0.99}}));
  EXPECT_EQ(read_optimizer("Adadelta").attributes,
            (graph::Attributes{{"rho", 0.95}, {"epsilon", 1e-7}}));
  EXPECT_TRUE(read_optimizer("nadam").counts);
  EXPECT_TRUE(read_optimizer("adamax").counts);
}

TEST(LossTest, TargetsAreLabelsOrOfTheOutputsShape) {
  const ValueType images{DType::kFloat32,
                         Shape({Dim::batch(), Dim::constant(4), Dim::constant(5)})};
  EXPECT_EQ(to_string(target_type(read_loss("mse", images), images).shape), "(B, 4, 5)");
  const ValueType labels =
      target_type(read_loss("sparse_categorical_crossentropy", images), images);
  EXPECT_EQ(to_string(labels.shape), "(B, 4)");
  EXPECT_EQ(labels.dtype, DType::kInt32);
}

TEST(LossTest, NamesThatAreReadAlike) {
  const std::string name = "kl_divergence";
  for (const char* given :
       {"kl_divergence", "KLDivergence", "kld", "KLD", "Kld", "kullback_leibler_divergence"}) {
    EXPECT_EQ(read_loss(given, output_of(3)).op, name) << given;
  }
  const Config wrapped = Object{{"class_name", "LossFunctionWrapper"},
                                {"config", Object{{"fn", "mse"}, {"name", "mine"}}}};
  EXPECT_EQ(read_loss(wrapped, output_of(3)).kind, LossKind::kMeanSquaredError);
  EXPECT_EQ(read_loss(wrapped, output_of(3)).name, "mine");
  EXPECT_TRUE(names_sparse_loss("sparse_categorical_crossentropy"));
  EXPECT_TRUE(names_sparse_loss(Object{{"class_name", "SparseCategoricalCrossentropy"}}));
  EXPECT_TRUE(names_sparse_loss(
      Object{{"class_name", "function"}, {"config", "sparse_categorical_crossentropy"}}));
  EXPECT_FALSE(names_sparse_loss("categorical_crossentropy"));
  EXPECT_FALSE(names_sparse_loss("sparse"));
  EXPECT_FALSE(names_sparse_loss(Config()));
}

TEST(LossTest, Refusals) {
  const auto usage = [](std::string_view text) {
    return error_of([&] { parse_loss(text); }, ErrorKind::kConfig);
  };
  EXPECT_NE(usage("binary_crossentopy").find("Did you mean \"binary_crossentropy\"?"),
            std::string::npos);
  EXPECT_NE(usage("mse(from_logits=true)").find("mean_squared_error, from_logits: expected no"),
            std::string::npos);
  EXPECT_NE(usage("mse(reduction=none)").find("a step needs one loss"), std::string::npos);
  EXPECT_NE(usage("sparse_categorical_crossentropy(ignore_class=void)").find("expected a number"),
            std::string::npos);
  const Config third = parse_loss("categorical_crossentropy(axis=2)");
  EXPECT_EQ(error_of([&] { read_loss(third, output_of(3)); }),
            "categorical_crossentropy, axis: expected -1 or 1, the last of (B, 3), received 2. Put "
            "the classes last.");
  EXPECT_EQ(error_of([] { read_loss("sparse_categorical_crossentropy", output_of(1)); }),
            "loss sparse_categorical_crossentropy: expected an output of two or more classes, "
            "received (B, 1). Use binary_crossentropy.");
  EXPECT_NE(error_of([] { read_loss("ce", output_of(3)); }).find("what labels are"),
            std::string::npos);
}

TEST(MetricTest, FunctionsInWrappers) {
  const auto wrapped = [](const Config& function) {
    return Config(Object{{"class_name", "MeanMetricWrapper"},
                         {"config", Object{{"name", "accuracy"}, {"fn", function}}}});
  };
  const Metric metric = read_metric(wrapped("binary_accuracy"), Loss(), output_of(1));
  EXPECT_EQ(metric.op, "binary_accuracy");
  EXPECT_EQ(metric.name, "accuracy");
  const Config object = Object{{"class_name", "function"}, {"config", "mean_absolute_error"}};
  EXPECT_EQ(read_metric(wrapped(object), Loss(), output_of(1)).op, "mean_absolute_error");
  EXPECT_EQ(read_metric("log_cosh_error", Loss(), output_of(1)).op, "log_cosh");
}

TEST(MetricTest, AccuracyIsWhatKerasTakesItFor) {
  Loss dense;
  Loss sparse;
  sparse.kind = LossKind::kSparseCategoricalCrossentropy;
  EXPECT_EQ(read_metric("accuracy", dense, output_of(1)).op, "binary_accuracy");
  EXPECT_EQ(read_metric("accuracy", dense, output_of(3)).op, "categorical_accuracy");
  EXPECT_EQ(read_metric("acc", sparse, output_of(3)).op, "sparse_categorical_accuracy");
  EXPECT_EQ(read_metric("acc", sparse, output_of(3)).name, "acc");
  EXPECT_EQ(read_metric("mse", dense, output_of(3)).name, "mse");
  EXPECT_EQ(read_metric("mse", dense, output_of(3)).op, "mean_squared_error");
  const Config object = Object{{"class_name", "MeanAbsoluteError"},
                               {"config", Object{{"name", "mine"}, {"dtype", "float32"}}}};
  EXPECT_EQ(read_metric(object, dense, output_of(3)).name, "mine");
  EXPECT_EQ(read_metric(Object{{"class_name", "MeanAbsoluteError"}}, dense, output_of(3)).name,
            "mean_absolute_error");
  EXPECT_EQ(read_metric(parse_metric("binary_accuracy(threshold=0.3)"), dense, output_of(3))
                .attributes.get_double("threshold"),
            0.3);
}

TEST(MetricTest, Refusals) {
  Loss sparse;
  sparse.kind = LossKind::kSparseCategoricalCrossentropy;
  sparse.name = "sparse_categorical_crossentropy";
  EXPECT_EQ(error_of([&] { read_metric("mse", sparse, output_of(3)); }),
            "metric mse: expected labels of the output's shape, received those of the loss "
            "sparse_categorical_crossentropy. Use accuracy, which fits them.");
  EXPECT_NE(error_of([] { parse_metric("accurac"); }, ErrorKind::kConfig)
                .find("Did you mean \"accuracy\"?"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::layers
