#include "layers/training/programs.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "graph/program.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "layers/training/batch_norm_groups.h"
#include "ops/registry.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using graph::Graph;
using testing::add_input;
using testing::compile_options;
using testing::error_of;
using testing::Object;
using testing::small_cnn;

const Graph& graph_of(const BuiltPrograms& built, std::string_view name) {
  const graph::Program* program = find_program(built.set, name);
  if (program == nullptr) throw std::runtime_error("no program " + std::string(name));
  return program->graph;
}

int count_ops(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const graph::Node& node : graph.nodes) count += node.op->name() == op ? 1 : 0;
  return count;
}

bool reads_or_writes(const Graph& graph, std::string_view state) {
  return find_state(graph, state).valid();
}

BatchSizes all_sizes() { return {8, 3, 16, 5, 16, 5}; }

// PLIMSOLL_UPDATE_GOLDEN=1 rewrites the file.
void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = "golden/layers/" + name;
  if (std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr) write_text_file(path, text);
  EXPECT_EQ(read_text_file(path, 1 << 20), text);
}

TEST(ProgramsTest, TextOfASmallCnn) {
  const BuiltPrograms built = build_programs(
      small_cnn(), compile_options("adam", "sparse_categorical_crossentropy", {"accuracy"}),
      {8, 0, 8, 0, 8, 0});
  expect_golden("small_cnn.txt", print(built.set));
}

TEST(ProgramsTest, NamesSizesInputsAndMetrics) {
  const BuiltPrograms built = build_programs(
      small_cnn(), compile_options("sgd", "sparse_categorical_crossentropy", {"accuracy"}),
      all_sizes());
  EXPECT_EQ(verify(built.set), std::nullopt);
  std::string programs;
  for (const graph::Program& program : built.set.programs) {
    programs += program.name + ":" + std::to_string(program.batch) + " ";
  }
  EXPECT_EQ(programs,
            "train:8 train_tail:3 evaluate:16 evaluate_tail:5 predict:16 predict_tail:5 "
            "initialize:1 ");
  ASSERT_EQ(built.train_inputs.size(), 2u);
  EXPECT_EQ(built.train_inputs[0].role, InputRole::kFeatures);
  EXPECT_EQ(to_string(built.train_inputs[0].shape), "(B, 6, 6, 1)");
  EXPECT_EQ(built.train_inputs[1].role, InputRole::kTarget);
  EXPECT_EQ(built.train_inputs[1].name, "dense");
  EXPECT_EQ(built.train_inputs[1].dtype, DType::kInt32);
  EXPECT_EQ(to_string(built.train_inputs[1].shape), "(B)");
  EXPECT_EQ(built.train_inputs[1].class_count, 3);
  ASSERT_EQ(built.predict_inputs.size(), 1u);
  EXPECT_EQ(built.predict_inputs[0], built.train_inputs[0]);
  EXPECT_EQ(
      built.metrics,
      (std::vector<MetricState>{
          {"loss", {"metrics/loss/total", "metrics/loss/count"}},
          {"accuracy", {"metrics/accuracy/total", "metrics/accuracy/count"}, {.grows = true}}}));
  EXPECT_EQ(built.learning_rate, "optimizer/learning_rate");
  for (const graph::Program& program : built.set.programs) {
    for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
      const auto& inputs =
          program.name.starts_with("predict") ? built.predict_inputs : built.train_inputs;
      EXPECT_EQ(program.graph.value(program.graph.inputs[i]).type,
                (ValueType{inputs[i].dtype, inputs[i].shape}));
    }
  }
}

TEST(ProgramsTest, TextOfAllProgramsRoundTrips) {
  const BuiltPrograms built = build_programs(
      small_cnn(), compile_options("rmsprop(momentum=0.9)", "sparse_categorical_crossentropy"),
      all_sizes());
  EXPECT_EQ(graph::parse_programs(print(built.set), ops::registry()), built.set);
}

