#include "formats/keras/keras_h5.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codec/hdf5/hdf5_writer.h"
#include "formats/stored_tensor.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using layers::CompileOptions;
using test::expect_error;
using test::TemporaryFolder;

CompileOptions adam() {
  CompileOptions compile;
  compile.optimizer = object({{"class_name", "Adam"}, {"config", object({})}});
  compile.losses = {Config("mean_squared_error")};
  return compile;
}

// Weights and the variables of Adam.
MemoryState trained_state(const Model& model) {
  MemoryState state = numbered_state(model);
  float next = 100;
  for (const layers::ModelWeight& weight : model.all_weights()) {
    if (!weight.trainable) continue;
    const auto count = static_cast<size_t>(fixed_shape(weight.weight.shape).elements_per_sample());
    for (const std::string slot : {"momentum", "velocity"}) {
      state.add_floats("optimizer/" + weight.name + "/" + slot, weight.weight.shape,
                       std::vector<float>(count, next++));
    }
  }
  state.add({"optimizer/iteration", DType::kInt64, {}}, std::vector<std::byte>(8, std::byte{1}));
  state.add_floats("optimizer/learning_rate", {}, {0.25F});
  return state;
}

// An HDF5 file of float32 datasets, each filled with its position in the list.
struct Stored {
  std::string path;
  std::vector<int64_t> shape;
};
class MadeFile {
 public:
  explicit MadeFile(const TemporaryFolder& folder) : path_(folder / "made.h5") {}

  codec::Hdf5Tree tree;
  std::vector<Stored> datasets;

  void layer(const std::string& name, const std::vector<Stored>& weights) {
    layers_.push_back(name);
    tree.add_group(name);
    std::vector<std::string> names;
    for (const Stored& weight : weights) {
      names.push_back(weight.path);
      datasets.push_back({name + "/" + weight.path, weight.shape});
    }
    if (!names.empty()) tree.set_attribute(name, "weight_names", names);
  }
  codec::Hdf5Reader write(const std::string& version) {
    tree.set_attribute("", "layer_names", layers_);
    tree.set_attribute("", "keras_version", version);
    for (const Stored& dataset : datasets) {
      tree.add_dataset(dataset.path, DType::kFloat32, dataset.shape);
    }
    AtomicFile file(path_);
    codec::FileSink sink(file);
    codec::Hdf5Writer writer(tree, sink);
    float next = 0;
    for (const Stored& dataset : datasets) {
      int64_t count = 1;
      for (const int64_t extent : dataset.shape) count *= extent;
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i) values[i] = 100 * next + static_cast<float>(i);
      writer.write(std::as_bytes(std::span(values)));
      next += 1;
    }
    writer.finish();
    file.commit();
    return codec::Hdf5Reader(codec::open_reader(path_));
  }

 private:
  std::string path_;
  std::vector<std::string> layers_;
};

