#include "formats/keras/keras_archive.h"

#include <gtest/gtest.h>

#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_writer.h"
#include "codec/zip_reader.h"
#include "codec/zip_writer.h"
#include "formats/json_text.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_weights.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using layers::CompileOptions;
using test::expect_error;
using test::TemporaryFolder;

class ByteCollector final : public codec::ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    content.insert(content.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> content;
};

std::vector<std::byte> weights_file(const Model& model, TensorSource& state) {
  ByteCollector sink;
  write_weights(model, nullptr, state, sink);
  return std::move(sink.content);
}

// An archive of any members.
struct Member {
  std::string name;
  std::vector<std::byte> content;
  codec::ZipMethod method = codec::ZipMethod::kStored;
};
std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}
std::string write_zip(const TemporaryFolder& folder, const std::vector<Member>& members) {
  const std::string path = folder / "made.keras";
  File file = File::create(path);
  codec::ZipWriter zip(file);
  for (const Member& member : members) zip.add(member.name, member.content, member.method);
  zip.finish();
  return path;
}
std::vector<Member> good_members(const Model& model) {
  MemoryState state = numbered_state(model);
  return {{"metadata.json", bytes_of(R"({"keras_version": "3.15.0"})")},
          {"config.json", bytes_of(print_json(write_architecture(model), 0))},
          {"model.weights.h5", weights_file(model, state)}};
}

CompileOptions adam() {
  CompileOptions compile;
  compile.optimizer = object({{"class_name", "Adam"}, {"config", object({{"amsgrad", true}})}});
  compile.losses = {Config("mse")};
  return compile;
}

// Weights, and Adam's variables for those that are trained.
MemoryState trained_state(const Model& model) {
  MemoryState state = numbered_state(model);
  float next = 100;
  for (const layers::ModelWeight& weight : model.all_weights()) {
    if (!weight.trainable) continue;
    for (const std::string slot : {"momentum", "velocity", "velocity_hat"}) {
      const auto count =
          static_cast<size_t>(fixed_shape(weight.weight.shape).elements_per_sample());
      state.add_floats("optimizer/" + weight.name + "/" + slot, weight.weight.shape,
                       std::vector<float>(count, next++));
    }
  }
  state.add_floats("optimizer/learning_rate", {}, {0.125F});
  std::vector<std::byte> iterations(sizeof(int64_t));
  iterations[0] = std::byte{42};
  state.add({"optimizer/iteration", DType::kInt64, {}}, iterations);
  return state;
}

TEST(KerasArchive, RoundTripsEveryWeight) {
  const TemporaryFolder folder;
  for (const Model& model : {small_sequential(), small_functional()}) {
    MemoryState state = numbered_state(model);
    const std::string path = folder / "m.keras";
    save_model(path, model, nullptr, state);
    LoadedModel loaded = load_model(path);
    EXPECT_FALSE(loaded.compile);
    EXPECT_EQ(loaded.model.all_weights(), model.all_weights());
    ASSERT_NE(loaded.weights, nullptr);
    EXPECT_EQ(read_all(*loaded.weights), read_all(state));
  }
}

TEST(KerasArchive, RoundTripsTheOptimizer) {
  const TemporaryFolder folder;
  Model model = small_functional();
  model.set_trainable("p", false);
  const CompileOptions compile = adam();
  MemoryState state = trained_state(model);
  save_model(folder / "m.keras", model, &compile, state);
  LoadedModel loaded = load_model(folder / "m.keras");
  ASSERT_TRUE(loaded.compile);
  EXPECT_EQ(loaded.compile->losses, (std::vector<Config>{Config("mse"), Config("mse")}));
  EXPECT_EQ(loaded.model.parameters(), model.parameters());
  EXPECT_EQ(read_all(*loaded.weights), read_all(state));
  MemoryState weights = numbered_state(model);
  EXPECT_EQ(read_all(*without_optimizer(std::move(loaded.weights))), read_all(weights));
  EXPECT_EQ(without_optimizer(nullptr), nullptr);
}

// iterations, learning rate; momentum and velocity weight by weight; then every velocity_hat.
TEST(KerasArchive, OptimizerVariablesStandInKerasOrder) {
  const TemporaryFolder folder;
  const Model model = small_functional();
  const CompileOptions compile = adam();
  MemoryState state = trained_state(model);
  ByteCollector sink;
  write_weights(model, &compile, state, sink);
  const codec::Hdf5Reader file(
      std::make_shared<codec::MemoryReader>(std::move(sink.content), "w.h5"));
  EXPECT_EQ(file.list("optimizer/vars").size(), 2u + 3 * 6);
  float value = 0;
  const auto first = [&](int index) {
    file.open("optimizer/vars/" + std::to_string(index))->read_as(DType::kFloat32, 0, 1, &value);
    return value;
  };
  EXPECT_EQ(first(1), 0.125F);
  EXPECT_EQ(first(2), 100.0F);   // shared/kernel/momentum
  EXPECT_EQ(first(3), 101.0F);   // shared/kernel/velocity
  EXPECT_EQ(first(4), 103.0F);   // shared/bias/momentum
  EXPECT_EQ(first(14), 102.0F);  // shared/kernel/velocity_hat
  EXPECT_EQ(first(15), 105.0F);  // shared/bias/velocity_hat
}

