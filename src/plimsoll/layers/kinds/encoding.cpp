// CategoryEncoding and Discretization: whole numbers, or bins of numbers, as rows of classes;
// HashedCrossing: a bin for several whole numbers together.

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/operation_reduce.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

constexpr int64_t kMostClasses = int64_t{1} << 31;

// `mode` is one_hot, multi_hot or count, of whole numbers below `classes`; others mark no class.
// `weights` may be invalid.
ValueId encoded(LayerContext& context, ValueId numbers, const std::string& mode, int64_t classes,
                ValueId weights) {
  const std::vector<int64_t> dims = dims_of(context, numbers);
  if (mode == "one_hot") {
    if (!dims.empty() && dims.back() == 1) {
      numbers = reshaped(context, numbers, {dims.begin(), dims.end() - 1});
    }
    return as_dtype(context, marked_classes(context, numbers, classes), DType::kFloat32);
  }
  if (dims.size() != 1) {
    context.refuse("a list of numbers for each sample, (batch, numbers)",
                   to_string(context.type(numbers).shape), "Flatten them first.");
  }
  const ValueId marked = marked_classes(context, numbers, classes);
  const std::vector<int64_t> axes = {1};
  if (mode == "multi_hot") {
    return as_dtype(context, reduce_axes(context, marked, axes, false, "any"), DType::kFloat32);
  }
  ValueId counts = as_dtype(context, marked, DType::kFloat32);
  if (weights.valid()) {
    const ValueId column = reshaped(context, as_real(context, weights), {dims[0], 1});
    counts = combined(context, "multiply", counts, column);
  }
  return reduce_axes(context, counts, axes, false, "sum");
}

class CategoryEncoding final : public Layer {
 public:
  static constexpr std::string_view kClassName = "CategoryEncoding";

  explicit CategoryEncoding(ConfigReader& reader) : Layer(reader) {
    classes_ = reader.integer("num_tokens", 1);
    if (classes_ > kMostClasses) {
      reader.refuse("num_tokens", fmt::format("at most {}", kMostClasses),
                    std::to_string(classes_));
    }
    mode_ = reader.choice("output_mode", "multi_hot", {"multi_hot", "one_hot", "count", "binary"});
    if (mode_ == "binary") mode_ = "multi_hot";  // before Keras 2.6
    reader.complete("output_mode", mode_);
    reader.refuse_unless_empty("sparse", "Encode into dense rows.");
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const CallArguments arguments(context, inputs.size(), {"inputs", "count_weights"});
    const std::vector<size_t> numbers = arguments.tensors("inputs");
    const std::vector<size_t> weights = arguments.tensors("count_weights");
    if (numbers.size() != 1 || weights.size() > 1) {
      refuse("one value, and perhaps its count_weights", std::to_string(inputs.size()), "");
    }
    ValueId x = inputs[numbers[0]];
    if (!is_integer(context.type(x).dtype)) x = as_dtype(context, x, DType::kInt32);
    return {encoded(context, x, mode_, classes_, weights.empty() ? ValueId() : inputs[weights[0]])};
  }

 private:
  int64_t classes_ = 1;
  std::string mode_;
};

class Discretization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Discretization";

  explicit Discretization(ConfigReader& reader) : Layer(reader) {
    const Config bounds = reader.value("bin_boundaries", Config());
    const bool listed = bounds.is_array() && !bounds.as_array().empty();
    if (!listed) {
      reader.refuse("bin_boundaries", "a list of numbers", bounds.to_json(),
                    "Adapt the layer to data in Keras and save it again.");
    }
    for (const Config& one : bounds.as_array()) {
      if (!one.is_number()) {
        reader.refuse("bin_boundaries", "a list of numbers", one.to_json());
      }
      bounds_.push_back(one.as_double());
    }
    reader.value("num_bins", Config());
    reader.number("epsilon", 0.01);
    mode_ = reader.choice("output_mode", "int", {"int", "one_hot", "multi_hot", "count"});
    if (reader.flag("sparse", false)) reader.refuse("sparse", "false", "true");
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const ValueId bins = counted_below(context, as_real(context, inputs[0]), bounds_, true);
    if (mode_ == "int") return {bins};
    return {encoded(context, bins, mode_, static_cast<int64_t>(bounds_.size()) + 1, ValueId())};
  }

 private:
  std::vector<double> bounds_;
  std::string mode_;
};

// The numbers' hash, as tf.sparse.cross_hashed has it, over the bins.
class HashedCrossing final : public Layer {
 public:
  static constexpr std::string_view kClassName = "HashedCrossing";

  explicit HashedCrossing(ConfigReader& reader) : Layer(kClassName, reader.text("name")) {
    reader.value("trainable", true);
    bins_ = reader.integer("num_bins", 1);
    if (bins_ > kMostClasses) {
      reader.refuse("num_bins", fmt::format("at most {}", kMostClasses), std::to_string(bins_));
    }
    mode_ = reader.choice("output_mode", "int", {"int", "one_hot"});
    reader.refuse_unless_empty("sparse", "Encode into dense rows.");
    // Where numbers of bins are the result, this is their type; no other layer has such a one.
    const Config policy = reader.value("dtype", mode_ == "int" ? "int64" : "float32");
    const Config* inner = policy.is_object() ? policy.find("config") : nullptr;
    const Config* name = policy.is_string() ? &policy : inner ? inner->find("name") : nullptr;
    const std::string given = name != nullptr && name->is_string() ? name->as_string() : "";
    const bool whole = given == "int32" || given == "int64";
    if (given != "float32" && !(whole && mode_ == "int")) {
      reader.refuse("dtype", mode_ == "int" ? "int32, int64 or float32" : "float32",
                    policy.to_json());
    }
    dtype_ = parse_dtype(given);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    constexpr double kFirst = 0xDECAFCAFFE;
    if (inputs.size() < 2) {
      refuse("two inputs or more", std::to_string(inputs.size()), "Call it on a list.");
    }
    const auto everywhere = [&](double number) {
      const ValueId one = context.constant({DType::kInt64, {1}, {number}});
      return over_batch(context, one, context.type(inputs[0]).shape);
    };
    const Shape first = context.type(inputs[0]).shape;
    ValueId hash = everywhere(kFirst);
    for (const ValueId x : inputs) {
      const ValueType& type = context.type(x);
      if (!is_integer(type.dtype)) {
        refuse("integers", std::string(to_string(type.dtype)), "Cast them to int64 first.");
      }
      if (type.shape != first || first.rank() > 2 || (first.rank() == 2 && first[1].count != 1)) {
        refuse("one number for each sample", to_string(type.shape), "Check the inputs' shapes.");
      }
      hash = context.emit("integer_pair", {hash, as_dtype(context, x, DType::kInt64)},
                          {{"kind", "hash"}});
    }
    const ValueId bin = context.emit("integer_pair", {hash, everywhere(static_cast<double>(bins_))},
                                     {{"kind", "unsigned_remainder"}});
    if (mode_ == "int") return {as_dtype(context, bin, dtype_)};
    return {encoded(context, bin, mode_, bins_, ValueId())};
  }

 private:
  int64_t bins_ = 1;
  std::string mode_;
  DType dtype_ = DType::kInt64;
};

}  // namespace

std::shared_ptr<const Layer> make_category_encoding(const Config& config) {
  return construct_layer<CategoryEncoding>(config);
}
std::shared_ptr<const Layer> make_discretization(const Config& config) {
  return construct_layer<Discretization>(config);
}
std::shared_ptr<const Layer> make_hashed_crossing(const Config& config) {
  return construct_layer<HashedCrossing>(config);
}

}  // namespace plimsoll::layers
