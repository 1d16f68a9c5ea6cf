#include "formats/keras/keras_json.h"

#include <gtest/gtest.h>

#include "formats/json_text.h"
#include "unit/base/expect_error.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;

Model read(const std::string& json) { return read_architecture(parse_json(json, "m.json"), "m"); }

// A Sequential of Keras 3 around the given entries after an input of 4 values.
std::string sequential(const std::string& layers) {
  return R"({"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [
    {"module": "keras.layers", "class_name": "InputLayer",
     "config": {"batch_shape": [null, 4], "dtype": "float32", "name": "in"}}, )" +
         layers + "]}}";
}

std::string dense(const std::string& more) {
  return R"({"module": "keras.layers", "class_name": "Dense", "config": {"name": "d", "units": 3)" +
         more + R"(}, "registered_name": null})";
}

void expect_refused(const std::string& json, const std::string& part) {
  SCOPED_TRACE(json);
  expect_error(ErrorKind::kModel, part, [&] { read(json); });
}

TEST(KerasJson, ReadsASequentialOfKeras3) {
  const Model model = read(sequential(dense(R"(, "activation": "relu", "dtype": {"module": "keras",
      "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": null})")));
  EXPECT_EQ(model.kind(), ModelKind::kSequential);
  EXPECT_EQ(model.name(), "s");
  ASSERT_EQ(model.layer_count(), 2u);
  EXPECT_EQ(model.layer(LayerId(size_t{1})).config().at("activation").as_string(), "relu");
  EXPECT_EQ(model.parameters().trainable, 15);
  EXPECT_EQ(to_string(model.outputs()[0].type.shape), "(B, 3)");
}

TEST(KerasJson, ReadsASequentialOfKeras2) {
  const Model model = read(R"({"class_name": "Sequential", "keras_version": "2.4.0",
    "backend": "tensorflow", "config": {"name": "old", "layers": [
      {"class_name": "Dense", "config": {"name": "d", "trainable": false, "dtype": "float32",
       "batch_input_shape": [null, 4], "units": 3, "activation": "linear", "use_bias": true,
       "kernel_initializer": {"class_name": "GlorotUniform", "config": {"seed": null}},
       "bias_initializer": {"class_name": "Zeros", "config": {}}, "kernel_regularizer": null,
       "bias_regularizer": null, "activity_regularizer": null, "kernel_constraint": null,
       "bias_constraint": null}}]}})");
  EXPECT_EQ(model.parameters().frozen, 15);
  EXPECT_EQ(model.inputs().size(), 1u);
}

TEST(KerasJson, ReadsTheListOfKeras20AndNamesItsLayers) {
  const Model model = read(R"({"class_name": "Sequential", "keras_version": "2.0.6", "config": [
      {"class_name": "Dense", "config": {"batch_input_shape": [null, 4], "units": 3}},
      {"class_name": "Dense", "config": {"units": 2, "name": "dense"}},
      {"class_name": "Dense", "config": {"units": 1}}]})");
  ASSERT_EQ(model.layer_count(), 4u);
  EXPECT_EQ(model.layer(LayerId(size_t{1})).name(), "dense_1");
  EXPECT_EQ(model.layer(LayerId(size_t{2})).name(), "dense");
  EXPECT_EQ(model.layer(LayerId(size_t{3})).name(), "dense_2");
}

TEST(KerasJson, ReadsABareConfiguration) {
  const std::string layers =
      R"([{"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "name": "in"}}, )" +
      dense("") + "]";
  EXPECT_EQ(read(R"({"name": "bare", "layers": )" + layers + "}").name(), "bare");
  EXPECT_EQ(read(layers).parameters().total(), 15);
}

TEST(KerasJson, TakesTheShapeOfAModelThatWasBuiltByCallingIt) {
  const std::string layers = R"("config": {"name": "s", "layers": [)" + dense("") + "]";
  const Model model =
      read(R"({"class_name": "Sequential", )" + layers + R"(, "build_input_shape": [null, 4]}})");
  EXPECT_EQ(model.parameters().total(), 15);
  expect_refused(R"({"class_name": "Sequential", )" + layers + "}}",
                 "expected the shape of the model's input, received none");
}

TEST(KerasJson, WritesWhatItReads) {
  for (const Model& model : {small_sequential(), small_functional()}) {
    const Config json = write_architecture(model);
    const Model again = read_architecture(json, "again");
    EXPECT_EQ(print_json(write_architecture(again), 1), print_json(json, 1));
    EXPECT_EQ(again.kind(), model.kind());
    EXPECT_EQ(again.name(), model.name());
    EXPECT_EQ(again.all_weights(), model.all_weights());
    EXPECT_EQ(again.outputs().size(), model.outputs().size());
  }
}