TEST(ProgramsTest, DropoutIsForTrainingOnly) {
  const BuiltPrograms built = build_programs(
      small_cnn(), compile_options("sgd", "sparse_categorical_crossentropy"), {8, 0, 8, 0, 8, 0});
  EXPECT_EQ(count_ops(graph_of(built, "train"), "dropout"), 1);
  EXPECT_EQ(count_ops(graph_of(built, "train"), "dropout_grad"), 1);
  EXPECT_EQ(count_ops(graph_of(built, "evaluate"), "dropout"), 0);
  EXPECT_EQ(count_ops(graph_of(built, "predict"), "dropout"), 0);
}

TEST(ProgramsTest, EveryCallOfADropoutDrawsByItself) {
  Model model;
  const Tensor x = add_input(model, {4});
  const LayerId dropout = model.add_layer("Dropout", Object{{"rate", 0.5}});
  const Tensor once = model.call(dropout, {x})[0];
  const Tensor twice = model.call(dropout, {once})[0];
  model.set_outputs({model.call(model.add_layer("Dense", Object{{"units", 1}}), {twice})[0]});
  const BuiltPrograms built =
      build_programs(model, compile_options("sgd", "mse"), {8, 0, 0, 0, 0, 0});
  std::vector<int64_t> sites;
  for (const graph::Node& node : graph_of(built, "train").nodes) {
    if (node.op->name() == "dropout") sites.push_back(node.attributes.get_int("site"));
  }
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_NE(sites[0], sites[1]);
  EXPECT_GE(sites[0], 0);
}

TEST(ProgramsTest, TranspositionsBetweenChannelsFirstLayersFallAway) {
  const Config first = "channels_first";
  Model model("first", ModelKind::kSequential);
  add_input(model, {3, 8, 6});
  model.append("Conv2D", Object{{"filters", 4}, {"kernel_size", 3}, {"data_format", first}});
  model.append("BatchNormalization", Object{{"axis", 1}});
  model.append("ReLU", Object{});
  model.append("DepthwiseConv2D", Object{{"kernel_size", 3}, {"data_format", first}});
  model.append("MaxPooling2D", Object{{"pool_size", 2}, {"data_format", first}});
  model.append("Flatten", Object{{"data_format", first}});
  model.append("Dense", Object{{"units", 1}});
  EXPECT_EQ(to_string(model.type(model.outputs()[0].tensor).shape), "(B, 1)");
  const BuiltPrograms built =
      build_programs(model, compile_options("sgd", "mse"), {8, 0, 0, 0, 8, 0});
  // Only the model's input is transposed, and nobody wants its gradient.
  EXPECT_EQ(count_ops(graph_of(built, "train"), "transpose"), 1);
  EXPECT_EQ(count_ops(graph_of(built, "predict"), "transpose"), 1);
}

TEST(ProgramsTest, SequencesStayImagesBetweenLayersThatComputeThemSo) {
  Model model;
  const Tensor x = add_input(model, {16, 4});
  const auto append = [&](const char* layer, Object options, std::vector<Tensor> inputs) {
    return model.call(model.add_layer(layer, std::move(options)), inputs)[0];
  };
  const Object causal{{"filters", 4}, {"kernel_size", 2}, {"padding", "causal"}};
  Tensor y = append("Conv1D", causal, {x});
  y = append("BatchNormalization", Object{}, {y});
  y = append("ReLU", Object{}, {y});
  const Tensor gate = append("Conv1D", causal, {y});
  y = append("Multiply", Object{}, {append("Conv1D", causal, {y}), gate});
  y = append("Operation", Object{{"operation", "Add"}}, {y, gate});
  y = append("Operation", Object{{"operation", "Sin"}}, {y});
  y = append("Dropout", Object{{"rate", 0.5}}, {y});
  y = append("MaxPooling1D", Object{{"pool_size", 2}}, {y});
  y = append("GlobalAveragePooling1D", Object{}, {y});
  model.set_outputs({append("Dense", Object{{"units", 1}}, {y})});
  const BuiltPrograms built =
      build_programs(model, compile_options("sgd", "mse"), {8, 0, 0, 0, 8, 0});
  // Only the model's input becomes an image, and nobody wants its gradient.
  EXPECT_EQ(count_ops(graph_of(built, "train"), "reshape"), 1);
  EXPECT_EQ(count_ops(graph_of(built, "predict"), "reshape"), 1);
}

