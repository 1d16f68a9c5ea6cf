// InputLayer: where a model's features come in. It computes nothing.

#include <utility>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/sequence/input_lookup.h"

namespace plimsoll::layers {
namespace {

class InputLayer final : public Layer {
 public:
  static constexpr std::string_view kClassName = "InputLayer";

  explicit InputLayer(ConfigReader& reader) : Layer(kClassName, reader.text("name")) {
    Config shape = reader.legacy("batch_input_shape");
    if (shape.is_null() && !reader.legacy("shape").is_null()) {
      Config::Array dims = {Config()};
      const Config per_sample = reader.legacy("shape");
      for (const Config& dim : per_sample.as_array()) dims.push_back(dim);
      shape = dims;
    }
    type_.shape = read_shape(reader, reader.value("batch_shape", shape));
    const Config looked_up = reader.legacy("lookup");
    if (looked_up.is_null()) {
      type_.dtype = read_dtype(reader);
    } else {
      look_up(reader, looked_up);
    }
    reader.refuse_unless_empty("sparse", "Give dense data.");
    reader.refuse_unless_empty("ragged", "Pad the samples to one size.");
    reader.refuse_unless_empty("optional", "Give the input always.");
    reader.legacy("input_tensor");
    reader.legacy("trainable");
  }

  std::optional<ValueType> input_type() const override { return type_; }
  std::shared_ptr<const InputLookup> input_lookup() const override { return lookup_; }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId>) const override {
    context.refuse("to be fed", "a call", "An InputLayer stands at the start of a model.");
  }

 private:
  static Shape read_shape(const ConfigReader& reader, const Config& given) {
    const std::string expected = "[null, sizes…], such as [null, 28, 28, 1]";
    if (!given.is_array() || given.as_array().empty()) {
      reader.refuse("batch_shape", expected, given.to_json(),
                    "Give the model an input shape before it is saved.");
    }
    std::vector<Dim> dims = {Dim::batch()};
    for (size_t i = 1; i < given.as_array().size(); ++i) {
      const Config& dim = given.as_array()[i];
      if (!dim.is_int() || dim.as_int() < 1) {
        reader.refuse("batch_shape", expected, given.to_json(),
                      "Every size but the batch must be known: save the model with a fixed input "
                      "shape.");
      }
      dims.push_back(Dim::constant(dim.as_int()));
    }
    return Shape(std::move(dims));
  }

  // Floating-point inputs are float32 inside; integers and bool stay what they are.
  static DType read_dtype(ConfigReader& reader) {
    const Config given = reader.value("dtype", "float32");
    if (given.is_null()) {
      reader.complete("dtype", "float32");
      return DType::kFloat32;
    }
    std::string name = given.is_string() ? given.as_string() : "";
    if (given.is_object() && given.find("config") != nullptr) {
      const Config* inner = given.at("config").find("name");
      if (inner != nullptr && inner->is_string()) name = inner->as_string();
    }
    for (const char* floating : {"float32", "float64", "float16", "bfloat16", "float"}) {
      if (name == floating) return DType::kFloat32;
    }
    if (name == "bool") return DType::kBool;
    if (name == "uint8") return DType::kUInt8;
    if (name == "int8") return DType::kInt8;
    if (name == "int32") return DType::kInt32;
    if (name == "int64") return DType::kInt64;
    reader.refuse("dtype", "a floating-point or integer type, or bool", given.to_json(),
                  "Convert the data first.");
  }

  // The layer after the input says what the input gives: {"class_name": …, "config": …}.
  void look_up(ConfigReader& reader, const Config& layer) {
    std::vector<int64_t> shape;
    for (const Dim& dim : type_.shape.dims()) {
      if (!dim.of_batch) shape.push_back(dim.count);
    }
    const Config dtype = reader.value("dtype", "float32");
    const bool text = dtype.is_string() && dtype.as_string() == "string";
    const bool fractions = !text && read_dtype(reader) == DType::kFloat32;
    lookup_ = make_input_lookup(layer, std::move(shape), text, fractions);
    std::vector<Dim> dims = {Dim::batch()};
    for (const int64_t size : lookup_->output_shape) dims.push_back(Dim::constant(size));
    type_.shape = Shape(std::move(dims));
    type_.dtype =
        lookup_->encoding == InputLookup::Encoding::kIds ? DType::kInt64 : DType::kFloat32;
  }

  ValueType type_;
  std::shared_ptr<const InputLookup> lookup_;
};

}  // namespace

std::shared_ptr<const Layer> make_input_layer(const Config& config) {
  return construct_layer<InputLayer>(config);
}

}  // namespace plimsoll::layers