TEST(KerasArchive, LeavesOutTheOptimizerThatTheStateLacks) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  const CompileOptions compile = adam();
  MemoryState state = numbered_state(model);
  save_model(folder / "m.keras", model, &compile, state);
  LoadedModel loaded = load_model(folder / "m.keras");
  EXPECT_TRUE(loaded.compile);
  EXPECT_EQ(read_all(*loaded.weights), read_all(state));
}

TEST(KerasArchive, ReadsInPiecesAndAgain) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  LoadedModel loaded = load_model(write_zip(folder, good_members(model)));
  float pair[2] = {};
  loaded.weights->read(0, 8, std::as_writable_bytes(std::span(pair)));
  EXPECT_EQ(pair[0], 1002.0F);
  loaded.weights->read(1, 0, std::as_writable_bytes(std::span(pair)));
  EXPECT_EQ(pair[1], 2001.0F);
  loaded.weights->read(0, 0, std::as_writable_bytes(std::span(pair)));
  EXPECT_EQ(pair[0], 1000.0F);
}

TEST(KerasArchive, ReadsDeflatedMembers) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  std::vector<Member> members = good_members(model);
  for (Member& member : members) member.method = codec::ZipMethod::kDeflated;
  LoadedModel loaded = load_model(write_zip(folder, members));
  MemoryState state = numbered_state(model);
  EXPECT_EQ(read_all(*loaded.weights), read_all(state));
}

// Keras 2.13 on Windows: a flat group "layers\dense"; 2.13: another name for "layers".
TEST(KerasArchive, ReadsTheGroupNamesOfOldFiles) {
  const TemporaryFolder folder;
  Model model("m", ModelKind::kSequential);
  model.append("InputLayer", input_of({2}));
  model.append("Dense", object({{"units", 1}, {"name", "whatever"}}));
  for (const std::string group : {"layers\\dense", "_layer_checkpoint_dependencies/dense",
                                  "_layer_checkpoint_dependencies\\dense", "layers/dense"}) {
    SCOPED_TRACE(group);
    codec::Hdf5Tree tree;
    const std::vector<int64_t> kernel = {2, 1};
    const std::vector<int64_t> bias = {1};
    tree.add_dataset(group + "/vars/0", DType::kFloat32, kernel);
    tree.add_dataset(group + "/vars/1", DType::kFloat32, bias);
    ByteCollector sink;
    codec::Hdf5Writer writer(tree, sink);
    const std::vector<float> values = {1, 2, 3};
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    std::vector<Member> members = good_members(model);
    members[2].content = sink.content;
    LoadedModel loaded = load_model(write_zip(folder, members));
    const auto all = read_all(*loaded.weights);
    EXPECT_EQ(all.at("whatever/kernel"), bytes_of(std::string("\0\0\x80\x3F\0\0\0\x40", 8)));
    EXPECT_EQ(all.at("whatever/bias"), bytes_of(std::string("\0\0\x40\x40", 4)));
  }
}

TEST(KerasArchive, RefusesWeightsOfAnotherModel) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  Model fewer("fewer", ModelKind::kSequential);
  fewer.append("InputLayer", input_of({6, 6, 2}));
  fewer.append("Conv2D", object({{"filters", 3}, {"kernel_size", 3}}));
  Model wider("wider", ModelKind::kSequential);
  wider.append("InputLayer", input_of({6, 6, 2}));
  wider.append("Conv2D", object({{"filters", 4}, {"kernel_size", 3}}));
  const auto mixed = [&](const Model& structure, const Model& weights) {
    std::vector<Member> members = good_members(structure);
    members[2].content = good_members(weights)[2].content;
    return write_zip(folder, members);
  };
  expect_error(ErrorKind::kModel, "[batch_normalization] expected 4 weights",
               [&] { load_model(mixed(model, fewer)); });
  expect_error(ErrorKind::kModel, "expected weights of the model's layers only",
               [&] { load_model(mixed(fewer, model)); });
  expect_error(ErrorKind::kModel,
               "[conv2d/kernel] expected the shape (3, 3, 2, 3), received (3, "
               "3, 2, 4)",
               [&] { load_model(mixed(fewer, wider)); });
}