TEST(ProgramsTest, ZerosAroundAnImageAreTheConvolutions) {
  const auto pads = [](int64_t padding, int64_t kernel) {
    Model model("padded", ModelKind::kSequential);
    add_input(model, {8, 6, 3});
    model.append("ZeroPadding2D", Object{{"padding", padding}});
    model.append("Conv2D", Object{{"filters", 4}, {"kernel_size", kernel}, {"strides", 2}});
    model.append("Flatten", Object{});
    model.append("Dense", Object{{"units", 1}});
    const BuiltPrograms built =
        build_programs(model, compile_options("sgd", "mse"), {8, 0, 0, 0, 8, 0});
    return count_ops(graph_of(built, "train"), "zero_pad2d");
  };
  EXPECT_EQ(pads(1, 3), 0);
  EXPECT_EQ(pads(2, 3), 0);
  EXPECT_EQ(pads(3, 3), 1);  // the first window sees zeros alone
  EXPECT_EQ(pads(1, 1), 1);
}

TEST(ProgramsTest, AConstraintFollowsItsWeightsUpdate) {
  Model model("constrained", ModelKind::kSequential);
  add_input(model, {5});
  model.append(
      "Dense",
      Object{{"units", 3}, {"kernel_constraint", "unit_norm"}, {"bias_constraint", "non_neg"}});
  const BuiltPrograms built =
      build_programs(model, compile_options("adam", "mse"), {8, 0, 8, 0, 0, 0});
  const Graph& train = graph_of(built, "train");
  const graph::NodeId projection = find_node(train, "dense/kernel/unit_norm");
  ASSERT_TRUE(projection.valid());
  const graph::Value& updated = train.value(train.node(projection).inputs[0]);
  EXPECT_EQ(train.node(updated.producer).op->name(), "adam");
  const graph::StateId kernel = find_state(train, "dense/kernel");
  EXPECT_EQ(train.node(train.state(kernel).write).inputs[0], train.node(projection).outputs[0]);
  EXPECT_EQ(count_ops(graph_of(built, "evaluate"), "unit_norm"), 0);
}

TEST(ProgramsTest, PrecisionAndRecallCountPositives) {
  Model model("net", ModelKind::kSequential);
  add_input(model, {5});
  model.append("Dense", Object{{"units", 1}, {"activation", "sigmoid"}});
  const BuiltPrograms built =
      build_programs(model,
                     compile_options("sgd", "binary_crossentropy",
                                     {"precision", "recall", "root_mean_squared_error"}),
                     {0, 0, 8, 0, 0, 0});
  EXPECT_EQ(count_ops(graph_of(built, "evaluate"), "confusion_histogram"), 2);
  ASSERT_EQ(built.metrics.size(), 4u);
  EXPECT_EQ(built.metrics[1].states, std::vector<std::string>{"metrics/precision/total"});
  EXPECT_EQ(built.metrics[1].result.what, "precision");
  EXPECT_EQ(built.metrics[3].name, "root_mean_squared_error");
  EXPECT_EQ(built.metrics[3].result.rule, MetricRule::kRootMean);
}

