// EinsumDense: activation(einsum(equation, x, kernel) + bias), with a kernel and a bias whose axes
// the equation names.

#include <algorithm>
#include <map>

#include "base/format.h"
#include "layers/config/constraints.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/weighted.h"

namespace plimsoll::layers {
namespace {

constexpr size_t kMostText = 256;

class EinsumDense final : public Layer {
 public:
  static constexpr std::string_view kClassName = "EinsumDense";

  explicit EinsumDense(ConfigReader& reader) : Layer(reader) {
    read_output_shape(reader);
    equation_ = reader.text("equation");
    if (!split()) {
      reader.refuse("equation", "\"ab,bc->ac\", with an ellipsis at one side or none",
                    "\"" + equation_.substr(0, 80) + "\"");
    }
    activation_ = read_activation_key(reader);
    read_bias_axes(reader);
    kernel_options_.initializer = read_initializer(reader, "kernel_initializer", "glorot_uniform");
    bias_options_.initializer = read_initializer(reader, "bias_initializer", "zeros");
    kernel_options_.regularizer = read_regularizer(reader, "kernel_regularizer");
    bias_options_.regularizer = read_regularizer(reader, "bias_regularizer");
    kernel_options_.constraint = read_constraint(reader, "kernel_constraint");
    bias_options_.constraint = read_constraint(reader, "bias_constraint");
    reader.refuse_unless_empty("quantization_config", "Train the layer in float32.");
    reader.refuse_unless_empty("lora_rank", "Train the layer whole.");
    reader.refuse_unless_empty("lora_alpha", "Train the layer whole.");
    reader.refuse_unless_empty("gptq_unpacked_column_size", "Train the layer in float32.");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || !inputs[0].shape.has_batch()) return {};
    std::vector<int64_t> kernel;
    std::map<char, int64_t> extents;
    std::string problem;
    if (!find_extents(inputs[0].shape, extents, problem)) return {};
    for (char axis : kernel_) kernel.push_back(extents.at(axis));
    std::vector<Weight> weights = {make_weight("kernel", kernel, kernel_options_)};
    weights[0].initializer = with_fans_of_axes();
    if (bias_axes_.empty()) return weights;
    std::vector<int64_t> bias;
    for (char axis : output_.substr(output_.find_first_of(bias_axes_))) {
      bias.push_back(bias_axes_.find(axis) == std::string::npos ? 1 : extents.at(axis));
    }
    if (dots_last_) bias.resize(bias.size() + elided(inputs[0].shape), 1);
    weights.push_back(make_weight("bias", bias, bias_options_));
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    std::map<char, int64_t> extents;
    std::string problem;
    if (!find_extents(shape, extents, problem)) {
      context.refuse(problem, fmt::format("{} for \"{}\"", to_string(shape), equation_),
                     "Check equation, output_shape and bias_axes.");
    }
    const std::string dots = dots_first_ || dots_last_ ? "..." : "";
    const auto with_dots = [&](const std::string& axes) {
      return dots_first_ ? dots + axes : axes + dots;
    };
    const ValueId operands[] = {inputs[0], context.weight("kernel")};
    ValueId y =
        einsum(context, with_dots(input_) + "," + kernel_ + "->" + with_dots(output_), operands);
    if (!bias_axes_.empty()) y = with_bias(context, y);
    return {activation_.apply(context, y)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || activation_.penalizes_activity();
  }

 private:
  void read_output_shape(ConfigReader& reader) {
    const Config given = reader.value("output_shape", Config());
    const Config::Array list = given.is_array() ? given.as_array() : Config::Array{given};
    for (const Config& one : list) {
      if (given.is_null() || !(one.is_null() || (one.is_int() && one.as_int() > 0))) {
        reader.refuse("output_shape", "positive integers and nulls", given.to_json());
      }
      output_shape_.push_back(one.is_int() ? one.as_int() : 0);
    }
  }

  void read_bias_axes(ConfigReader& reader) {
    const Config bias = reader.value("bias_axes", Config());
    if (bias.is_null()) return;
    if (!bias.is_string() || bias.as_string().empty() || bias.as_string().size() > kMostText ||
        bias.as_string().find_first_not_of(output_) != std::string::npos) {
      reader.refuse("bias_axes", "letters of the result \"" + output_ + "\"", bias.to_json());
    }
    bias_axes_ = bias.as_string();
  }

  // Axes of the kernel that the result has are outputs, the others inputs.
  Config with_fans_of_axes() const {
    std::vector<int64_t> inputs;
    std::vector<int64_t> outputs;
    for (size_t i = 0; i < kernel_.size(); ++i) {
      const bool output = output_.find(kernel_[i]) != std::string::npos;
      (output ? outputs : inputs).push_back(static_cast<int64_t>(i));
    }
    return with_fans(kernel_options_.initializer, inputs, outputs);
  }

