#include "codec/hdf5/hdf5_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codec/hdf5/hdf5_reader.h"
#include "unit/base/expect_error.h"
#include "unit/codec/hdf5_oracle.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;
using Texts = std::vector<std::string>;

class MemorySink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> written(const Hdf5Tree& tree, std::span<const std::byte> elements) {
  MemorySink sink;
  Hdf5Writer writer(tree, sink);
  for (size_t i = 0; i < elements.size(); i += 7) {
    writer.write(elements.subspan(i, std::min<size_t>(7, elements.size() - i)));
  }
  writer.finish();
  EXPECT_EQ(writer.file_bytes(), static_cast<int64_t>(sink.bytes().size()));
  return sink.bytes();
}

Hdf5Tree model_tree() {
  Hdf5Tree tree;
  tree.add_group("model_weights/flatten");
  tree.add_dataset("model_weights/dense/kernel:0", DType::kFloat32, std::vector<int64_t>{3, 2});
  tree.add_dataset("model_weights/dense/bias:0", DType::kFloat32, std::vector<int64_t>{2});
  tree.add_dataset("step", DType::kInt64, std::vector<int64_t>{});
  tree.add_dataset("nothing", DType::kFloat32, std::vector<int64_t>{0, 4});
  tree.set_attribute("", "keras_version", "3.5.0");
  tree.set_attribute("", "model_config", std::string(100000, 'c'));
  tree.set_attribute("model_weights", "layer_names", Texts{"flatten", "dense", "größe"});
  tree.set_attribute("model_weights/flatten", "weight_names", Texts{});
  tree.set_attribute("model_weights/dense", "weight_names", Texts{"dense/kernel:0", ""});
  tree.set_attribute("step", "when", 2.5);
  tree.set_attribute("step", "count", int64_t{-3});
  tree.set_attribute("step", "list", std::vector<int64_t>{1, 2, 3});
  tree.set_attribute("step", "reals", std::vector<double>{0.5, -1});
  return tree;
}

std::vector<std::byte> model_elements() {
  const std::vector<float> kernel = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t step = 42;
  std::vector<std::byte> elements = {std::as_bytes(std::span(kernel)).begin(),
                                     std::as_bytes(std::span(kernel)).end()};
  const auto tail = std::as_bytes(std::span(&step, 1));
  elements.insert(elements.end(), tail.begin(), tail.end());
  return elements;
}