TEST(ProgramsTest, NothingIsComputedThatNobodyReads) {
  const BuiltPrograms built = build_programs(
      small_cnn(), compile_options("sgd", "sparse_categorical_crossentropy"), {8, 0, 8, 0, 8, 0});
  EXPECT_EQ(count_ops(graph_of(built, "train"), "softmax"), 0);
  EXPECT_EQ(count_ops(graph_of(built, "predict"), "softmax"), 1);
  EXPECT_FALSE(reads_or_writes(graph_of(built, "evaluate"), "optimizer/learning_rate"));
  EXPECT_FALSE(reads_or_writes(graph_of(built, "predict"), "metrics/loss/total"));
}

TEST(ProgramsTest, AFrozenLayerHasNoGradientAndNoSlots) {
  Model model = small_cnn();
  model.set_trainable("conv2d", false);
  const BuiltPrograms built = build_programs(
      model, compile_options("adam", "sparse_categorical_crossentropy"), {8, 0, 0, 0, 0, 0});
  const Graph& train = graph_of(built, "train");
  EXPECT_EQ(count_ops(train, "conv2d_grad_kernel"), 0);
  EXPECT_EQ(count_ops(train, "conv2d_grad_input"), 0);
  EXPECT_EQ(count_ops(train, "max_pool2d_grad"), 0);
  EXPECT_EQ(count_ops(train, "dense_grad_kernel"), 1);
  EXPECT_FALSE(reads_or_writes(train, "optimizer/conv2d/kernel/momentum"));
  EXPECT_TRUE(reads_or_writes(train, "optimizer/dense/kernel/momentum"));
  EXPECT_FALSE(train.state(find_state(train, "conv2d/kernel")).write.valid());
}

Model normalized(bool trainable) {
  Model model("bn", ModelKind::kSequential);
  add_input(model, {4, 4, 2});
  model.append("BatchNormalization", Object{{"trainable", trainable}});
  model.append("Flatten", Object{});
  model.append("Dense", Object{{"units", 1}, {"activation", "sigmoid"}});
  return model;
}

TEST(ProgramsTest, BatchNormalizationMovesItsStatisticsInTrainingOnly) {
  const BuiltPrograms built = build_programs(
      normalized(true), compile_options("sgd", "binary_crossentropy"), {8, 0, 8, 0, 8, 0});
  EXPECT_EQ(verify(built.set), std::nullopt);
  const Graph& train = graph_of(built, "train");
  const Graph& evaluate = graph_of(built, "evaluate");
  EXPECT_EQ(count_ops(train, "batch_norm"), 1);
  EXPECT_EQ(count_ops(train, "moving_average"), 2);
  EXPECT_TRUE(train.state(find_state(train, "batch_normalization/moving_mean")).write.valid());
  EXPECT_EQ(count_ops(evaluate, "batch_norm_inference"), 1);
  EXPECT_FALSE(
      evaluate.state(find_state(evaluate, "batch_normalization/moving_mean")).write.valid());
}

TEST(ProgramsTest, BatchNormalizationByGroupsIsAnotherProgram) {
  CompileOptions compile = compile_options("sgd", "binary_crossentropy");
  const BatchSizes batches{8, 3, 8, 0, 0, 0};
  const BuiltPrograms full = build_programs(normalized(true), compile, batches);
  compile.batch_norm_group = 4;
  const BuiltPrograms built = build_programs(normalized(true), compile, batches);
  EXPECT_EQ(verify(built.set), std::nullopt);
  EXPECT_EQ(batch_norm_group_of(built.set), 4);
  EXPECT_EQ(batch_norm_group_of(full.set), 0);
  EXPECT_NE(graph::fingerprint(built.set), graph::fingerprint(full.set));
  for (const char* program : {"train", "train_tail"}) {
    const Graph& train = graph_of(built, program);
    EXPECT_EQ(count_ops(train, "batch_norm_groups"), 1);
    EXPECT_EQ(count_ops(train, "batch_norm_groups_grad"), 1);
    EXPECT_EQ(count_ops(train, "moving_moments"), 1);
    EXPECT_EQ(count_ops(train, "channel_moments"), 0);
    for (const char* name : {"moving_mean", "moving_variance"}) {
      const std::string state = std::string("batch_normalization/") + name;
      EXPECT_TRUE(train.state(find_state(train, state)).write.valid());
    }
  }
  EXPECT_EQ(graph_of(built, "evaluate"), graph_of(full, "evaluate"));
}

