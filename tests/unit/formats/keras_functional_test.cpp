#include <gtest/gtest.h>

#include "formats/json_text.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_tree.h"
#include "unit/base/expect_error.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;

Model read(const std::string& json) { return read_architecture(parse_json(json, "m.json"), "m"); }

std::string input(const std::string& name) {
  return R"({"class_name": "InputLayer", "name": ")" + name + R"(", "config": {"name": ")" + name +
         R"(", "batch_shape": [null, 4]}, "inbound_nodes": []})";
}

std::string layer(const std::string& class_name, const std::string& name,
                  const std::string& arguments, const std::string& nodes) {
  return R"({"class_name": ")" + class_name + R"(", "name": ")" + name +
         R"(", "config": {"name": ")" + name + "\"" + arguments + R"(}, "inbound_nodes": )" +
         nodes + "}";
}

std::string dense(const std::string& name, const std::string& nodes) {
  return layer("Dense", name, R"(, "units": 4)", nodes);
}

// A Keras 3 tensor and a call on it.
std::string tensor(const std::string& name, int call = 0, int output = 0) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 4], "dtype": "float32",
            "keras_history": [")" +
         name + "\", " + std::to_string(call) + ", " + std::to_string(output) + "]}}";
}
std::string call(const std::string& argument, const std::string& keywords = "{}") {
  return R"({"args": [)" + argument + R"(], "kwargs": )" + keywords + "}";
}

std::string model(const std::string& layers, const std::string& inputs, const std::string& outputs,
                  const std::string& more = "") {
  return R"({"class_name": "Functional", "config": {"name": "f", "layers": [)" + layers +
         R"(], "input_layers": )" + inputs + R"(, "output_layers": )" + outputs + more + "}}";
}

void expect_refused(const std::string& json, const std::string& part) {
  SCOPED_TRACE(json);
  expect_error(ErrorKind::kModel, part, [&] { read(json); });
}

TEST(KerasFunctional, ReadsCallsOfKeras3InAnyOrderOfTheFile) {
  const std::string add =
      layer("Add", "add", "", "[" + call("[" + tensor("d", 0) + ", " + tensor("d", 1) + "]") + "]");
  const std::string shared = dense(
      "d", "[" + call(tensor("a")) + ", " + call(tensor("b"), R"({"training": false})") + "]");
  const Model m = read(model(add + ", " + shared + ", " + input("b") + ", " + input("a"),
                             R"([["a", 0, 0], ["b", 0, 0]])", R"(["add", 0, 0])"));
  EXPECT_EQ(m.calls().size(), 5u);
  EXPECT_EQ(m.inputs()[0].name, "a");
  EXPECT_EQ(m.inputs()[1].name, "b");
  EXPECT_EQ(m.outputs()[0].name, "add");
  EXPECT_EQ(m.parameters().total(), 20);  // one set of weights for two calls
}

TEST(KerasFunctional, ReadsCallsOfKeras2) {
  const std::string add =
      layer("Add", "add", "", R"([[["d", 0, 0, {}], ["d", 1, 0, {"mask": null}]]])");
  const Model m = read(model(input("a") + ", " + input("b") + ", " +
                                 dense("d", R"([[["a", 0, 0, {}]], [["b", 0, 0]]])") + ", " + add,
                             R"([["a", 0, 0], ["b", 0, 0]])", R"([["add", 0, 0]])"));
  EXPECT_EQ(m.calls().size(), 5u);
  EXPECT_EQ(m.outputs().size(), 1u);
  const Model one = read(model(input("a") + ", " + dense("d", R"([["a", 0, 0, {}]])"),
                               R"([["a", 0, 0]])", R"([["d", 0, 0]])"));
  EXPECT_EQ(one.calls().size(), 2u);
}

// A model "m" of one Dense, as a layer.
std::string inner(const std::string& nodes, const std::string& class_name = "Functional") {
  const bool graph = class_name == "Functional";
  const std::string layers = input("mx") + ", " + dense("md", R"([[["mx", 0, 0, {}]]])");
  const std::string ports =
      graph ? R"(, "input_layers": [["mx", 0, 0]], "output_layers": [["md", 0, 0]])" : "";
  return R"({"class_name": ")" + class_name +
         R"(", "name": "m", "config": {"name": "m", "layers": [)" + layers + "]" + ports +
         R"(}, "inbound_nodes": )" + nodes + "}";
}

// The calls whose outputs are the model's.
std::vector<size_t> output_calls(const std::string& json) {
  std::vector<size_t> calls;
  const layers::ModelTree tree = read_tree(parse_json(json, "m.json"), JsonSource("m"));
  for (const layers::TreeTensor& port : tree.outputs) calls.push_back(port.call);
  return calls;
}

