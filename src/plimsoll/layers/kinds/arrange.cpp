// RepeatVector and Permute: the same elements again, or in another order.

#include <algorithm>

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class RepeatVector final : public Layer {
 public:
  static constexpr std::string_view kClassName = "RepeatVector";

  explicit RepeatVector(ConfigReader& reader) : Layer(reader), count_(reader.integer("n", 1)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const int64_t columns = one_input(context, inputs, 2)[1].count;
    const ValueId row =
        context.emit("reshape", {inputs[0]}, {{"shape", std::vector<int64_t>{1, columns}}});
    return {context.emit("broadcast", {row}, {{"shape", std::vector<int64_t>{count_, columns}}})};
  }

 private:
  int64_t count_;
};

class Permute final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Permute";

  explicit Permute(ConfigReader& reader) : Layer(reader) {
    const Config dims = reader.value("dims", Config());
    std::vector<int64_t> sorted;
    if (dims.is_array()) {
      for (const Config& dim : dims.as_array()) {
        if (dim.is_int()) dims_.push_back(dim.as_int());
      }
    }
    sorted = dims_;
    std::ranges::sort(sorted);
    bool each = !sorted.empty() && dims.as_array().size() == sorted.size();
    for (size_t i = 0; i < sorted.size(); ++i) each &= sorted[i] == static_cast<int64_t>(i) + 1;
    if (!each) {
      reader.refuse("dims", "each axis after the batch once, from 1", dims.to_json());
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, static_cast<int>(dims_.size()) + 1);
    return {context.emit("transpose", {inputs[0]}, {{"permutation", dims_}})};
  }

 private:
  std::vector<int64_t> dims_;
};

}  // namespace

std::shared_ptr<const Layer> make_repeat_vector(const Config& config) {
  return construct_layer<RepeatVector>(config);
}
std::shared_ptr<const Layer> make_permute(const Config& config) {
  return construct_layer<Permute>(config);
}

}  // namespace plimsoll::layers
