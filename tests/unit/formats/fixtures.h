#pragma once

// Models and states for the tests of files.

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_io.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

using layers::Config;
using layers::LayerId;
using layers::Model;
using layers::ModelKind;
using layers::Tensor;

inline Config object(Config::Object items) { return Config(std::move(items)); }

inline Config input_of(std::vector<int64_t> per_sample) {
  Config::Array shape = {Config()};
  for (const int64_t dim : per_sample) shape.emplace_back(dim);
  return object({{"batch_shape", Config(std::move(shape))}});
}

// 6×6×2 → Conv2D 3 → BatchNormalization → Flatten → Dense 2.
inline Model small_sequential() {
  Model model("small", ModelKind::kSequential);
  model.append("InputLayer", input_of({6, 6, 2}));
  model.append("Conv2D", object({{"filters", 3}, {"kernel_size", 3}, {"activation", "relu"}}));
  model.append("BatchNormalization", object({}));
  model.append("Flatten", object({}));
  model.append("Dense", object({{"units", 2}, {"name", "head"}}));
  return model;
}

// Two inputs through one shared Dense, added, and two outputs.
inline Model small_functional() {
  Model model("branches");
  const Tensor a =
      model.add_input(object({{"batch_shape", input_of({4}).at("batch_shape")}, {"name", "a"}}));
  const Tensor b =
      model.add_input(object({{"batch_shape", input_of({4}).at("batch_shape")}, {"name", "b"}}));
  const LayerId shared = model.add_layer("Dense", object({{"units", 4}, {"name", "shared"}}));
  const Tensor x = model.call(shared, {a})[0];
  const Tensor y = model.call(shared, {b})[0];
  const LayerId add = model.add_layer("Add", object({}));
  const Tensor sum = model.call(add, {x, y})[0];
  const LayerId p = model.add_layer("Dense", object({{"units", 3}, {"name", "p"}}));
  const LayerId q = model.add_layer("Dense", object({{"units", 1}, {"name", "q"}}));
  model.set_outputs({model.call(p, {sum})[0], model.call(q, {x})[0]});
  return model;
}

// Named tensors in memory.
class MemoryState final : public TensorSource {
 public:
  void add(TensorInfo info, std::vector<std::byte> bytes) {
    infos_.push_back(std::move(info));
    bytes_.push_back(std::move(bytes));
  }
  void add_floats(const std::string& name, std::vector<int64_t> shape,
                  const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    add({name, DType::kFloat32, std::move(shape)}, {bytes.begin(), bytes.end()});
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    std::copy_n(bytes_[index].begin() + byte_begin, destination.size(), destination.begin());
  }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<std::vector<std::byte>> bytes_;
};

// Every weight of a model with numbers that tell them apart: 1000 per weight, 1 per element.
inline MemoryState numbered_state(const Model& model) {
  MemoryState state;
  float next = 1;
  for (const layers::ModelWeight& weight : model.all_weights()) {
    std::vector<float> values(
        static_cast<size_t>(fixed_shape(weight.weight.shape).elements_per_sample()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = next * 1000 + static_cast<float>(i);
    state.add_floats(weight.name, weight.weight.shape, values);
    next += 1;
  }
  return state;
}

inline std::map<std::string, std::vector<std::byte>> read_all(TensorSource& source) {
  std::map<std::string, std::vector<std::byte>> all;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    int64_t bytes = element_bytes(info.dtype).count();
    for (const int64_t extent : info.shape) bytes *= extent;
    std::vector<std::byte>& content = all[info.name];
    content.resize(static_cast<size_t>(bytes));
    source.read(i, 0, content);
  }
  return all;
}

}  // namespace plimsoll::formats
