// The nodes that count, and the state that they add to.

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "layers/model/masking.h"
#include "layers/training/metrics.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

using graph::GraphBuilder;

// State `name` grows by `value`.
void add_to(GraphBuilder& builder, const std::string& name, ValueId value) {
  const ValueId before = builder.read(builder.state(
      {.name = name, .type = builder.type(value), .role = graph::StateRole::kMetric}));
  const ValueId after = builder.call("add", name + "/next", {before, value});
  builder.write(find_state(builder.graph(), name), after);
}

std::vector<ValueId> with_weights(ValueId rows, ValueId weights) {
  return weights.valid() ? std::vector<ValueId>{rows, weights} : std::vector<ValueId>{rows};
}

// Values of fewer dimensions, or of dimensions of 1, in the shape of the metric's rows.
ValueId repeated(GraphBuilder& builder, const std::string& name, ValueId values,
                 const Shape& shape) {
  std::vector<int64_t> dims = ops::sample_dims(builder.type(values).shape);
  const std::vector<int64_t> wanted = ops::sample_dims(shape);
  if (dims == wanted) return values;
  if (dims.size() < wanted.size()) {
    dims.resize(wanted.size(), 1);
    values = builder.call("reshape", name + "_rows", {values}, {{"shape", dims}});
  }
  return builder.call("broadcast", name, {values}, {{"shape", wanted}});
}

// 1 for rows that count, 0 for others, of the rows' shape; a mask of fewer dimensions repeats.
ValueId counted_rows(GraphBuilder& builder, const std::string& prefix, const ValueType& rows,
                     ValueId mask) {
  mask = without_last_one(builder, prefix + "/mask_column", mask, rows.shape);
  const Shape shape = builder.type(mask).shape;
  const std::vector<int64_t> dims = ops::sample_dims(shape);
  const std::vector<int64_t> wanted = ops::sample_dims(rows.shape);
  if (dims.size() > wanted.size() || !std::equal(dims.begin(), dims.end(), wanted.begin())) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: expected a mask of the shape {}, received {}. End the mask before "
                            "the output, by a Reshape.",
                            prefix, to_string(rows.shape), to_string(shape)));
  }
  const ValueId counted = builder.call("cast", prefix + "/mask", {mask},
                                       {{"dtype", std::string(to_string(rows.dtype))}});
  return repeated(builder, prefix + "/row_weights", counted, rows.shape);
}

// What the rows count by: (B) where there is one weight a sample and no mask, else of the rows'
// shape; invalid: all alike (losses.loss.apply_mask, metrics.reduce_to_samplewise_values).
ValueId row_weights(GraphBuilder& builder, const std::string& prefix, ValueId rows,
                    const LossWeights& given) {
  const ValueType type = builder.type(rows);
  if (!given.mask.valid()) {
    const bool plain = !given.samples.valid() || builder.type(given.samples).shape.rank() == 1;
    return plain ? given.samples
                 : repeated(builder, prefix + "/weights", given.samples, type.shape);
  }
  const ValueId counted = counted_rows(builder, prefix, type, given.mask);
  if (!given.samples.valid()) return counted;
  const ValueId samples = repeated(builder, prefix + "/weights", given.samples, type.shape);
  return builder.call("multiply", prefix + "/weighted_rows", {samples, counted});
}

// What the predictions and targets of one output are before they are counted.
MetricSource prepared(GraphBuilder& builder, const Metric& metric, const std::string& prefix,
                      MetricSource source) {
  const auto changed = [&](std::string_view what, ValueId value, std::string_view op,
                           graph::Attributes attributes) {
    return builder.call(op, prefix + std::string(what), {value}, std::move(attributes));
  };
  if (metric.from_logits) {
    source.prediction = changed("/probability", source.prediction, "activation",
                                {{"kind", std::string("sigmoid")}});
  }
  if (metric.top_k) {
    source.prediction = changed("/kept", source.prediction, "keep_top_k", {{"k", *metric.top_k}});
  }
  if (metric.column) {
    const graph::Attributes one{
        {"axis", int64_t{-1}}, {"begin", *metric.column}, {"count", int64_t{1}}};
    source.prediction = changed("/column", source.prediction, "slice", one);
    source.target = changed("/target_column", source.target, "slice", one);
  }
  return source;
}