TEST(Hdf5Writer, Libhdf5ReadsEverything) {
  const std::vector<std::byte> file = written(model_tree(), model_elements());
  EXPECT_EQ(oracle::list_group(file, "/"), (Texts{"model_weights", "nothing", "step"}));
  EXPECT_EQ(oracle::list_group(file, "model_weights"), (Texts{"dense", "flatten"}));
  EXPECT_EQ(oracle::list_group(file, "model_weights/flatten"), Texts{});
  EXPECT_EQ(oracle::read_floats(file, "model_weights/dense/kernel:0"),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(oracle::read_shape(file, "model_weights/dense/kernel:0"),
            (std::vector<long long>{3, 2}));
  EXPECT_EQ(oracle::read_floats(file, "model_weights/dense/bias:0"), (std::vector<float>{7, 8}));
  EXPECT_EQ(oracle::read_floats(file, "step"), std::vector<float>{42});
  EXPECT_EQ(oracle::read_shape(file, "step"), std::vector<long long>{});
  EXPECT_EQ(oracle::read_shape(file, "nothing"), (std::vector<long long>{0, 4}));
  EXPECT_EQ(oracle::read_floats(file, "nothing"), std::vector<float>{});
  EXPECT_EQ(oracle::read_text_attribute(file, "/", "keras_version"), "3.5.0");
  EXPECT_EQ(oracle::read_text_attribute(file, "/", "model_config"), std::string(100000, 'c'));
  EXPECT_EQ(oracle::read_texts_attribute(file, "model_weights", "layer_names"),
            (Texts{"flatten", "dense", "größe"}));
  EXPECT_EQ(oracle::read_texts_attribute(file, "model_weights/flatten", "weight_names"), Texts{});
  EXPECT_EQ(oracle::read_texts_attribute(file, "model_weights/dense", "weight_names"),
            (Texts{"dense/kernel:0", ""}));
  EXPECT_EQ(oracle::read_numbers_attribute(file, "step", "when"), std::vector<double>{2.5});
  EXPECT_EQ(oracle::read_numbers_attribute(file, "step", "count"), std::vector<double>{-3});
  EXPECT_EQ(oracle::read_numbers_attribute(file, "step", "list"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(oracle::read_numbers_attribute(file, "step", "reals"), (std::vector<double>{0.5, -1}));
}

TEST(Hdf5Writer, OurReaderReadsEverything) {
  const Hdf5Reader reader(
      std::make_shared<MemoryReader>(written(model_tree(), model_elements()), "x.h5"));
  EXPECT_EQ(reader.list_datasets(""), (Texts{"model_weights/dense/bias:0",
                                             "model_weights/dense/kernel:0", "nothing", "step"}));
  EXPECT_EQ(reader.text_attribute("", "model_config")->size(), 100000u);
  EXPECT_EQ(reader.texts_attribute("model_weights", "layer_names"),
            (Texts{"flatten", "dense", "größe"}));
  EXPECT_EQ(reader.texts_attribute("model_weights/flatten", "weight_names"), Texts{});
  int64_t step = 0;
  reader.open("step")->read_as(DType::kInt64, 0, 1, &step);
  EXPECT_EQ(step, 42);
}

TEST(Hdf5Writer, EveryNumberFormatComesBack) {
  using Kind = NumberFormat::Kind;
  Hdf5Tree tree;
  std::vector<NumberFormat> formats = {{Kind::kBFloat, 2, false}, {Kind::kBool, 1, false}};
  for (int bytes : {2, 4, 8}) formats.push_back({Kind::kFloat, bytes, false});
  for (int bytes : {1, 2, 4, 8}) {
    formats.push_back({Kind::kSigned, bytes, false});
    formats.push_back({Kind::kUnsigned, bytes, bytes > 1});
  }
  size_t bytes = 0;
  for (size_t i = 0; i < formats.size(); ++i) {
    tree.add_dataset("d" + std::to_string(i), formats[i], std::vector<int64_t>{1});
    bytes += static_cast<size_t>(formats[i].bytes);
  }
  const std::vector<std::byte> file = written(tree, std::vector<std::byte>(bytes, std::byte{1}));
  const Hdf5Reader reader(std::make_shared<MemoryReader>(file, "x.h5"));
  for (size_t i = 0; i < formats.size(); ++i) {
    const std::string name = "d" + std::to_string(i);
    EXPECT_EQ(reader.open(name)->info().type.number, formats[i]);
    if (formats[i].kind != Kind::kBool) {
      std::vector<std::byte> one(8, std::byte{1});
      double value = 0;
      convert_numbers(formats[i], one.data(), DType::kFloat64, &value, 1);
      EXPECT_EQ(oracle::read_floats(file, name), std::vector<float>{static_cast<float>(value)});
    }
  }
}

TEST(Hdf5Writer, ManyObjectsAndTexts) {
  Hdf5Tree tree;
  for (int i = 0; i < 700; ++i) {
    const std::string group = "layers/layer_" + std::to_string(i);
    tree.add_group(group + "/vars");
    tree.set_attribute(group, "name", "name of " + std::to_string(i));
  }
  const std::vector<std::byte> file = written(tree, {});
  EXPECT_EQ(oracle::list_group(file, "layers").size(), 700u);
  EXPECT_EQ(oracle::read_text_attribute(file, "layers/layer_699", "name"), "name of 699");
  EXPECT_EQ(oracle::read_text_attribute(file, "layers/layer_0", "name"), "name of 0");
  const Hdf5Reader reader(std::make_shared<MemoryReader>(file, "x.h5"));
  EXPECT_EQ(reader.text_attribute("layers/layer_345", "name"), "name of 345");
}

TEST(Hdf5Writer, AnEmptyFileIsAFile) {
  const std::vector<std::byte> file = written(Hdf5Tree(), {});
  EXPECT_EQ(oracle::list_group(file, "/"), Texts{});
}

TEST(Hdf5Writer, TheSameContentGivesTheSameBytes) {
  EXPECT_EQ(written(model_tree(), model_elements()), written(model_tree(), model_elements()));
}

TEST(Hdf5Writer, WrongCallsAreOurBugs) {
  Hdf5Tree tree;
  tree.add_dataset("a", DType::kFloat32, std::vector<int64_t>{2});
  const auto expect_bug = [](const std::function<void()>& body) {
    expect_error(ErrorKind::kInternal, "internal error", body);
  };
  expect_bug([&] { tree.add_dataset("a", DType::kFloat32, std::vector<int64_t>{2}); });
  expect_bug([&] { tree.add_group("a"); });
  expect_bug([&] { tree.add_group("a/b"); });
  expect_bug([&] { tree.set_attribute("nowhere", "x", "y"); });
  expect_bug([&] { tree.set_attribute("", "x", Texts(1000, std::string(100, 'x'))); });
  MemorySink sink;
  Hdf5Writer writer(tree, sink);
  expect_bug([&] { writer.finish(); });
  writer.write(std::vector<std::byte>(8));
  writer.finish();
  expect_bug([&] { writer.write(std::vector<std::byte>(1)); });
}

// Bytes in memory that count how often they are read.
class CountingReader final : public ByteReader {
 public:
  explicit CountingReader(std::vector<std::byte> bytes) : bytes_(std::move(bytes), "a.h5") {}
  int64_t size() const override { return bytes_.size(); }
  void read_at(int64_t offset, std::span<std::byte> destination) const override {
    ++reads;
    bytes_.read_at(offset, destination);
  }
  const std::string& name() const override { return bytes_.name(); }
  mutable int reads = 0;

 private:
  MemoryReader bytes_;
};

// A model's weights are looked up one by one: the members of their groups are not read each time.
TEST(Hdf5WriterTest, LookingUpEachOfManyDatasetsTakesFewReads) {
  constexpr int kLayers = 300;
  Hdf5Tree tree;
  for (int i = 0; i < kLayers; ++i) {
    tree.add_dataset("layers/dense_" + std::to_string(i) + "/vars/0", DType::kFloat32,
                     std::vector<int64_t>{});
  }
  const auto file = std::make_shared<const CountingReader>(
      written(tree, std::vector<std::byte>(kLayers * sizeof(float))));
  const Hdf5Reader reader(file);
  for (int i = 0; i < kLayers; ++i) {
    const std::string path = "layers/dense_" + std::to_string(i) + "/vars/0";
    EXPECT_TRUE(reader.is_dataset(path));
    EXPECT_EQ(reader.open(path)->info().element_count, 1);
  }
  EXPECT_LT(file->reads, 15 * kLayers);
}

}  // namespace
}  // namespace plimsoll::codec
