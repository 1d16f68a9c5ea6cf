#include "layers/loss.h"

#include <array>

#include "base/error.h"
#include "layers/config_reader.h"
#include "layers/programs.h"
#include "layers/spec.h"
#include "ops/losses.h"

namespace plimsoll::layers {
namespace {

constexpr std::array kLosses = {
    KnownName{"BinaryCrossentropy", "binary_crossentropy bce"},
    KnownName{"CategoricalCrossentropy", "categorical_crossentropy"},
    KnownName{"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"},
    KnownName{"MeanSquaredError", "mean_squared_error mse"},
    KnownName{"MeanAbsoluteError", "mean_absolute_error mae"},
};

std::string default_name(const std::string& class_name) {
  for (const KnownName& known : kLosses) {
    if (known.class_name == class_name) {
      return std::string(known.aliases.substr(0, known.aliases.find(' ')));
    }
  }
  return class_name;
}

bool is_crossentropy(const std::string& class_name) { return class_name.ends_with("Crossentropy"); }

}  // namespace

Loss::Loss(const Config& value) {
  const Spec spec = read_spec(value, "loss", kLosses);
  class_name_ = spec.class_name;
  ConfigReader reader(class_name_, spec.config);
  reader.text("name", default_name(class_name_));
  const std::string reduction = reader.text("reduction", "sum_over_batch_size");
  mean_ = reduction == "sum_over_batch_size" || reduction == "auto";
  if (!mean_ && reduction != "sum") {
    reader.refuse("reduction", "sum_over_batch_size or sum", reduction,
                  "Choose one of the two: others need a total of the weights.");
  }
  if (is_crossentropy(class_name_)) {
    from_logits_ = reader.flag("from_logits", false);
    if (!sparse()) label_smoothing_ = reader.number("label_smoothing", 0.0);
    const int64_t axis = reader.value("axis", Config(-1)).as_int();
    if (axis != -1) {
      reader.refuse("axis", "-1", std::to_string(axis), "Put the classes last (Permute).");
    }
    reader.refuse_unless_empty("ignore_class", "Give such rows a sample weight of 0 instead.");
  }
  reader.refuse_unless_empty("dtype", "Leave it out: losses are float32.");
  config_ = reader.finish();
}

TargetType Loss::target_type(const std::string& output, const graph::ValueType& prediction) const {
  if (!sparse()) return {prediction, 0};
  const Shape& shape = prediction.shape;
  if (shape.rank() < 2) {
    throw Error(ErrorKind::kModel, "[" + output + "] " + default_name(class_name_) +
                                       ": expected classes in the last dimension, received " +
                                       to_string(shape) + ". Use mean_squared_error.");
  }
  const std::span<const Dim> dims = shape.dims();
  TargetType target;
  target.type.dtype = DType::kInt32;
  target.type.shape = Shape(std::vector<Dim>(dims.begin(), dims.end() - 1));
  target.class_count = dims.back().count;
  return target;
}

graph::ValueId add_row_error(graph::GraphBuilder& builder, std::string_view op,
                             std::string_view name, graph::ValueId prediction,
                             graph::ValueId target) {
  return builder.call(op, name, {prediction, target});
}

graph::ValueId Loss::per_row(graph::GraphBuilder& builder, const Prediction& prediction,
                             graph::ValueId target) const {
  const std::string name = default_name(class_name_);
  if (!is_crossentropy(class_name_)) {
    return add_row_error(builder, name, name, prediction.value, target);
  }
  const bool binary = class_name_ == "BinaryCrossentropy";
  const bool behind = prediction.logits.valid() && prediction.sigmoid == binary;
  const graph::ValueId value = behind ? prediction.logits : prediction.value;
  const bool logits = behind || from_logits_;
  if (sparse()) {
    return logits ? ops::sparse_crossentropy_from_logits(builder, name, value, target)
                  : builder.call(name, name, {value, target});
  }
  if (label_smoothing_ != 0) {
    const double classes =
        binary ? 2.0 : static_cast<double>(builder.type(value).shape.dims().back().count);
    target =
        builder.call("scale_shift", name + "/smooth", {target},
                     {{"scale", 1.0 - label_smoothing_}, {"offset", label_smoothing_ / classes}});
  }
  return builder.call(logits ? name + "_logits" : name, name, {value, target});
}

graph::ValueId Loss::add(graph::GraphBuilder& builder, const Prediction& prediction,
                         graph::ValueId target, graph::ValueId weights) const {
  builder.set_stage(graph::Stage::kLoss);
  builder.set_layer("");
  const graph::ValueId rows = per_row(builder, prediction, target);
  std::vector<graph::ValueId> operands = {rows};
  if (weights.valid()) operands.push_back(weights);
  const graph::ValueId sum = builder.call("batch_sum", "loss/sum", operands);
  if (!mean_) return sum;
  const Shape& shape = builder.type(rows).shape;
  return builder.call("divide_by_count", "loss/mean", {sum},
                      {{"elements_per_sample", shape.elements_per_sample()}});
}

Config parse_loss(std::string_view text) {
  const Config value = parse_spec(text, "--loss", kLosses);
  with_context("while reading --loss", [&] { Loss{value}; });
  return value;
}

}  // namespace plimsoll::layers
