#include "formats/keras/keras_tree.h"

#include <gtest/gtest.h>

#include "formats/json_text.h"
#include "formats/keras/weight_groups.h"
#include "unit/base/expect_error.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;

Model read(const std::string& json, const InputShapes& shapes = {}) {
  return read_architecture(parse_json(json, "m.json"), "m", shapes);
}

std::string input(const std::string& name, const std::string& shape = "[null, 4]") {
  return R"({"class_name": "InputLayer", "name": ")" + name + R"(", "config": {"name": ")" + name +
         R"(", "batch_shape": )" + shape + R"(}, "inbound_nodes": []})";
}

std::string dense(const std::string& name, const std::string& nodes = "[]", int units = 4) {
  return R"({"class_name": "Dense", "name": ")" + name + R"(", "config": {"name": ")" + name +
         R"(", "units": )" + std::to_string(units) + R"(}, "inbound_nodes": )" + nodes + "}";
}

// One call on each of the names in turn.
std::string called_on(const std::vector<std::string>& names) {
  std::string calls;
  for (const std::string& name : names) {
    calls += (calls.empty() ? "" : ", ") + std::string("[[\"") + name + "\", 0, 0, {}]]";
  }
  return "[" + calls + "]";
}

std::string functional(const std::string& name, const std::string& layers,
                       const std::string& inputs, const std::string& outputs,
                       const std::string& nodes = "[]") {
  return R"({"class_name": "Functional", "name": ")" + name + R"(", "config": {"name": ")" + name +
         R"(", "layers": [)" + layers + R"(], "input_layers": )" + inputs +
         R"(, "output_layers": )" + outputs + R"(}, "inbound_nodes": )" + nodes + "}";
}

std::string sequential(const std::string& name, const std::string& layers,
                       const std::string& nodes = "[]") {
  return R"({"class_name": "Sequential", "name": ")" + name + R"(", "config": {"name": ")" + name +
         R"(", "layers": [)" + layers + R"(]}, "inbound_nodes": )" + nodes + "}";
}

std::vector<std::string> layer_names(const Model& model) {
  std::vector<std::string> names;
  for (size_t i = 0; i < model.layer_count(); ++i) names.push_back(model.layer(LayerId(i)).name());
  return names;
}

using Names = std::vector<std::string>;

std::string body() {
  return functional("body", input("x") + ", " + dense("d", called_on({"x"})), R"([["x", 0, 0]])",
                    R"([["d", 0, 0]])");
}

TEST(KerasTree, TakesAFunctionalInASequentialApart) {
  const Model model = read(sequential("net", body() + ", " + dense("head", "[]", 2)));
  EXPECT_EQ(layer_names(model), (Names{"input_layer", "body/d", "head"}));
  EXPECT_EQ(model.all_weights()[0].name, "body/d/kernel");
  EXPECT_EQ(model.inputs()[0].type.shape, Shape({Dim::batch(), Dim::constant(4)}));
}

TEST(KerasTree, SharesTheWeightsOfAModelThatIsCalledTwice) {
  const std::string inner = R"({"class_name": "Sequential", "name": "s", "config": {"name": "s",
      "layers": [)" + input("i") +
                            ", " + dense("d") +
                            R"(]}, "inbound_nodes": [[["a", 0, 0, {}]], [["b", 0, 0, {}]]]})";
  const std::string add = R"({"class_name": "Add", "name": "add", "config": {"name": "add"},
      "inbound_nodes": [[["s", 0, 0, {}], ["s", 1, 0, {}]]]})";
  const Model model =
      read(functional("net", input("a") + ", " + input("b") + ", " + inner + ", " + add,
                      R"([["a", 0, 0], ["b", 0, 0]])", R"([["add", 0, 0]])"));
  EXPECT_EQ(layer_names(model), (Names{"a", "b", "s/d", "add"}));
  EXPECT_EQ(model.parameters().total(), 20);
  EXPECT_EQ(model.calls().size(), 5u);
}

TEST(KerasTree, WritesModelsInsideModelsAgain) {
  const std::string json = sequential("net", body() + ", " + dense("head", "[]", 2));
  const Model model = read(json);
  const Config written = write_architecture(model);
  const Config& layers = written.at("config").at("layers");
  ASSERT_EQ(layers.as_array().size(), 3u);
  EXPECT_EQ(layers.as_array()[1].at("class_name"), Config("Functional"));
  EXPECT_EQ(layers.as_array()[1].at("config").at("layers").as_array()[1].at("config").at("name"),
            Config("d"));
  const Model again = read_architecture(written, "again");
  EXPECT_EQ(layer_names(again), layer_names(model));
  EXPECT_EQ(again.all_weights(), model.all_weights());
  EXPECT_EQ(write_architecture(again), written);
}

