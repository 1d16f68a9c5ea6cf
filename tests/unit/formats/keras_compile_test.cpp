#include "formats/keras/keras_compile.h"

#include <gtest/gtest.h>

#include "formats/json_text.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using layers::CompileOptions;

std::optional<CompileOptions> read(const std::string& json, const Model& model) {
  return read_compile(parse_json(json, "x"), model, "m.keras");
}

TEST(KerasCompile, NothingWasCompiled) {
  EXPECT_FALSE(read("{}", small_sequential()));
  EXPECT_FALSE(read("null", small_sequential()));
}

TEST(KerasCompile, ReadsNamesAndObjects) {
  const auto compile = read(R"({"optimizer": {"module": "keras.optimizers", "class_name": "Adam",
      "config": {"learning_rate": 0.5}, "registered_name": null}, "loss": "mse",
      "loss_weights": null, "metrics": ["mae", {"class_name": "BinaryAccuracy",
      "config": {"threshold": 0.25}}], "weighted_metrics": null, "run_eagerly": false})",
                            small_sequential());
  ASSERT_TRUE(compile);
  EXPECT_EQ(compile->optimizer.at("config").at("learning_rate").as_double(), 0.5);
  EXPECT_EQ(compile->losses, std::vector<Config>{Config("mse")});
  ASSERT_EQ(compile->metrics.size(), 1u);
  ASSERT_EQ(compile->metrics[0].size(), 2u);
  EXPECT_EQ(compile->metrics[0][0], Config("mae"));
  EXPECT_FALSE(compile->sample_weights);
}

TEST(KerasCompile, ReadsListsAndDictionariesByOutput) {
  const Model model = small_functional();  // outputs p, q
  const auto list = read(R"({"loss": ["mse", {"class_name": "MeanAbsoluteError", "config": {}}],
      "metrics": [["mae"], null]})",
                         model);
  ASSERT_EQ(list->losses.size(), 2u);
  EXPECT_EQ(list->losses[0], Config("mse"));
  EXPECT_EQ(list->metrics, (std::vector<std::vector<Config>>{{Config("mae")}, {}}));
  const auto named = read(R"({"loss": {"q": "mae", "p": "mse"}, "metrics": {"q": "mse"}})", model);
  EXPECT_EQ(named->losses, (std::vector<Config>{Config("mse"), Config("mae")}));
  EXPECT_EQ(named->metrics, (std::vector<std::vector<Config>>{{}, {Config("mse")}}));
  EXPECT_EQ(read(R"({"loss": "mse"})", model)->losses.size(), 1u);
}

TEST(KerasCompile, ReadsTuplesAndListsOfOne) {
  const auto compile = read(R"({"loss": ["mse"], "metrics": {"class_name": "__tuple__",
      "items": ["mae", "mse"]}})",
                            small_sequential());
  EXPECT_EQ(compile->losses, std::vector<Config>{Config("mse")});
  EXPECT_EQ(compile->metrics[0].size(), 2u);
  EXPECT_EQ(read(R"({"metrics": [["mae"]]})", small_sequential())->metrics,
            (std::vector<std::vector<Config>>{{Config("mae")}}));
}

TEST(KerasCompile, DropsWhatOnlyKeras2Wrote) {
  const auto compile = read(R"({"optimizer": {"class_name": "Adam", "config": {"lr": 0.5,
      "decay": 0.0, "jit_compile": true, "is_legacy_optimizer": false}}})",
                            small_sequential());
  EXPECT_EQ(print_json(compile->optimizer.at("config"), 0), R"({"learning_rate": 0.5})");
  const auto decaying = read(R"({"optimizer": {"class_name": "Adam", "config": {"decay": 0.1}}})",
                             small_sequential());
  EXPECT_NE(decaying->optimizer.at("config").find("decay"), nullptr);
}

