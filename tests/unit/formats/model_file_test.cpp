#include "formats/model_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "codec/hdf5/hdf5_writer.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;
using test::TemporaryFolder;

void expect_refused(const std::string& path, const std::string& part) {
  expect_error(ErrorKind::kModel, part, [&] { load_model(path); });
}

std::string write_hdf5(const std::string& path, bool whole_model) {
  codec::Hdf5Tree tree;
  tree.add_group("model_weights");
  if (whole_model) tree.set_attribute("", "model_config", std::string("{}"));
  AtomicFile file(path);
  codec::FileSink sink(file);
  codec::Hdf5Writer(tree, sink).finish();
  file.commit();
  return path;
}

TEST(ModelFile, RoundTripsStructureAsJson) {
  const TemporaryFolder folder;
  const Model model = small_functional();
  MemoryState state;
  save_model(folder / "m.json", model, nullptr, state);
  const LoadedModel loaded = load_model(folder / "m.json");
  EXPECT_EQ(loaded.weights, nullptr);
  EXPECT_FALSE(loaded.compile);
  EXPECT_EQ(loaded.model.all_weights(), model.all_weights());
}

TEST(ModelFile, GoesByContentNotByName) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  MemoryState state = numbered_state(model);
  save_model(folder / "m.keras", model, nullptr, state);
  std::filesystem::rename(folder / "m.keras", folder / "m.json");
  EXPECT_NE(load_model(folder / "m.json").weights, nullptr);
}

TEST(ModelFile, RefusesOtherFormatsWithTheWayOut) {
  const TemporaryFolder folder;
  expect_refused(write_hdf5(folder / "whole.h5", true), "a Keras model with \"class_name\"");
  expect_refused(write_hdf5(folder / "weights.h5", false), "weights without their model");
  folder.write("part.index", "x");
  expect_refused(folder.write("part.data-00000-of-00001", "x"),
                 "a part of a TensorFlow checkpoint");
  folder.write("saved/saved_model.pb", "x");
  expect_refused(folder / "saved", "a TensorFlow SavedModel folder");
  folder.write("training/checkpoint", "x");
  expect_refused(folder / "training", "a folder of TensorFlow checkpoints");
  expect_refused(folder.path(), "received a folder");
  expect_refused(folder.write("lfs.keras", "version https://git-lfs.github.com/spec/v1\noid x"),
                 "git lfs pull");
  expect_refused(folder.write("empty.keras", ""), "an empty file");
  expect_refused(folder.write("pickle.keras", "\x80\x04pickle"), "a Python pickle");
  expect_refused(folder.write("noise.keras", "noise"), "something else");
  expect_refused(folder.write("text.json", "  {\"class_name\": "), "text.json");
  expect_refused(folder.write("big.json", "{" + std::string(9 << 20, ' ')), "JSON of 9 MiB");
}

TEST(ModelFile, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, "none.keras", [&] { load_model(folder / "none.keras"); });
}

TEST(ModelFile, ChecksTheOutputsName) {
  check_output_name("a.keras");
  check_output_name("b/c.json");
  check_output_name("c.h5");
  check_output_name("c.weights.h5");
  for (const std::string name : {"model.hd5", "model", ".keras", "model.keras.tmp"}) {
    expect_error(ErrorKind::kConfig,
                 "expected a name that ends in .keras, .h5, .weights.h5 or .json",
                 [&] { check_output_name(name); });
  }
  expect_error(ErrorKind::kConfig, "Did you mean \".keras\"?",
               [] { check_output_name("model.kears"); });
}

TEST(ModelFile, DoesNotWriteWhereItCannot) {
  const TemporaryFolder folder;
  const Model model = small_sequential();
  MemoryState state = numbered_state(model);
  expect_error(ErrorKind::kIo, "none/m.keras",
               [&] { save_model(folder / "none/m.keras", model, nullptr, state); });
  EXPECT_EQ(folder.count_entries(), 0);
}

}  // namespace
}  // namespace plimsoll::formats