TEST(ProgramsTest, AGroupThatHoldsTheBatchIsTheWholeBatch) {
  CompileOptions compile = compile_options("sgd", "binary_crossentropy");
  const BatchSizes batches{8, 3, 0, 0, 0, 0};
  const BuiltPrograms full = build_programs(normalized(true), compile, batches);
  compile.batch_norm_group = 8;
  EXPECT_EQ(build_programs(normalized(true), compile, batches).set, full.set);
  compile.batch_norm_group = 7;
  EXPECT_EQ(batch_norm_group_of(build_programs(normalized(true), compile, batches).set), 7);
}

TEST(ProgramsTest, GroupsAreReadAsTheyAreWritten) {
  EXPECT_EQ(parse_batch_norm("full"), 0);
  EXPECT_EQ(parse_batch_norm("slice:12"), 12);
  EXPECT_EQ(batch_norm_text(12), "slice:12");
  EXPECT_EQ(batch_norm_text(0), "full");
  for (const char* wrong : {"", "slice", "slice:", "slice:0", "slice:-3", "slice:4x", "8"}) {
    EXPECT_THROW(parse_batch_norm(wrong), Error) << wrong;
  }
  try {
    parse_batch_norm("slices:4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.message().find("Did you mean \"slice\"?"), std::string::npos)
        << error.message();
  }
}

TEST(ProgramsTest, AFrozenBatchNormalizationUsesTheMovingStatistics) {
  const BuiltPrograms built = build_programs(
      normalized(false), compile_options("sgd", "binary_crossentropy"), {8, 0, 0, 0, 0, 0});
  const Graph& train = graph_of(built, "train");
  EXPECT_EQ(count_ops(train, "batch_norm_inference"), 1);
  EXPECT_EQ(count_ops(train, "moving_average"), 0);
}

TEST(ProgramsTest, ASharedBatchNormalizationMovesItsStatisticsTwice) {
  Model model;
  const Tensor a = add_input(model, {3});
  const Tensor b = add_input(model, {3});
  const LayerId norm = model.add_layer("BatchNormalization", Object{});
  const Tensor left = model.call(norm, {a})[0];
  const Tensor right = model.call(norm, {b})[0];
  model.set_outputs({model.call(model.add_layer("Add", Object{}), {left, right})[0]});
  const BuiltPrograms built =
      build_programs(model, compile_options("sgd", "mse"), {8, 0, 0, 0, 0, 0});
  EXPECT_EQ(verify(built.set), std::nullopt);
  const Graph& train = graph_of(built, "train");
  EXPECT_EQ(count_ops(train, "moving_average"), 4);
  // gamma's two gradients are summed
  EXPECT_EQ(count_ops(train, "accumulate"), 2);
}

TEST(ProgramsTest, PenaltiesAreOfTrainableWeights) {
  Model model("m", ModelKind::kSequential);
  add_input(model, {3});
  model.append("Dense", Object{{"units", 2}, {"kernel_regularizer", "l2"}, {"name", "a"}});
  const Config both = Object{{"class_name", "L1L2"}, {"config", Object{{"l1", 0.1}, {"l2", 0.2}}}};
  model.append("Dense", Object{{"units", 2}, {"bias_regularizer", both}, {"name", "b"}});
  model.append("Dense", Object{{"units", 2}, {"kernel_regularizer", "l1"}, {"trainable", false}});
  const BuiltPrograms built =
      build_programs(model, compile_options("sgd", "mse"), {8, 0, 8, 0, 0, 0});
  EXPECT_EQ(verify(built.set), std::nullopt);
  for (std::string_view name : {"train", "evaluate"}) {
    EXPECT_EQ(count_ops(graph_of(built, name), "sum_squares"), 2) << name;
    EXPECT_EQ(count_ops(graph_of(built, name), "sum_abs"), 1) << name;
  }
}

