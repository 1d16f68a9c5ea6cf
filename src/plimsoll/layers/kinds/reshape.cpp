// Reshape: the same elements of each sample under another shape, of which one size may be −1.

#include "base/format.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Reshape final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Reshape";

  explicit Reshape(ConfigReader& reader) : Layer(reader) {
    const Config given = reader.value("target_shape", Config());
    const std::string expected = "a list of sizes of which one may be -1";
    if (!given.is_array()) reader.refuse("target_shape", expected, given.to_json());
    int unknown = 0;
    for (const Config& dim : given.as_array()) {
      const int64_t size = dim.is_null() ? -1 : dim.is_int() ? dim.as_int() : 0;
      if (size < -1 || size == 0) reader.refuse("target_shape", expected, given.to_json());
      unknown += size == -1 ? 1 : 0;
      target_.push_back(size);
    }
    if (unknown > 1) reader.refuse("target_shape", expected, given.to_json());
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const Shape shape = context.type(inputs[0]).shape;
    return {context.emit("reshape", {inputs[0]}, {{"shape", resolve(shape)}})};
  }

 private:
  std::vector<int64_t> resolve(const Shape& shape) const {
    const int64_t elements = shape.elements_per_sample() / shape[0].count;
    int64_t known = 1;
    for (int64_t dim : target_) {
      if (dim != -1 && __builtin_mul_overflow(known, dim, &known)) known = 0;
    }
    std::vector<int64_t> dims = target_;
    for (int64_t& dim : dims) {
      if (dim != -1) continue;
      if (known == 0 || elements % known != 0) {
        refuse(fmt::format("a multiple of {} elements per sample", known), to_string(shape),
               "Check target_shape.");
      }
      dim = elements / known;
      known = elements;
    }
    if (known != elements) {
      refuse(fmt::format("a target_shape of {} elements per sample", elements),
             std::to_string(known), "Check target_shape.");
    }
    return dims;
  }

  std::vector<int64_t> target_;
};

}  // namespace

std::shared_ptr<const Layer> make_reshape(const Config& config) {
  return construct_layer<Reshape>(config);
}

}  // namespace plimsoll::layers