TEST(KerasArchive, RefusesMembersThatCouldRun) {
  const TemporaryFolder folder;
  for (const std::string name : {"evil.pkl", "assets/x.pickle", "model.py", "weights.npz"}) {
    std::vector<Member> members = good_members(small_sequential());
    members.push_back({name, bytes_of("x")});
    const std::string path = write_zip(folder, members);
    expect_error(ErrorKind::kModel, "the member " + name, [&] { load_model(path); });
  }
}

// The writer does not make such archives: a name is put in place of another of its length.
TEST(KerasArchive, RefusesArchivesThatLieAboutTheirMembers) {
  const TemporaryFolder folder;
  for (const std::string name : {"config.json", "../config.json", "/etc/passwd", "a/../../b"}) {
    std::vector<Member> members = good_members(small_sequential());
    const std::string honest(name.size(), 'x');
    members.push_back({honest, bytes_of("{}")});
    std::string archive = TemporaryFolder::read(write_zip(folder, members));
    int renamed = 0;
    for (size_t at = archive.find(honest); at != std::string::npos; at = archive.find(honest)) {
      archive.replace(at, name.size(), name);
      ++renamed;
    }
    EXPECT_EQ(renamed, 2);  // the member's own header and the directory
    const std::string path = folder.write("lying.keras", archive);
    expect_error(ErrorKind::kModel, name, [&] { load_model(path); });
  }
}

TEST(KerasArchive, RefusesMissingMembers) {
  const TemporaryFolder folder;
  const std::vector<Member> good = good_members(small_sequential());
  expect_error(ErrorKind::kModel, "with config.json, received a zip without it", [&] {
    load_model(write_zip(folder, {good[0], good[2]}));
  });
  expect_error(ErrorKind::kModel, "with model.weights.h5", [&] {
    load_model(write_zip(folder, {good[0], good[1]}));
  });
  expect_error(ErrorKind::kModel, "expected an HDF5 file", [&] {
    load_model(write_zip(folder, {good[0], good[1], {"model.weights.h5", bytes_of("none")}}));
  });
  EXPECT_NO_THROW(load_model(write_zip(folder, {good[1], good[2]})));
}

// Whatever is cut or changed: an answer, and never anything but an Error of the right kinds.
TEST(KerasArchive, SurvivesTruncatedAndDamagedFiles) {
  const TemporaryFolder folder;
  const std::string path = write_zip(folder, good_members(small_sequential()));
  const std::string good = TemporaryFolder::read(path);
  int refused = 0;
  const auto try_file = [&](const std::string& content) {
    const std::string damaged = folder.write("damaged.keras", content);
    try {
      LoadedModel loaded = load_model(damaged);
      read_all(*loaded.weights);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kModel || error.kind() == ErrorKind::kIo)
          << error.what();
      ++refused;
    }
  };
  int cuts = 0;
  for (size_t length = 0; length < good.size(); length += 97, ++cuts) {
    try_file(good.substr(0, length));
  }
  EXPECT_EQ(refused, cuts);
  for (size_t at = 0; at < good.size(); at += 53) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
    try_file(damaged);
  }
}

// A state that fails in the middle leaves neither the file nor a temporary one.
TEST(KerasArchive, WritesAllOrNothing) {
  class FailingState final : public TensorSource {
   public:
    explicit FailingState(MemoryState& inner) : inner_(inner) {}
    std::span<const TensorInfo> tensors() const override { return inner_.tensors(); }
    void read(size_t index, int64_t begin, std::span<std::byte> destination) override {
      if (index == 3) throw Error(ErrorKind::kIo, "the device is gone");
      inner_.read(index, begin, destination);
    }

   private:
    MemoryState& inner_;
  };
  const TemporaryFolder folder;
  const Model model = small_sequential();
  MemoryState state = numbered_state(model);
  FailingState failing(state);
  expect_error(ErrorKind::kIo, "the device is gone",
               [&] { save_model(folder / "m.keras", model, nullptr, failing); });
  EXPECT_EQ(folder.count_entries(), 0);
  save_model(folder / "m.keras", model, nullptr, state);
  const std::string before = TemporaryFolder::read(folder / "m.keras");
  expect_error(ErrorKind::kIo, "the device is gone",
               [&] { save_model(folder / "m.keras", model, nullptr, failing); });
  EXPECT_EQ(TemporaryFolder::read(folder / "m.keras"), before);
  EXPECT_EQ(folder.count_entries(), 1);
}

TEST(KerasArchive, EqualStatesGiveEqualFiles) {
  const TemporaryFolder folder;
  const Model model = small_functional();
  MemoryState state = numbered_state(model);
  save_model(folder / "a.keras", model, nullptr, state);
  save_model(folder / "b.keras", model, nullptr, state);
  EXPECT_EQ(TemporaryFolder::read(folder / "a.keras"), TemporaryFolder::read(folder / "b.keras"));
}

}  // namespace
}  // namespace plimsoll::formats