// Keras leaves rows of an ignored class out where rows are weighted; they count as 0 elsewhere.
ValueId counted_labels(GraphBuilder& builder, const Loss& loss, const std::string& prefix,
                       ValueId target, const LossWeights& weights) {
  if (!weights.samples.valid() && !weights.mask.valid()) return {};
  const ValueId counted =
      builder.call("compare", prefix + "/not_ignored", {target},
                   {{"kind", "not_equal"}, {"value", static_cast<double>(*loss.ignored)}});
  if (!weights.mask.valid()) return counted;
  return builder.call("logical", prefix + "/counted_mask", {weights.mask, counted},
                      {{"kind", "and"}});
}

// A value for each row, or each sample.
ValueId rows_of(Expansion& expansion, const Metric& metric, const std::string& prefix,
                const MetricSource& source) {
  if (metric.loss) {
    return add_loss_rows(expansion, *metric.loss, prefix, source.prediction, source.target);
  }
  std::vector<ValueId> operands = {source.prediction, source.target};
  if (metric.target_first) std::ranges::reverse(operands);
  return expansion.builder().call(metric.op, prefix + "/rows", operands, metric.attributes);
}

// Makes the nodes of one part when it is called.
using Part = std::function<ValueId()>;

// Total and count of a mean over rows.
std::vector<Part> mean_parts(Expansion& expansion, const Metric& metric, const std::string& prefix,
                             const MetricSource& source) {
  GraphBuilder& builder = expansion.builder();
  const ValueId rows = rows_of(expansion, metric, prefix, source);
  const auto per_sample = static_cast<double>(builder.type(rows).shape.elements_per_sample());
  const auto mean = [&builder, prefix](const std::string& what, ValueId sum, double scale) {
    if (scale == 1) return sum;
    return builder.call("scale_shift", prefix + what, {sum}, {{"scale", scale}, {"offset", 0.0}});
  };
  LossWeights looked_at{source.weights.samples, metric.masks ? source.weights.mask : ValueId()};
  if (metric.loss && metric.loss->ignored) {
    looked_at.mask = counted_labels(builder, *metric.loss, prefix, source.target, looked_at);
  }
  const ValueId weights = row_weights(builder, prefix, rows, looked_at);
  const double factor = metric.factor;
  const auto total = [=, &builder] {
    const ValueId sum = builder.call("batch_sum", prefix + "/sum", with_weights(rows, weights));
    return mean("/mean", sum, factor / per_sample);
  };
  const auto count = [=, &builder] {
    if (!weights.valid()) {
      return builder.call("batch_count", prefix + "/batch", {}, {{"elements_per_sample", 1}});
    }
    const ValueId weight = builder.call("batch_sum", prefix + "/weight_sum", {weights});
    const bool one = builder.type(weights).shape.rank() == 1;
    return mean("/mean_weight", weight, one ? 1 : 1 / per_sample);
  };
  return {total, count};
}

// What one output adds to the states, in the order of metric_parts().
std::vector<Part> parts_of(Expansion& expansion, const Metric& metric, const std::string& prefix,
                           const MetricSource& given) {
  GraphBuilder& builder = expansion.builder();
  const MetricSource source = prepared(builder, metric, prefix, given);
  if (metric.kind == MetricKind::kRows || metric.kind == MetricKind::kLoss) {
    return mean_parts(expansion, metric, prefix, source);
  }
  std::vector<ValueId> operands = {source.target, source.prediction};
  if (source.weights.samples.valid()) {
    const Shape rows = ops::without_last(builder.type(source.prediction).shape);
    operands.push_back(repeated(builder, prefix + "/row_weights", source.weights.samples, rows));
  }
  std::vector<Part> parts = {[=, &builder, op = metric.op, attributes = metric.attributes] {
    return builder.call(op, prefix + "/counts", operands, attributes);
  }};
  if (metric.counts_values) {
    const int64_t values = builder.type(source.target).shape.elements_per_sample();
    parts.emplace_back([=, &builder] {
      return builder.call("batch_count", prefix + "/values", {}, {{"elements_per_sample", values}});
    });
  }
  return parts;
}