TEST(KerasJson, SaysWhatIsNoModel) {
  expect_refused(R"("{\"class_name\": \"Sequential\"}")", "JSON text inside a JSON string");
  expect_refused(R"({"weights": [1, 2]})", "received an object with \"weights\"");
  expect_refused("12", "received 12");
  expect_refused("null", "received null");
  expect_refused("[]", "expected the shape of the model's input");
  expect_refused(R"({"class_name": "Sequential"})", "expected a \"config\"");
  expect_refused(R"({"class_name": "Sequential", "config": {"layers": 3}})", "a list of layers");
  expect_refused(R"({"class_name": "Sequential", "config": [7]})", "[layer 0]");
}

TEST(KerasJson, RefusesSubclassedModelsByClass) {
  expect_refused(R"({"module": "__main__", "class_name": "MyNet", "config": {"depth": 3}})",
                 "the class MyNet, whose file holds no graph of layers");
}

TEST(KerasJson, RefusesOtherPrecisionsWithTheWayOut) {
  for (const std::string name : {"bfloat16", "float64", "float16"}) {
    const std::string way_out = "keras.config.set_dtype_policy('float32')";
    expect_refused(sequential(dense(R"(, "dtype": ")" + name + "\"")),
                   "[d] expected float32, mixed_bfloat16 or mixed_float16, received " + name);
    expect_refused(sequential(dense(R"(, "dtype": {"class_name": "DTypePolicy", "config":
        {"name": ")" + name + "\"}}")),
                   way_out);
    expect_refused(sequential(dense(R"(, "dtype": {"class_name": "Policy", "config":
        {"name": ")" + name + "\"}}")),
                   way_out);
  }
}

TEST(KerasJson, RefusesCodeThatIsNotKeras) {
  expect_refused(sequential(R"({"module": "my.layers", "class_name": "Dense",
                              "config": {"units": 2}, "registered_name": "Mine>Dense"})"),
                 "the custom layer Mine>Dense of module my.layers");
  expect_refused(sequential(R"({"module": null, "class_name": "Dense", "config": {"units": 2},
                              "registered_name": "Custom>Dense"})"),
                 "the custom layer Custom>Dense");
  expect_refused(sequential(R"({"module": "keras.layers", "class_name": "Lambda",
                              "config": {"name": "l", "function": "os.system"}})"),
                 "Lambda: it holds Python code");
  expect_refused(sequential(R"({"module": "keras.layers", "class_name": "Dens",
                              "config": {"name": "d"}})"),
                 "Did you mean \"Dense\"?");
}

TEST(KerasJson, RefusesSizesBeyondSense) {
  const std::string in = R"({"class_name": "Sequential", "config": [
      {"class_name": "InputLayer", "config": {"name": "in", "batch_shape": )";
  expect_refused(in + "[null, 1099511627776]}}]}", "[in] expected batch_shape of at most 2^31");
  expect_refused(in + "[null, 2000000000, 2000000000, 2000000000]}}]}", "of at most 2^40 elements");
  expect_refused(in + "[null, -5]}}]}", "batch_shape");
  expect_refused(sequential(dense(R"(, "extra": [[1048576, 1048577]])")), "at most 2^40 elements");
  const std::string wide = R"({"class_name": "Sequential", "config": [
      {"class_name": "Dense", "config": {"name": "d", "batch_input_shape": [null, 2000000000],
       "units": 2000000000}}]})";
  expect_refused(wide, "[d] expected a weight of at most 2^40 elements");
}

TEST(KerasJson, SeedsAndIdentitiesMayBeAnyNumber) {
  const std::string more = R"(, "dtype": {"class_name": "DTypePolicy", "config":
      {"name": "float32"}, "shared_object_id": 1962567529248}, "kernel_initializer":
      {"class_name": "GlorotUniform", "config": {"seed": 99999999999}})";
  EXPECT_EQ(read(sequential(dense(more))).parameters().total(), 15);
}

TEST(KerasJson, RefusesTooManyLayers) {
  std::string list;
  for (int64_t i = 0; i <= kMaxLayers; ++i) list += R"(, {"class_name": "Flatten", "config": {}})";
  expect_refused("[" + list.substr(2) + "]", "at most 10000 layers");
}

}  // namespace
}  // namespace plimsoll::formats