std::string train_text(const Model& model, std::string_view loss) {
  return print(
      graph_of(build_programs(model, compile_options("sgd", loss), {8, 0, 0, 0, 0, 0}), "train"));
}

TEST(ProgramsTest, LossesAfterSoftmaxOrSigmoidReadLogits) {
  Model sigmoid("m", ModelKind::kSequential);
  add_input(sigmoid, {3});
  sigmoid.append("Dense", Object{{"units", 2}, {"activation", "sigmoid"}});
  EXPECT_NE(train_text(sigmoid, "bce").find(" binary_crossentropy_logits ("), std::string::npos);
  // As Keras does: it takes the logits whichever of the two made the output.
  EXPECT_NE(train_text(sigmoid, "categorical_crossentropy").find("categorical_crossentropy_logits"),
            std::string::npos);
  Model activated = sigmoid;
  activated.append("Activation", Object{{"activation", "linear"}});
  EXPECT_NE(train_text(activated, "bce").find(" binary_crossentropy_logits ("), std::string::npos);
  Model reshaped = sigmoid;
  reshaped.append("Reshape", Object{{"target_shape", testing::Array{1, 2}}});
  EXPECT_NE(train_text(reshaped, "bce").find(" binary_crossentropy ("), std::string::npos);
  Model plain("m", ModelKind::kSequential);
  add_input(plain, {3});
  plain.append("Dense", Object{{"units", 2}});
  EXPECT_NE(train_text(plain, "bce").find(" binary_crossentropy ("), std::string::npos);
  EXPECT_NE(train_text(plain, "bce(from_logits=true)").find(" binary_crossentropy_logits ("),
            std::string::npos);
  EXPECT_NE(train_text(plain, "sparse_categorical_crossentropy")
                .find(" sparse_categorical_crossentropy ("),
            std::string::npos);
  EXPECT_NE(
      train_text(plain, "sparse_categorical_crossentropy(from_logits=true)").find(" log_sum_exp ("),
      std::string::npos);
  EXPECT_NE(train_text(plain, "bce(label_smoothing=0.1)").find(" scale_shift ("),
            std::string::npos);
}

TEST(ProgramsTest, ReductionsAndSampleWeights) {
  Model model("m", ModelKind::kSequential);
  add_input(model, {3});
  model.append("Dense", Object{{"units", 2}});
  EXPECT_NE(train_text(model, "mse").find(" divide_by_count ("), std::string::npos);
  EXPECT_EQ(train_text(model, "mse(reduction=sum)").find(" divide_by_count ("), std::string::npos);
  CompileOptions weighted = compile_options("sgd", "mse", {"mae"});
  weighted.sample_weights = true;
  const BuiltPrograms built = build_programs(model, weighted, {8, 0, 8, 0, 8, 0});
  ASSERT_EQ(built.train_inputs.size(), 3u);
  EXPECT_EQ(built.train_inputs[2].role, InputRole::kSampleWeight);
  EXPECT_EQ(to_string(built.train_inputs[2].shape), "(B)");
  EXPECT_EQ(built.predict_inputs.size(), 1u);
  weighted.losses = {parse_loss("mse(reduction=mean_with_sample_weight)")};
  EXPECT_NE(error_of([&] {
              build_programs(model, weighted, {8, 0, 0, 0, 0, 0});
            }).find("Scale the weights to a mean of 1"),
            std::string::npos);
}

Model two_outputs() {
  Model model;
  const Tensor x = add_input(model, {4});
  const Tensor a = model.call(
      model.add_layer("Dense", Object{{"units", 3}, {"activation", "softmax"}, {"name", "a"}}),
      {x})[0];
  const Tensor b =
      model.call(model.add_layer("Dense", Object{{"units", 1}, {"name", "b"}}), {x})[0];
  model.set_outputs({a, b});
  return model;
}