std::vector<float> floats(TensorSource& source, const std::string& name) {
  const std::vector<std::byte> bytes = read_all(source).at(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(KerasH5, RoundTripsModelWeightsAndOptimizer) {
  const TemporaryFolder folder;
  for (const Model& model : {small_sequential(), small_functional()}) {
    MemoryState state = trained_state(model);
    const CompileOptions compile = adam();
    save_model(folder / "m.h5", model, &compile, state);
    const LoadedModel loaded = load_model(folder / "m.h5");
    EXPECT_EQ(loaded.model.all_weights(), model.all_weights());
    ASSERT_TRUE(loaded.compile);
    EXPECT_EQ(loaded.compile->losses,
              std::vector<Config>(model.outputs().size(), compile.losses.front()));
    EXPECT_EQ(read_all(*loaded.weights), read_all(state));
  }
}

TEST(KerasH5, RoundTripsWeightsAlone) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  MemoryState state = numbered_state(model);
  save_model(folder / "m.json", model, nullptr, state);
  save_model(folder / "m.weights.h5", model, nullptr, state);
  const LoadedModel loaded =
      load_model(folder / "m.json", {.weights = folder / "m.weights.h5", .input_shapes = {}});
  EXPECT_EQ(read_all(*loaded.weights), read_all(state));
  // A whole model serves as a file of weights too.
  save_model(folder / "whole.h5", model, nullptr, state);
  const LoadedModel whole =
      load_model(folder / "m.json", {.weights = folder / "whole.h5", .input_shapes = {}});
  EXPECT_EQ(read_all(*whole.weights), read_all(state));
  expect_error(ErrorKind::kModel, "weights without their model",
               [&] { load_model(folder / "m.weights.h5"); });
}

TEST(KerasH5, MatchesLayersByNameOrElseByOrder) {
  const TemporaryFolder folder;
  Model model("m", ModelKind::kSequential);
  model.append("InputLayer", input_of({2}));
  model.append("Dense", object({{"units", 2}, {"name", "a"}, {"use_bias", false}}));
  model.append("Dense", object({{"units", 2}, {"name", "b"}, {"use_bias", false}}));
  MadeFile named(folder);
  named.layer("b", {{"b/kernel:0", {2, 2}}});
  named.layer("a", {{"a/kernel:0", {2, 2}}});
  const auto by_name = open_h5_weights(named.write("2.3.1"), model, std::nullopt);
  EXPECT_EQ(floats(*by_name, "a/kernel")[0], 100);
  MadeFile ordered(folder);
  ordered.layer("dense_7", {{"dense_7/kernel:0", {2, 2}}});
  ordered.layer("dropout", {});
  ordered.layer("dense_8", {{"dense_8/kernel:0", {2, 2}}});
  const auto by_order = open_h5_weights(ordered.write("2.3.1"), model, std::nullopt);
  EXPECT_EQ(floats(*by_order, "b/kernel")[0], 100);
}

TEST(KerasH5, RefusesWeightsOfAnotherModel) {
  const TemporaryFolder folder;
  Model model("m", ModelKind::kSequential);
  model.append("InputLayer", input_of({2}));
  model.append("Dense", object({{"units", 2}, {"name", "a"}}));
  const auto refused = [&](const std::vector<Stored>& weights, const std::string& part) {
    MadeFile file(folder);
    file.layer("a", weights);
    expect_error(ErrorKind::kModel, part,
                 [&] { open_h5_weights(file.write("2.2.4"), model, std::nullopt); });
  };
  refused({{"a/kernel:0", {2, 2}}}, "[a] expected 2 weights, received 1");
  refused({{"a/kernel:0", {2, 3}}, {"a/bias:0", {3}}}, "[a/kernel] expected the shape (2, 2)");
  MadeFile more(folder);
  more.layer("a", {{"a/kernel:0", {2, 2}}, {"a/bias:0", {2}}});
  more.layer("b", {{"b/kernel:0", {2, 2}}});
  expect_error(ErrorKind::kModel, "1 layers with weights, received 2",
               [&] { open_h5_weights(more.write("2.2.4"), model, std::nullopt); });
}

// (filters, channels, rows, columns) of a Theano-ordered kernel of Keras 1.
TEST(KerasH5, TurnsKernelsOfKeras1Round) {
  const TemporaryFolder folder;
  StoredTensor tensor{{"k", DType::kFloat32, {2, 1, 3, 2}}, {{"a/k", {2, 3, 1, 0}}}};
  MadeFile made(folder);
  made.layer("a", {{"k", {2, 3, 2, 1}}});
  codec::Hdf5Reader file = made.write("1.2.2");
  check_stored(file, tensor);
  const auto source = make_stored_source(std::move(file), {tensor});
  const std::vector<float> transposed = floats(*source, "k");
  // Element (row, 0, channel, filter) was (filter, channel, row, 0).
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c) {
      for (int f = 0; f < 2; ++f) {
        EXPECT_EQ(transposed[static_cast<size_t>((r * 3 + c) * 2 + f)],
                  static_cast<float>((f * 3 + c) * 2 + r));
      }
    }
  }
}

TEST(KerasH5, JoinsPartsAlongTheLastAxis) {
  const TemporaryFolder folder;
  const StoredTensor tensor{{"k", DType::kFloat32, {2, 3}}, {{"a/x"}, {"a/y", {}, {0}}}};
  MadeFile made(folder);
  made.layer("a", {{"x", {2, 1}}, {"y", {2, 2}}});
  codec::Hdf5Reader file = made.write("1.2.2");
  check_stored(file, tensor);
  const auto source = make_stored_source(std::move(file), {tensor});
  EXPECT_EQ(floats(*source, "k"), (std::vector<float>{0, 102, 103, 1, 100, 101}));
}

}  // namespace
}  // namespace plimsoll::formats
