// Layers over sequences: what they expand into, how masks pass, what calls are given.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "layers/model/call_arguments.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using graph::Graph;
using testing::Array;
using testing::compile_options;
using testing::error_of;
using testing::Object;

const Graph& graph_of(const BuiltPrograms& built, std::string_view name) {
  return find_program(built.set, name)->graph;
}

int count_ops(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes, [&](const graph::Node& n) { return n.op->name() == op; }));
}

Tensor add_tokens(Model& model, int64_t length) {
  return model.add_input(Object{{"batch_shape", Array{Config(), length}}, {"dtype", "int32"}});
}

// Embedding 30 → 6 · LSTM 4 · Dense 1 sigmoid.
Model small_lstm() {
  Model model("small_lstm", ModelKind::kSequential);
  add_tokens(model, 5);
  model.append("Embedding", Object{{"input_dim", 300}, {"output_dim", 6}});
  model.append("LSTM", Object{{"units", 4}});
  model.append("Dense", Object{{"units", 1}, {"activation", "sigmoid"}});
  return model;
}

TEST(SequenceTest, TextOfASmallLstm) {
  const BuiltPrograms built =
      build_programs(small_lstm(), compile_options("adam", "binary_crossentropy", {"accuracy"}),
                     {4, 0, 0, 0, 4, 0});
  const std::string path = "golden/layers/small_lstm.txt";
  const std::string text = print(built.set);
  if (std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr) write_text_file(path, text);
  EXPECT_EQ(read_text_file(path, 1 << 20), text);
}

// Adam updates a table without a dense gradient, also a small one: the numbers are others.
TEST(SequenceTest, ATableIsUpdatedFromWhatWasRead) {
  const auto train = [](int64_t rows, std::string_view optimizer) {
    Model model("tokens", ModelKind::kSequential);
    add_tokens(model, 5);
    model.append("Embedding", Object{{"input_dim", rows}, {"output_dim", 6}});
    model.append("Flatten", Object{});
    model.append("Dense", Object{{"units", 1}});
    return graph_of(build_programs(model, compile_options(optimizer, "mse"), {4, 0, 0, 0, 0, 0}),
                    "train");
  };
  EXPECT_EQ(count_ops(train(160, "adam"), "adam_rows"), 1);
  EXPECT_EQ(count_ops(train(160, "adam"), "embedding_grad"), 0);
  EXPECT_EQ(count_ops(train(3, "adam"), "adam_rows"), 1);
  EXPECT_EQ(count_ops(train(3, "adam"), "embedding_grad"), 0);
  EXPECT_EQ(count_ops(train(160, "sgd"), "embedding_grad"), 1);
  // Clipped read by read: only the norm, or nothing, asks for sums by row. By the norm of all
  // gradients, Keras clips the matrix.
  EXPECT_EQ(count_ops(train(160, "adam(clipnorm=1)"), "adam_rows"), 1);
  EXPECT_EQ(count_ops(train(160, "adam(clipnorm=1)"), "embedding_grad"), 0);
  EXPECT_EQ(count_ops(train(160, "adam(clipvalue=1)"), "adam_rows"), 1);
  EXPECT_EQ(count_ops(train(160, "adam(clipvalue=1)"), "embedding_grad"), 0);
  EXPECT_EQ(count_ops(train(160, "adam(global_clipnorm=1)"), "adam_rows"), 0);
  EXPECT_EQ(count_ops(train(160, "adam(global_clipnorm=1)"), "embedding_grad"), 1);
}

Model masked(const std::string& between, const Config& config) {
  Model model("masked", ModelKind::kSequential);
  add_tokens(model, 5);
  model.append("Embedding", Object{{"input_dim", 9}, {"output_dim", 6}, {"mask_zero", true}});
  model.append(between, config);
  model.append("LSTM", Object{{"units", 4}, {"return_sequences", true}});
  model.append("Dense", Object{{"units", 1}});
  return model;
}

TEST(SequenceTest, MasksPassThroughLayersThatLetThem) {
  const auto train = [](const Model& model) {
    return graph_of(build_programs(model, compile_options("sgd", "mse"), {4, 0, 0, 0, 0, 0}),
                    "train");
  };
  const auto is_masked = [](const Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (node.op->name() == "lstm") return node.attributes.get_bool("masked");
    }
    return false;
  };
  const Graph passes = train(masked("Dropout", Object{{"rate", 0.5}}));
  EXPECT_TRUE(is_masked(passes));
  EXPECT_EQ(count_ops(passes, "divide_no_nan"), 1) << "the loss counts the steps that count";
  const Graph ends = train(masked("Reshape", Object{{"target_shape", Array{5, 6}}}));
  EXPECT_FALSE(is_masked(ends));
  EXPECT_EQ(count_ops(ends, "divide_no_nan"), 0);
}

