#include "formats/keras/keras_order.h"

#include <gtest/gtest.h>

#include "formats/keras/keras_tree.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

std::vector<std::string> names(const Model& model) {
  std::vector<std::string> result;
  const layers::ModelTree tree = tree_of(model);
  for (const size_t node : keras_order(tree).nodes) result.push_back(tree.nodes[node].name);
  return result;
}

using Names = std::vector<std::string>;

Names groups(const Model& model) {
  const layers::ModelTree tree = tree_of(model);
  return weight_groups(tree, keras_order(tree));
}

TEST(KerasOrder, SequentialKeepsTheOrderOfAdding) {
  const Model model = small_sequential();
  EXPECT_EQ(names(model),
            (Names{"input_layer", "conv2d", "batch_normalization", "flatten", "head"}));
  EXPECT_EQ(groups(model), (Names{"", "layers/conv2d", "layers/batch_normalization",
                                  "layers/flatten", "layers/dense"}));
}

// Both inputs are as deep as the shared layer makes them; q hangs on a shallower value than p.
TEST(KerasOrder, FunctionalGoesByDepthThenByTheWalkFromTheOutputs) {
  const Model model = small_functional();
  EXPECT_EQ(names(model), (Names{"a", "b", "shared", "add", "p", "q"}));
  EXPECT_EQ(groups(model), (Names{"layers/input_layer", "layers/input_layer_1", "layers/dense",
                                  "layers/add", "layers/dense_1", "layers/dense_2"}));
}

// The order in which layers were made does not matter; that of outputs does.
TEST(KerasOrder, DoesNotDependOnTheOrderOfMaking) {
  Model model("m");
  const LayerId late = model.add_layer("Dense", object({{"units", 2}, {"name", "late"}}));
  const LayerId early = model.add_layer("Dense", object({{"units", 2}, {"name", "early"}}));
  const Tensor x = model.add_input(input_of({2}));
  const Tensor y = model.call(early, {x})[0];
  model.set_outputs({model.call(late, {y})[0]});
  EXPECT_EQ(names(model), (Names{"input_layer", "early", "late"}));
}

TEST(KerasOrder, LeavesOutCallsThatNoOutputNeeds) {
  Model model("m");
  const Tensor x = model.add_input(input_of({2}));
  const LayerId dense = model.add_layer("Dense", object({{"units", 2}, {"name", "d"}}));
  const LayerId other = model.add_layer("Dense", object({{"units", 2}, {"name", "other"}}));
  const Tensor y = model.call(dense, {x})[0];
  model.call(other, {y});
  const Tensor z = model.call(dense, {y})[0];
  model.call(dense, {z});
  model.set_outputs({z});
  const KerasOrder order = keras_order(tree_of(model));
  EXPECT_EQ(names(model), (Names{"input_layer", "d"}));
  EXPECT_EQ(order.calls[dense.index()].size(), 2u);
  EXPECT_TRUE(order.calls[other.index()].empty());
}

TEST(KerasOrder, KeepsInputsThatNothingUses) {
  Model model("m");
  const Tensor x =
      model.add_input(object({{"batch_shape", input_of({2}).at("batch_shape")}, {"name", "used"}}));
  model.add_input(object({{"batch_shape", input_of({2}).at("batch_shape")}, {"name", "idle"}}));
  const LayerId dense = model.add_layer("Dense", object({{"units", 2}, {"name", "d"}}));
  model.set_outputs({model.call(dense, {x})[0]});
  // Keras lists an idle input in front of the other layers of depth 0.
  EXPECT_EQ(names(model), (Names{"used", "idle", "d"}));
}

TEST(KerasOrder, WalksDeepGraphsWithoutRecursion) {
  Model model("deep");
  Tensor x = model.add_input(input_of({2}));
  const LayerId relu = model.add_layer("Activation", object({{"activation", "relu"}}));
  for (int i = 0; i < 20'000; ++i) x = model.call(relu, {x})[0];
  model.set_outputs({x});
  EXPECT_EQ(keras_order(tree_of(model)).calls[relu.index()].size(), 20'000u);
}

}  // namespace
}  // namespace plimsoll::formats