  // Parts of the equation; false where it is none that Keras takes.
  bool split() {
    std::string text;
    for (char c : equation_) {
      if (c != ' ') text += c;
    }
    const size_t comma = text.find(',');
    const size_t arrow = text.find("->");
    if (text.size() > kMostText || comma == std::string::npos || arrow == std::string::npos ||
        arrow < comma) {
      return false;
    }
    input_ = text.substr(0, comma);
    kernel_ = text.substr(comma + 1, arrow - comma - 1);
    output_ = text.substr(arrow + 2);
    dots_first_ = input_.starts_with("...");
    dots_last_ = !dots_first_ && input_.ends_with("...");
    const bool same_dots =
        output_.starts_with("...") == dots_first_ && output_.ends_with("...") == dots_last_;
    if (!same_dots) return false;
    for (std::string* part : {&input_, &output_}) {
      if (dots_first_) *part = part->substr(3);
      if (dots_last_) *part = part->substr(0, part->size() - 3);
    }
    for (const std::string* part : {&input_, &kernel_, &output_}) {
      std::string sorted = *part;
      std::ranges::sort(sorted);
      const bool letters = std::ranges::all_of(
          sorted, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
      if (!letters || part->empty() || std::ranges::adjacent_find(sorted) != sorted.end()) {
        return false;
      }
    }
    return std::ranges::all_of(kernel_, [&](char axis) {
      return input_.find(axis) != std::string::npos || output_.find(axis) != std::string::npos;
    });
  }

  size_t elided(const Shape& shape) const {
    return static_cast<size_t>(shape.rank()) - input_.size();
  }

  // The extent of each letter, from the input's shape and the result's; false: `problem` says what
  // was expected.
  bool find_extents(const Shape& shape, std::map<char, int64_t>& extents,
                    std::string& problem) const {
    const auto rank = static_cast<size_t>(shape.rank());
    const bool dots = dots_first_ || dots_last_;
    if (rank < input_.size() || (!dots && rank != input_.size())) {
      problem = fmt::format("a value of rank {}", input_.size());
      return false;
    }
    // The batch is the first letter, or the first axis of a leading ellipsis.
    const size_t first = dots_first_ ? elided(shape) : 0;
    for (size_t i = 0; i < input_.size(); ++i) {
      const auto dim = static_cast<int>(first + i);
      extents[input_[i]] = dim == 0 ? 0 : shape[dim].count;
    }
    // output_shape lacks the batch and what an ellipsis stands for.
    const bool batch_named = !(dots_first_ && elided(shape) > 0);
    const size_t expected = output_.size() - (batch_named ? 1 : 0);
    if (output_shape_.size() != expected) {
      problem = fmt::format("an output_shape of {} numbers", expected);
      return false;
    }
    for (size_t i = 0; i < output_shape_.size(); ++i) {
      const char axis = output_[i + (batch_named ? 1 : 0)];
      const auto known = extents.find(axis);
      if (output_shape_[i] == 0 && known == extents.end()) {
        problem = fmt::format("a number for the axis \"{}\" in output_shape", axis);
        return false;
      }
      if (output_shape_[i] == 0) continue;
      if (known != extents.end() && known->second != output_shape_[i]) {
        problem = fmt::format("{} along \"{}\", as output_shape says", output_shape_[i], axis);
        return false;
      }
      extents[axis] = output_shape_[i];
    }
    const auto measured = [&](char axis) { return extents.contains(axis) && extents.at(axis) > 0; };
    for (char axis : bias_axes_) {
      if (measured(axis)) continue;
      problem = fmt::format("bias_axes without the batch's axis \"{}\"", axis);
      return false;
    }
    return std::ranges::all_of(kernel_, [&](char axis) {
      problem = fmt::format("a kernel without the batch's axis \"{}\"", axis);
      return measured(axis);
    });
  }

  ValueId with_bias(LayerContext& context, ValueId y) const {
    const ValueId bias = context.weight("bias");
    const Shape shape = context.type(y).shape;
    const Shape bias_shape = context.type(bias).shape;
    if (bias_shape.rank() == 1 && bias_shape[0] == shape[shape.rank() - 1]) {
      return context.emit("bias_add", {y, bias});
    }
    return combined(context, "add", y, bias);
  }

  std::vector<int64_t> output_shape_;  // 0: as in the input
  std::string equation_;
  std::string input_;
  std::string kernel_;
  std::string output_;
  bool dots_first_ = false;
  bool dots_last_ = false;
  std::string bias_axes_;
  Activation activation_ = Activation::parse(Config());
  WeightOptions kernel_options_;
  WeightOptions bias_options_;
};

}  // namespace

std::shared_ptr<const Layer> make_einsum_dense(const Config& config) {
  return construct_layer<EinsumDense>(config);
}

}  // namespace plimsoll::layers