ValueId sum_of(GraphBuilder& builder, const std::string& metric, const std::string& name,
               ValueId sum, ValueId more) {
  const Shape& before = builder.type(sum).shape;
  const Shape& after = builder.type(more).shape;
  if (before == after) return builder.call("add", name, {sum, more});
  throw Error(ErrorKind::kModel,
              fmt::format("metric {}: expected outputs of one size where they share a metric, "
                          "received counts of {} and {}. Give each output a metric of its own.",
                          metric, to_string(before), to_string(after)));
}

}  // namespace

void check_weighted(const Metric& metric, const ValueType& output) {
  const bool is_mean = metric.kind == MetricKind::kRows || metric.kind == MetricKind::kLoss;
  const bool of_rows = metric.kind == MetricKind::kPairs &&
                       (metric.attributes.get_string("prediction", "largest") == "largest" ||
                        output.shape[output.shape.rank() - 1].count == 1);
  if (is_mean || of_rows || (output.shape.rank() == 2 && metric.kind != MetricKind::kPairs)) return;
  throw Error(ErrorKind::kModel,
              fmt::format("metric {}: expected an output of rank 2 together with sample weights, "
                          "received {}. Give it among the metrics that are not weighted.",
                          metric.name, to_string(output.shape)));
}

std::string metric_state(std::string_view metric, std::string_view part) {
  return "metrics/" + std::string(metric) + "/" + std::string(part);
}

std::vector<std::string> metric_parts(const Metric& metric) {
  const bool is_mean = metric.kind == MetricKind::kRows || metric.kind == MetricKind::kLoss;
  if (is_mean) return {"total", "count"};
  if (metric.counts_values) return {"total", "values"};
  return {"total"};
}

void add_metric(Expansion& expansion, const Metric& metric, const std::string& name,
                std::span<const MetricSource> sources) {
  GraphBuilder& builder = expansion.builder();
  builder.set_stage(graph::Stage::kMetric);
  const auto prefix_of = [&](size_t source) {
    return "metrics/" + name + (source == 0 ? "" : fmt::format("/output{}", source));
  };
  std::vector<std::vector<Part>> parts;
  for (size_t i = 0; i < sources.size(); ++i) {
    parts.push_back(parts_of(expansion, metric, prefix_of(i), sources[i]));
  }
  const std::vector<std::string> names = metric_parts(metric);
  for (size_t part = 0; part < names.size(); ++part) {
    ValueId sum = parts.at(0)[part]();
    for (size_t i = 1; i < sources.size(); ++i) {
      sum = sum_of(builder, metric.name, prefix_of(i) + "/" + names[part] + "_so_far", sum,
                   parts[i][part]());
    }
    add_to(builder, metric_state(name, names[part]), sum);
  }
}

void add_loss_tracker(GraphBuilder& builder, const std::string& name, ValueId loss, LossMean mean) {
  builder.set_stage(graph::Stage::kMetric);
  const std::string prefix = "metrics/" + name;
  const ValueId batch =
      builder.call("batch_count", prefix + "/batch", {}, {{"elements_per_sample", 1}});
  if (mean == LossMean::kOfBatches) {
    add_to(builder, metric_state(name, "total"), loss);
    add_to(builder, metric_state(name, "count"),
           builder.call("divide", prefix + "/one", {batch, batch}));
    return;
  }
  add_to(builder, metric_state(name, "total"),
         builder.call("multiply", prefix + "/weighted", {loss, batch}));
  add_to(builder, metric_state(name, "count"), batch);
}

}  // namespace plimsoll::layers