TEST(SequenceTest, AnArrayOfTheFileIsAFrozenState) {
  Model model("table");
  const Tensor x = testing::add_input(model, {2, 2});
  const Config table = Object{
      {"class_name", "__numpy__"},
      {"config", Object{{"value", Array{Array{1.5, 2.0}, Array{3.0, 4.0}}}, {"dtype", "float32"}}}};
  const LayerId add = model.add_layer("Operation", Object{{"name", "add"}, {"operation", "Add"}});
  const Config arguments = Object{{"args", Array{tensor_argument(0), table}}, {"kwargs", Object{}}};
  model.set_outputs(model.call(add, {x}, arguments));
  const BuiltPrograms built = build_programs(model, {}, {0, 0, 0, 0, 4, 0});
  EXPECT_EQ(verify(built.set), std::nullopt);
  EXPECT_TRUE(find_state(graph_of(built, "predict"), "add/constant").valid());
  EXPECT_EQ(count_ops(graph_of(built, "initialize"), "literal"), 1);
  EXPECT_TRUE(model.all_weights().empty()) << "it is no weight of a weights file";
}

TEST(SequenceTest, OutputTypes) {
  Model model("types");
  const Tensor x = testing::add_input(model, {7, 3});
  const auto shape_of = [&](const char* layer, const Config& config, size_t output = 0) {
    return to_string(model.type(model.call(model.add_layer(layer, config), {x})[output]).shape);
  };
  const Config lstm =
      Object{{"class_name", "LSTM"},
             {"config", Object{{"name", "l"}, {"units", 4}, {"return_sequences", true}}}};
  EXPECT_EQ(shape_of("LSTM", Object{{"units", 4}, {"return_state", true}}, 2), "(B, 4)");
  EXPECT_EQ(shape_of("Bidirectional", Object{{"layer", lstm}}), "(B, 7, 8)");
  EXPECT_EQ(shape_of("Bidirectional", Object{{"layer", lstm}, {"merge_mode", Config()}}, 1),
            "(B, 7, 4)");
  const Config dense =
      Object{{"class_name", "Dense"}, {"config", Object{{"name", "d"}, {"units", 5}}}};
  EXPECT_EQ(shape_of("TimeDistributed", Object{{"layer", dense}}), "(B, 7, 5)");
  const LayerId attention =
      model.add_layer("MultiHeadAttention", Object{{"num_heads", 2}, {"key_dim", 4}});
  EXPECT_EQ(to_string(model.type(model.call(attention, {x, x})[0]).shape), "(B, 7, 3)");
  EXPECT_EQ(model.parameters(attention).total(), 3 * (3 * 8 + 8) + 8 * 3 + 3);
}

TEST(SequenceTest, Refusals) {
  const auto refusal = [](const char* layer, Object config) {
    config.emplace_back("name", "r");
    return error_of([&] { make_layer(layer, config); });
  };
  EXPECT_NE(refusal("ConvLSTM2D", {{"filters", 3}, {"kernel_size", 3}, {"stateful", true}})
                .find("stateful: expected false"),
            std::string::npos);
  EXPECT_NE(refusal("LSTM", {{"units", 3}, {"activation", "softmax"}}).find("element by element"),
            std::string::npos);
  EXPECT_NE(
      refusal("Operation", {{"operation", "Fft"}}).find("[r] operation: expected an operator"),
      std::string::npos);
  Model model("m");
  const Tensor x = testing::add_input(model, {7, 3});
  const LayerId attention =
      model.add_layer("MultiHeadAttention", Object{{"num_heads", 2}, {"key_dim", 4}});
  const Config scores = Object{{"args", Array{tensor_argument(0), tensor_argument(1)}},
                               {"kwargs", Object{{"return_attention_scores", true}}}};
  EXPECT_NE(error_of([&] {
              model.call(attention, {x, x}, scores);
            }).find("never stored"),
            std::string::npos);
  const LayerId item =
      model.add_layer("Operation", Object{{"name", "item"}, {"operation", "GetItem"}});
  const Config first = Object{{"args", Array{tensor_argument(0), 0}}, {"kwargs", Object{}}};
  EXPECT_NE(error_of([&] { model.call(item, {x}, first); }).find("Samples are not mixed"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::layers