// A Functional has a call of its own, from its inputs to its outputs, which Keras counts: before
// Keras 3 wherever the model is named, since then among the ports alone.
TEST(KerasFunctional, CountsTheCallsOfModelsAsKeras3Does) {
  const std::string once = input("a") + ", " + inner("[" + call(tensor("a")) + "]");
  const std::string twice =
      input("a") + ", " + inner("[" + call(tensor("a")) + ", " + call(tensor("m", 0)) + "]");
  const std::string a = R"(["a", 0, 0])";
  EXPECT_EQ(output_calls(model(once, a, R"(["m", 1, 0])")), (std::vector<size_t>{0}));
  EXPECT_EQ(output_calls(model(once, a, R"(["m", 0, 0])")), (std::vector<size_t>{0}));
  EXPECT_EQ(output_calls(model(twice, a, R"([["m", 1, 0], ["m", 2, 0]])")),
            (std::vector<size_t>{0, 1}));
  EXPECT_EQ(output_calls(model(twice, a, R"(["m", 2, 0])")), (std::vector<size_t>{1}));
  const std::string chain = input("a") + ", " + inner("[" + call(tensor("a")) + "]", "Sequential");
  EXPECT_EQ(output_calls(model(chain, a, R"(["m", 0, 0])")), (std::vector<size_t>{0}));
  expect_refused(model(once, a, R"(["m", 2, 0])"), "[output_layers] expected a call of m");
  expect_refused(model(chain, a, R"(["m", 1, 0])"), "[output_layers] expected a call of m");
}

TEST(KerasFunctional, CountsTheCallsOfModelsAsKeras2Does) {
  const std::string a = R"([["a", 0, 0]])";
  const std::string from_one =
      input("a") + ", " + inner(R"([[["a", 0, 0, {}]], [["m", 1, 0, {}]]])");
  const std::string d = ", " + dense("d", R"([[["m", 2, 0, {}]]])");
  EXPECT_EQ(output_calls(model(from_one + d, a, R"([["d", 0, 0], ["m", 1, 0]])")),
            (std::vector<size_t>{0, 0}));
  EXPECT_EQ(output_calls(model(from_one, a, R"([["m", 2, 0]])")), (std::vector<size_t>{1}));
  // A Sequential that began without an input had no such call.
  const std::string from_zero =
      input("a") + ", " + inner(R"([[["a", 0, 0, {}]], [["m", 0, 0, {}]]])", "Sequential");
  EXPECT_EQ(output_calls(model(from_zero, a, R"([["m", 1, 0]])")), (std::vector<size_t>{1}));
  expect_refused(model(input("a") + ", " + inner(R"([[["a", 0, 0, {}]], [["m", 0, 0, {}]]])"), a,
                       R"([["m", 2, 0]])"),
                 "a call of m");
}

TEST(KerasFunctional, WritesTheCallsOfModelsAsKeras3CountsThem) {
  const std::string twice =
      input("a") + ", " + inner("[" + call(tensor("a")) + ", " + call(tensor("m", 0)) + "]");
  const Model m = read(model(twice, R"(["a", 0, 0])", R"([["m", 2, 0], ["m", 1, 0]])"));
  const Config json = write_architecture(m);
  EXPECT_EQ(json.at("config").at("output_layers").to_json(), R"([["m", 2, 0], ["m", 1, 0]])");
}

TEST(KerasFunctional, NamesOutputsAfterTheirModels) {
  const std::string layers = input("a") + ", " + inner("[" + call(tensor("a")) + "]") + ", " +
                             dense("d", "[" + call(tensor("a")) + "]");
  const Model m = read(model(layers, R"(["a", 0, 0])", R"([["m", 1, 0], ["d", 0, 0]])"));
  EXPECT_EQ(m.outputs()[0].name, "m");
  EXPECT_EQ(m.outputs()[1].name, "d");
}

TEST(KerasFunctional, FreezesEveryLayerOfAFrozenModel) {
  const std::string layers = input("a") + ", " + dense("d", "[" + call(tensor("a")) + "]");
  const std::string ports = R"(["a", 0, 0])";
  EXPECT_EQ(read(model(layers, ports, R"(["d", 0, 0])")).parameters().trainable, 20);
  EXPECT_EQ(
      read(model(layers, ports, R"(["d", 0, 0])", R"(, "trainable": false)")).parameters().frozen,
      20);
}