TEST(KerasTree, GroupsOfAnArchiveAreNestedAsModelsAre) {
  const Model model = read(sequential("net", body() + ", " + dense("head", "[]", 2)));
  Names paths;
  for (const WeightGroup& group : archive_groups(model, keras_tree(model))) {
    paths.push_back(group.path + ":" + std::to_string(group.weights.size()));
  }
  EXPECT_EQ(paths, (Names{"layers/functional:0", "layers/functional/layers/input_layer:0",
                          "layers/functional/layers/dense:2", "layers/dense:2"}));
}

TEST(KerasTree, ListsWeightsOfAnInnerModelUnderItsLayer) {
  const Model model = read(sequential("net", body() + ", " + dense("head", "[]", 2)));
  const auto lists = layer_weights(model, keras_tree(model), ListOrder::kFile, 2);
  ASSERT_EQ(lists.size(), 3u);
  EXPECT_EQ(lists[1].name, "body");
  ASSERT_EQ(lists[1].weights.size(), 2u);
  EXPECT_EQ(lists[1].weights[0].name, "body/d/kernel");
}

TEST(KerasTree, FreezesWhatIsInsideAFrozenModel) {
  const std::string frozen = R"({"class_name": "Sequential", "name": "s", "config": {"name": "s",
      "trainable": false, "layers": [)" +
                             dense("d") + "]}}";
  const Model model = read(sequential("net", input("i") + ", " + frozen + ", " + dense("head")));
  EXPECT_EQ(model.parameters().frozen, 20);
  EXPECT_EQ(model.parameters().trainable, 20);
}

TEST(KerasTree, FillsInSizesThatTheFileLeavesOpen) {
  const std::string json = sequential("net", input("i", "[null, null, 4]") + ", " + dense("d"));
  expect_error(ErrorKind::kModel, "Say the sizes, for example --input-shape 64,4",
               [&] { read(json); });
  const Model model = read(json, {{7, 4}});
  EXPECT_EQ(model.inputs()[0].type.shape,
            Shape({Dim::batch(), Dim::constant(7), Dim::constant(4)}));
  // What is written leaves them open again.
  const Config layers = write_architecture(model).at("config").at("layers");
  EXPECT_EQ(layers.as_array()[0].at("config").at("batch_shape").to_json(), "[null, null, 4]");
  expect_error(ErrorKind::kModel, "with 2 sizes", [&] { read(json, {{7}}); });
  expect_error(ErrorKind::kModel, "sizes as in", [&] { read(json, {{7, 5}}); });
  expect_error(ErrorKind::kModel, "at most one shape", [&] { read(json, {{7, 4}, {3}}); });
}

TEST(KerasTree, KeepsPortsByName) {
  const Model model = read(functional("net", input("a") + ", " + dense("d", called_on({"a"})),
                                      R"({"left": ["a", 0, 0]})", R"([{"y": ["d", 0, 0]}])"));
  EXPECT_EQ(model.inputs()[0].name, "a");
  const Config config = write_architecture(model).at("config");
  EXPECT_EQ(config.at("input_layers").to_json(), R"({"left": ["a", 0, 0]})");
  EXPECT_EQ(config.at("output_layers").to_json(), R"([{"y": ["d", 0, 0]}])");
}

// Each level calls the one inside five times.
TEST(KerasTree, BoundsWhatSharedModelsUnfoldInto) {
  std::string inner = dense("d");
  for (int depth = 0; depth < 7; ++depth) {
    const std::string name = "m" + std::to_string(depth);
    std::string calls = R"([[["x", 0, 0, {}]])";
    for (int i = 0; i < 4; ++i) {
      calls += ", [[\"" + name + "\", " + std::to_string(i) + ", 0, {}]]";
    }
    inner = functional("f" + name, input("x") + ", " + sequential(name, inner, calls + "]"),
                       R"([["x", 0, 0]])", "[[\"" + name + "\", 4, 0]]");
  }
  expect_error(ErrorKind::kModel, "at most 50000 calls",
               [&] { read(sequential("net", input("i") + ", " + inner)); });
}

TEST(KerasTree, BoundsHowDeepModelsAreNested) {
  std::string inner = dense("d");
  for (int depth = 0; depth < 20; ++depth) inner = sequential("s", inner);
  expect_error(ErrorKind::kModel, "models inside models 16 deep",
               [&] { read(sequential("net", input("i") + ", " + inner)); });
}

}  // namespace
}  // namespace plimsoll::formats
