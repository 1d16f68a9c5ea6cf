#include "formats/model_check.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::vector<std::string> reasons(const std::string& layers) {
  const TemporaryFolder folder;
  const std::string json = R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
      {"class_name": "InputLayer", "config": {"name": "in", "batch_shape": [null, 4]}}, )" +
                           layers + "]}}";
  return check_model(folder.write("m.json", json)).reasons;
}

constexpr const char* kDense = R"({"class_name": "Dense", "config": {"name": "d", "units": 3}})";
constexpr const char* kLambda = R"({"class_name": "Lambda", "config": {"name": "l"}})";
constexpr const char* kHalf =
    R"({"class_name": "Dense", "config": {"name": "h", "units": 3, "dtype": "float16"}})";
constexpr const char* kCustom =
    R"({"module": "mine", "class_name": "Mine", "config": {"name": "c"}})";

TEST(ModelCheck, FindsNothingInAModelThatTrains) {
  EXPECT_EQ(reasons(kDense), std::vector<std::string>{});
}

TEST(ModelCheck, NamesLayersThatHaveNoneAsTheyAreShown) {
  const std::vector<std::string> all =
      reasons(R"({"class_name": "Dense", "config": {"name": "dense", "units": 3}}, )"
              R"({"class_name": "Dense", "config": {"units": -3}})");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].starts_with("[dense_1] ")) << all[0];
}

TEST(ModelCheck, NamesEveryReasonAtOnce) {
  const std::string comma = ", ";
  const std::vector<std::string> all =
      reasons(kLambda + comma + kDense + comma + kHalf + comma + kCustom);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[0].find("[l]"), std::string::npos);
  EXPECT_NE(all[1].find("[h] expected float32, mixed_bfloat16 or mixed_float16, received float16"),
            std::string::npos);
  EXPECT_NE(all[2].find("the custom layer Mine"), std::string::npos);
}

TEST(ModelCheck, LooksInsideModels) {
  const std::vector<std::string> all =
      reasons(std::string(R"({"class_name": "Sequential", "config": {"name": "s", "layers": [)") +
              kLambda + "]}}");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].find("Lambda"), std::string::npos);
}

TEST(ModelCheck, SaysOnceWhatOnlyTheWholeModelShows) {
  const std::vector<std::string> all = reasons(
      R"({"class_name": "Conv2D", "config": {"name": "c", "filters": 2, "kernel_size": [3, 3]}})");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].find("rank 4"), std::string::npos);
}

TEST(ModelCheck, ReportsWhatAFileHolds) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  MemoryState state = numbered_state(model);
  layers::CompileOptions compile;
  compile.optimizer = object({{"class_name", "SGD"}, {"config", object({})}});
  compile.losses = {Config("mse")};
  save_model(folder / "m.keras", model, &compile, state);
  EXPECT_EQ(check_model(folder / "m.keras"), (CheckReport{{}, true, true}));
  save_model(folder / "bad.keras", model, nullptr, state);
  EXPECT_EQ(check_model(folder / "bad.keras"), (CheckReport{{}, true, false}));
  expect_error(ErrorKind::kIo, "none.keras", [&] { check_model(folder / "none.keras"); });
}

}  // namespace
}  // namespace plimsoll::formats