TEST(KerasFunctional, RefusesCycles) {
  const std::string ports = R"(["a", 0, 0])";
  expect_refused(
      model(input("a") + ", " + dense("d", "[" + call(tensor("d")) + "]"), ports, R"(["d", 0, 0])"),
      "[d] expected a graph without cycles");
  expect_refused(model(input("a") + ", " + dense("d", "[" + call(tensor("e")) + "]") + ", " +
                           dense("e", "[" + call(tensor("d")) + "]"),
                       ports, R"(["d", 0, 0])"),
                 "a graph without cycles");
  // A later call of the layer feeds its first one.
  expect_refused(model(input("a") + ", " +
                           dense("d", "[" + call(tensor("d", 1)) + ", " + call(tensor("a")) + "]"),
                       ports, R"(["d", 0, 0])"),
                 "a graph without cycles");
}

TEST(KerasFunctional, RefusesTensorsThatAreNotThere) {
  const std::string ports = R"(["a", 0, 0])";
  const auto with = [&](const std::string& node) {
    return model(input("a") + ", " + dense("dense", "[" + node + "]"), ports, R"(["dense", 0, 0])");
  };
  expect_refused(with(call(tensor("aa"))), "[dense] expected the name of a layer, received \"aa\"");
  expect_refused(with(call(tensor("a", 1))), "a call of a between 0 and 0, received 1");
  expect_refused(with(call(tensor("a", -1))), "a call of a between 0 and 0, received -1");
  expect_refused(with(call(tensor("a", 0, 3))), "one of the 1 outputs of a, received output 3");
  expect_refused(with(call("")), "a call on tensors");
  expect_refused(with(call("2.0")), "a call on tensors");
  expect_refused(with(call(tensor("a") + ", 2.0")), "one, or one list of them");
  expect_refused(with(call(tensor("a"), R"({"mask": 1})")), "a call without arguments");
  expect_refused(with("7"), "a call in \"inbound_nodes\"");
  expect_refused(with(R"([["a", "x", 0]])"), "[layer, call, output]");
  expect_refused(with(R"({"kwargs": {}})"), "a call with \"args\"");
  expect_refused(model(input("a") + ", " + dense("dense", "[" + call(tensor("a")) + "]"), ports,
                       R"(["dense", 0, 5])"),
                 "output 5");
}

TEST(KerasFunctional, RefusesArgumentsThatChangeACall) {
  const std::string ports = R"(["a", 0, 0])";
  const auto with = [&](const std::string& node) {
    return model(input("a") + ", " + dense("d", "[" + node + "]"), ports, R"(["d", 0, 0])");
  };
  expect_refused(with(call(tensor("a"), R"({"mask": [1]})")), "mask=a list of 1 values");
  expect_refused(with(call(tensor("a") + ", " + tensor("a"))), "one, or one list of them");
  EXPECT_EQ(read(with(call(tensor("a") + ", null", R"({"mask": null})"))).calls().size(), 2u);
  // Keras 3's fit and predict overrule it.
  EXPECT_EQ(read(with(call(tensor("a"), R"({"training": true})"))).calls().size(), 2u);
}

TEST(KerasFunctional, RefusesBrokenLists) {
  const std::string d = dense("d", "[" + call(tensor("a")) + "]");
  expect_refused(
      model(input("a") + ", " + input("a") + ", " + d, R"(["a", 0, 0])", R"(["d", 0, 0])"),
      "the same name twice");
  expect_refused(model(input("a") + ", " + dense("d", "[]"), R"(["a", 0, 0])", R"(["d", 0, 0])"),
                 "one without \"inbound_nodes\"");
  expect_refused(model(input("a") + ", " + d, R"({"x": 3})", R"(["d", 0, 0])"),
                 "a list of tensors");
  expect_refused(model(input("a") + ", " + d, R"(["d", 0, 0])", R"(["d", 0, 0])"), "InputLayer");
  expect_refused(model(input("a") + ", " + d, R"(["a", 0, 0])", "[]"), "expected an output");
}

TEST(KerasFunctional, NamesTheLayerWhoseCallFails) {
  const std::string concat = layer("Concatenate", "c", R"(, "axis": 7)",
                                   "[" + call("[" + tensor("a") + ", " + tensor("a") + "]") + "]");
  expect_refused(model(input("a") + ", " + concat, R"(["a", 0, 0])", R"(["c", 0, 0])"), "[c]");
}

TEST(KerasFunctional, ReadsLongChainsAndWideGraphsQuickly) {
  std::string layers = input("a");
  std::string before = "a";
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "r" + std::to_string(i);
    layers += ", " + layer("Flatten", name, "", R"([[[")" + before + R"(", 0, 0]]])");
    before = name;
  }
  EXPECT_EQ(read(model(layers, R"(["a", 0, 0])", R"([")" + before + R"(", 0, 0])")).layer_count(),
            2001u);
}

}  // namespace
}  // namespace plimsoll::formats
