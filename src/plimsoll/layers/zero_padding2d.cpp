// ZeroPadding2D: rows and columns of zeros around an image.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class ZeroPadding2D final : public Layer {
 public:
  static constexpr std::string_view kClassName = "ZeroPadding2D";

  explicit ZeroPadding2D(ConfigReader& reader) : Layer(reader) {
    read_padding(reader);
    reader.data_format();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 4);
    return {context.emit("zero_pad2d", {inputs[0]}, {{"padding", padding_}})};
  }

 private:
  // n; (rows, columns); or ((top, bottom), (left, right)).
  void read_padding(ConfigReader& reader) {
    const Config given = reader.value("padding", 1);
    const Config::Array sides = given.is_array() ? given.as_array() : Config::Array{given, given};
    for (const Config& side : sides) {
      const Config::Array ends = side.is_array() ? side.as_array() : Config::Array{side, side};
      if (ends.size() != 2) refuse_padding(reader, given);
      for (const Config& end : ends) {
        if (!end.is_int() || end.as_int() < 0) refuse_padding(reader, given);
        padding_.push_back(end.as_int());
      }
    }
    if (padding_.size() != 4) refuse_padding(reader, given);
    reader.complete("padding", Config::Array{Config::Array{padding_[0], padding_[1]},
                                             Config::Array{padding_[2], padding_[3]}});
  }

  [[noreturn]] static void refuse_padding(const ConfigReader& reader, const Config& given) {
    reader.refuse("padding", "n, [rows, columns] or [[top, bottom], [left, right]]",
                  given.to_json());
  }

  std::vector<int64_t> padding_;
};

}  // namespace

std::shared_ptr<const Layer> make_zero_padding2d(const Config& config) {
  return construct_layer<ZeroPadding2D>(config);
}

}  // namespace plimsoll::layers