TEST(KerasCompile, ReadsWeightsOfLossesAndWeightedMetrics) {
  const Model model = small_functional();
  const auto weights = [&](const std::string& json) {
    return read(R"({"loss": "mse", "loss_weights": )" + json + "}", model)->loss_weights;
  };
  EXPECT_EQ(weights("[1.0, 0.5]"), (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(weights(R"({"q": 2})"), (std::vector<double>{1.0, 2.0}));
  EXPECT_EQ(weights("[1, 1.0]"), std::vector<double>{});
  EXPECT_EQ(weights("null"), std::vector<double>{});
  const auto weighted = read(R"({"loss": "mse", "weighted_metrics": [["mae"], []]})", model);
  EXPECT_EQ(weighted->weighted_metrics, (std::vector<std::vector<Config>>{{Config("mae")}, {}}));
  const auto partial = read(R"({"loss": {"p": "mse"}})", model);
  EXPECT_EQ(partial->losses, (std::vector<Config>{Config("mse"), Config()}));
}

TEST(KerasCompile, KeepsWhatItCannotRead) {
  const Model model = small_functional();
  const auto kept = [&](const std::string& json, const std::string& reason) {
    SCOPED_TRACE(json);
    const Config given = parse_json(json, "x");
    const std::optional<CompileOptions> compile = read(json, model);
    ASSERT_TRUE(compile);
    EXPECT_NE(compile->unread_loss.find(reason), std::string::npos) << compile->unread_loss;
    const Config written = write_compile(*compile, model);
    for (const auto& [key, value] : given.as_object()) EXPECT_EQ(written.at(key), value);
  };
  kept(R"({"loss": {"p": "mse", "pp": "mse"}})", "names of outputs, received \"pp\"");
  kept(R"({"loss": ["mse"]})", "one entry for each of 2 outputs");
  kept(R"({"loss": 3})", "names, a list or a dictionary");
  kept(R"({"loss": ["mse", 3]})", "a name or a serialized object");
  kept(R"({"loss": ["mse", "mae"], "loss_weights": {"r": 2}})", "[loss_weights] expected names");
  kept(R"({"loss": ["mse", "mae"], "metrics": [[3], []], "jit_compile": "auto"})", "");
  kept(R"({"loss": ["mse", {"class_name": "Mine", "config": {"a": 1}}],
      "optimizer": {"class_name": "Yours", "config": {"b": 2}},
      "metrics": [["mae"], [{"class_name": "Theirs", "config": {}}]]})",
       "");
}

TEST(KerasCompile, WritesWhatItReads) {
  const Model model = small_functional();
  const auto compile = read(R"({"optimizer": {"class_name": "SGD", "config": {"momentum": 0.5}},
      "loss": {"q": "mae", "p": {"class_name": "MeanSquaredError", "config": {}}},
      "metrics": {"q": ["mse"]}})",
                            model);
  const Config written = write_compile(*compile, model);
  EXPECT_EQ(written.at("optimizer").at("module").as_string(), "keras.optimizers");
  EXPECT_EQ(written.at("optimizer").at("config").at("momentum").as_double(), 0.5);
  EXPECT_EQ(written.at("loss").as_array()[0].at("module").as_string(), "keras.losses");
  EXPECT_EQ(written.at("loss").as_array()[1], Config("mae"));
  const auto again = read_compile(written, model, "again");
  EXPECT_EQ(write_compile(*again, model), written);
  EXPECT_EQ(again->metrics, compile->metrics);
}

TEST(KerasCompile, RepeatsALossThatServesAllOutputs) {
  CompileOptions compile;
  compile.losses = {Config("mse")};
  const Config written = write_compile(compile, small_functional());
  EXPECT_EQ(print_json(written.at("loss"), 0), R"(["mse", "mse"])");
  EXPECT_TRUE(written.at("metrics").is_null());
  EXPECT_EQ(write_compile(compile, small_sequential()).at("loss"), Config("mse"));
}

}  // namespace
}  // namespace plimsoll::formats