TEST(ProgramsTest, SeveralOutputs) {
  CompileOptions options = compile_options("sgd", "sparse_categorical_crossentropy");
  options.losses.push_back(parse_loss("mse"));
  options.metrics = {{parse_metric("accuracy")}, {parse_metric("mae")}};
  const BuiltPrograms built = build_programs(two_outputs(), options, {8, 0, 8, 0, 8, 0});
  EXPECT_EQ(verify(built.set), std::nullopt);
  std::string names;
  for (const MetricState& metric : built.metrics) names += metric.name + " ";
  EXPECT_EQ(names, "loss a_accuracy b_mae a_loss b_loss ");
  EXPECT_EQ(built.train_inputs.size(), 3u);
  EXPECT_EQ(graph_of(built, "train").outputs.size(), 1u);
  EXPECT_EQ(graph_of(built, "predict").outputs.size(), 2u);

  options.losses[1] = Config();
  options.metrics.clear();
  const BuiltPrograms one = build_programs(two_outputs(), options, {8, 0, 0, 0, 0, 0});
  EXPECT_EQ(one.train_inputs.size(), 2u);
  EXPECT_FALSE(reads_or_writes(graph_of(one, "train"), "b/kernel"));
  EXPECT_TRUE(reads_or_writes(graph_of(one, "initialize"), "b/kernel"));

  options.losses.resize(3);
  EXPECT_NE(error_of(
                [&] {
                  build_programs(two_outputs(), options, {8, 0, 0, 0, 0, 0});
                },
                ErrorKind::kConfig)
                .find("one for each of 2"),
            std::string::npos);
}

TEST(ProgramsTest, InitializeWritesEveryVariable) {
  const BuiltPrograms built = build_programs(
      normalized(true), compile_options("adam", "binary_crossentropy", {"accuracy"}), all_sizes());
  const Graph& initialize = graph_of(built, "initialize");
  for (const graph::StateVariable& state : states_of(built.set)) {
    const graph::StateId own = find_state(initialize, state.name);
    ASSERT_TRUE(own.valid()) << state.name;
    EXPECT_TRUE(initialize.state(own).write.valid()) << state.name;
    EXPECT_EQ(initialize.state(own).trainable, state.trainable) << state.name;
  }
  EXPECT_EQ(count_ops(initialize, "random_uniform"), 1);
  EXPECT_EQ(initialize.states.front().name, "batch_normalization/gamma");
}

TEST(ProgramsTest, WhatIsMissingIsSaid) {
  EXPECT_NE(error_of(
                [] {
                  build_programs(small_cnn(), CompileOptions(), {8, 0, 0, 0, 0, 0});
                },
                ErrorKind::kConfig)
                .find("expected a loss"),
            std::string::npos);
  CompileOptions options;
  options.losses = {parse_loss("sparse_categorical_crossentropy")};
  EXPECT_NE(error_of(
                [&] {
                  build_programs(small_cnn(), options, {8, 0, 0, 0, 0, 0});
                },
                ErrorKind::kConfig)
                .find("expected an optimizer"),
            std::string::npos);
  const BuiltPrograms predict = build_programs(small_cnn(), CompileOptions(), {0, 0, 0, 0, 8, 0});
  EXPECT_TRUE(predict.metrics.empty());
  EXPECT_EQ(predict.set.programs.size(), 2u);
}

TEST(ProgramsTest, OptimizerVariables) {
  EXPECT_EQ(optimizer_variables(small_cnn(), parse_optimizer("sgd(momentum=0.9)")),
            (std::vector<std::string>{
                "optimizer/iteration", "optimizer/learning_rate",
                "optimizer/conv2d/kernel/momentum", "optimizer/conv2d/bias/momentum",
                "optimizer/dense/kernel/momentum", "optimizer/dense/bias/momentum"}));
}

}  // namespace
}  // namespace plimsoll::layers
