#include "layers/training/losses.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/option_reader.h"
#include "layers/config/spelling.h"
#include "layers/model/masking.h"
#include "ops/rules.h"
#include "ops/training/losses.h"

namespace plimsoll::layers {
namespace {

struct Row {
  LossKind kind;
  std::string_view name;
  std::string_view class_name;
  std::string_view short_name;  // Keras takes it in capitals too
};

// What the names of older versions of Keras are called today.
struct OldName {
  std::string_view old_name;
  std::string_view name;
};
constexpr std::array kOldNames = {
    OldName{"logcosh", "log_cosh"},
    OldName{"kullback_leibler_divergence", "kl_divergence"},
    OldName{"KLD", "kl_divergence"},
    OldName{"cosine", "cosine_similarity"},
    OldName{"cosine_proximity", "cosine_similarity"},
    OldName{"CosineProximity", "cosine_similarity"},
    OldName{"huber_loss", "huber"},
};

constexpr std::array kRows = {
    Row{LossKind::kBinaryCrossentropy, "binary_crossentropy", "BinaryCrossentropy", "bce"},
    Row{LossKind::kCategoricalCrossentropy, "categorical_crossentropy", "CategoricalCrossentropy",
        ""},
    Row{LossKind::kSparseCategoricalCrossentropy, "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy", ""},
    Row{LossKind::kMeanSquaredError, "mean_squared_error", "MeanSquaredError", "mse"},
    Row{LossKind::kMeanAbsoluteError, "mean_absolute_error", "MeanAbsoluteError", "mae"},
    Row{LossKind::kBinaryFocalCrossentropy, "binary_focal_crossentropy", "BinaryFocalCrossentropy",
        ""},
    Row{LossKind::kCategoricalFocalCrossentropy, "categorical_focal_crossentropy",
        "CategoricalFocalCrossentropy", ""},
    Row{LossKind::kDense, "mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape"},
    Row{LossKind::kDense, "mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle"},
    Row{LossKind::kDense, "huber", "Huber", ""},
    Row{LossKind::kDense, "log_cosh", "LogCosh", ""},
    Row{LossKind::kDense, "hinge", "Hinge", ""},
    Row{LossKind::kDense, "squared_hinge", "SquaredHinge", ""},
    Row{LossKind::kDense, "categorical_hinge", "CategoricalHinge", ""},
    Row{LossKind::kDense, "kl_divergence", "KLDivergence", "kld"},
    Row{LossKind::kDense, "poisson", "Poisson", ""},
    Row{LossKind::kDense, "cosine_similarity", "CosineSimilarity", ""},
    Row{LossKind::kGeneralizedCrossentropy, "categorical_generalized_cross_entropy",
        "CategoricalGeneralizedCrossEntropy", ""},
    Row{LossKind::kCircle, "circle", "Circle", ""},
    Row{LossKind::kCtc, "ctc", "CTC", ""},
    Row{LossKind::kOverlap, "dice", "Dice", ""},
    Row{LossKind::kOverlap, "tversky", "Tversky", ""},
};

bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || b.empty()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] | 0x20) != b[i]) return false;
  }
  return true;
}

const Row* find_row(const std::string& given) {
  std::string name = given;
  for (const OldName& old : kOldNames) {
    if (old.old_name == given) name = old.name;
  }
  for (const Row& row : kRows) {
    if (name == row.name || name == row.class_name || same_letters(name, row.short_name)) {
      return &row;
    }
  }
  return nullptr;
}

const Row& row_of(const std::string& name, const ValueType& output) {
  if (name == "crossentropy" || name == "ce") {
    if (output.shape[output.shape.rank() - 1].count == 1) return kRows[0];
    throw Error(ErrorKind::kModel,
                "loss: expected a loss that says what labels are, received \"" + name +
                    "\". Say sparse_categorical_crossentropy for class numbers, or "
                    "categorical_crossentropy for one-hot labels.");
  }
  if (const Row* row = find_row(name)) return *row;
  throw Error(ErrorKind::kModel,
              "loss: expected the name of a loss, such as binary_crossentropy, "
              "sparse_categorical_crossentropy or mean_squared_error, received \"" +
                  name + "\"." + did_you_mean(name, loss_names()));
}

bool reads_class_numbers(LossKind kind) {
  return kind == LossKind::kSparseCategoricalCrossentropy ||
         kind == LossKind::kGeneralizedCrossentropy || kind == LossKind::kCircle ||
         kind == LossKind::kCtc;
}

// Whether a configuration names a loss of such a kind.
template <typename Is>
bool names_loss(const Config& config, Is is) {
  try {
    const Row* row = find_row(read_object(config, "loss").name);
    return row != nullptr && is(row->kind);
  } catch (const Error&) {
    return false;  // said where the loss is read
  }
}

Reduction read_reduction(OptionReader& options) {
  const std::string word = options.text("reduction", "sum_over_batch_size");
  if (word == "sum_over_batch_size" || word == "mean" || word == "auto") return Reduction::kMean;
  if (word == "sum") return Reduction::kSum;
  if (word == "mean_with_sample_weight") return Reduction::kMeanOfWeighted;
  if (word == "none") {
    options.refuse("reduction", "a reduction to one number", word,
                   "Use sum_over_batch_size or sum: a step needs one loss.");
  }
  options.refuse("reduction", "sum_over_batch_size, mean, sum or mean_with_sample_weight", word);
}

// Dice is Tversky's index with halves, but for what keeps the divisor off 0.
void read_overlap(OptionReader& options, const Row& row, const ValueType& output, Loss& loss) {
  constexpr double kNoBound = 1e30;
  const int rank = output.shape.rank();
  loss.op = row.name;
  if (row.name == "tversky") {
    loss.attributes.set("alpha", options.number("alpha", 0.5, 0, kNoBound));
    loss.attributes.set("beta", options.number("beta", 0.5, 0, kNoBound));
  }
  for (const double given : options.numbers("axis", -rank, rank - 1)) {
    const auto axis = static_cast<int64_t>(given);
    loss.axes.push_back(axis < 0 ? axis + rank : axis);
  }
  std::ranges::sort(loss.axes);
  loss.axes.erase(std::unique(loss.axes.begin(), loss.axes.end()), loss.axes.end());
  if (loss.axes.empty() || loss.axes.front() != 0) return;
  if (std::ssize(loss.axes) == rank) return loss.axes.clear();  // all of them
  options.refuse("axis", "axes after the batch, or all of them", Config(int64_t{0}),
                 "Leave the batch out.");
}

// What a loss has besides reduction and name.
void read_own_options(OptionReader& options, const Row& row, const ValueType& output, Loss& loss) {
  constexpr double kNoBound = 1e30;
  const bool dense = loss.kind == LossKind::kDense;
  const bool error =
      loss.kind == LossKind::kMeanSquaredError || loss.kind == LossKind::kMeanAbsoluteError;
  const bool focal = loss.kind == LossKind::kBinaryFocalCrossentropy ||
                     loss.kind == LossKind::kCategoricalFocalCrossentropy;
  if (dense) loss.op = row.name;
  if (loss.kind == LossKind::kCtc) return;
  if (loss.kind == LossKind::kOverlap) return read_overlap(options, row, output, loss);
  if (loss.kind == LossKind::kCircle) {
    loss.attributes.set("gamma", options.number("gamma", 80, 0, kNoBound));
    loss.attributes.set("margin", options.number("margin", 0.4, 0, 1));
    loss.attributes.set("remove_diagonal", options.flag("remove_diagonal", true));
    return;
  }
  if (loss.kind == LossKind::kGeneralizedCrossentropy) {
    loss.attributes.set("q", options.number("q", 0.5, 1e-30, 1));
    return;
  }
  if (row.name == "huber") {
    loss.attributes.set("delta", options.number("delta", 1.0, 0, kNoBound));
  }
  if (loss.kind == LossKind::kBinaryFocalCrossentropy) {
    loss.attributes.set("apply_class_balancing", options.flag("apply_class_balancing", false));
  }
  if (focal) {
    loss.attributes.set("alpha", options.number("alpha", 0.25, 0, kNoBound));
    loss.attributes.set("gamma", options.number("gamma", 2.0, 0, kNoBound));
  }
  const bool along_axis = !dense && !error;
  if (along_axis) loss.from_logits = options.flag("from_logits", false);
  if (along_axis || row.name == "cosine_similarity") {
    read_last_axis(options, output);
  }
  if (loss.kind == LossKind::kSparseCategoricalCrossentropy) {
    const std::optional<double> ignored = options.optional_number("ignore_class", -1e9, 1e9);
    if (ignored) loss.ignored = static_cast<int64_t>(*ignored);
  } else if (along_axis) {
    loss.label_smoothing = options.number("label_smoothing", 0, 0, 1);
  }
}

void check_output(const Loss& loss, const ValueType& output) {
  const std::string where = "loss " + loss.name + ": ";
  if (output.shape.rank() < 2) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}expected an output with a dimension after the batch, received {}. "
                            "Add a Reshape after it.",
                            where, to_string(output.shape)));
  }
  if (loss.kind == LossKind::kCircle && output.shape.rank() != 2) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}expected embeddings (B, D), received {}. Add a Flatten after them.",
                            where, to_string(output.shape)));
  }
  if (loss.kind == LossKind::kCtc && output.shape.rank() != 3) {
    throw Error(
        ErrorKind::kModel,
        fmt::format("{}expected logits (B, steps, classes), received {}. Let the last layer "
                    "give the scores of all classes at each step.",
                    where, to_string(output.shape)));
  }
  if (is_sparse(loss) && output.shape[output.shape.rank() - 1].count < 2) {
    throw Error(
        ErrorKind::kModel,
        fmt::format(
            "{}expected an output of two or more classes, received {}. Use binary_crossentropy.",
            where, to_string(output.shape)));
  }
}

// Labels moved towards the middle: z (1 − s) + s / n.
ValueId smooth(graph::GraphBuilder& builder, const Loss& loss, const std::string& name,
               ValueId target, int64_t classes) {
  if (loss.label_smoothing == 0) return target;
  const bool binary =
      loss.kind == LossKind::kBinaryCrossentropy || loss.kind == LossKind::kBinaryFocalCrossentropy;
  const double share =
      binary ? 0.5 * loss.label_smoothing : loss.label_smoothing / static_cast<double>(classes);
  return builder.call("scale_shift", name + "/smooth_labels", {target},
                      {{"scale", 1.0 - loss.label_smoothing}, {"offset", share}});
}

// After a softmax, Keras's focal loss takes the crossentropy of the softmax's logits as if a
// sigmoid had made the probabilities, and its factor of the probabilities p themselves
// (crossentropies of its TensorFlow backend look for the logits of whatever made p):
//   mean of (p + y − 2 p y)^gamma (softplus(z) − y z), times y alpha + (1 − y)(1 − alpha) if
//   balanced
ValueId add_focal_after_softmax(graph::GraphBuilder& builder, const Loss& loss,
                                const std::string& node, ValueId p, ValueId z, ValueId y) {
  const auto times = [&](std::string_view what, ValueId a, ValueId b) {
    return builder.call("multiply", node + std::string(what), {a, b});
  };
  const auto minus = [&](std::string_view what, ValueId a, ValueId b) {
    return builder.call("subtract", node + std::string(what), {a, b});
  };
  const auto line = [&](std::string_view what, ValueId value, double scale, double offset) {
    return builder.call("scale_shift", node + std::string(what), {value},
                        {{"scale", scale}, {"offset", offset}});
  };
  const ValueId softplus =
      builder.call("activation", node + "/softplus", {z}, {{"kind", "softplus"}});
  const ValueId crossentropy = minus("/crossentropy", softplus, times("/label_logits", y, z));
  const ValueId sum = builder.call("add", node + "/sum", {p, y});
  const ValueId wrong = minus("/wrong", sum, line("/twice", times("/right", p, y), 2, 0));
  const double gamma = loss.attributes.get_double("gamma", 2);
  ValueId focal =
      builder.call("unary", node + "/factor", {wrong}, {{"kind", "power"}, {"exponent", gamma}});
  if (loss.attributes.get_bool("apply_class_balancing", false)) {
    const double alpha = loss.attributes.get_double("alpha", 0.25);
    focal = times("/balanced", focal, line("/balance", y, 2 * alpha - 1, 1 - alpha));
  }
  const ValueId losses = times("/losses", focal, crossentropy);
  std::vector<int64_t> rows = ops::sample_dims(builder.type(losses).shape);
  const auto count = static_cast<double>(rows.back());
  rows.back() = 1;
  const ValueId total =
      builder.call("sum_to", node + "/total", {losses}, {{"shape", rows}, {"batched", true}});
  rows.pop_back();
  return builder.call("reshape", node, {line("/mean", total, 1 / count, 0)}, {{"shape", rows}});
}

// 1 − how far prediction p and target t overlap, one number or one for each place off the axes:
//   dice      2 Σ p t / (Σ t + Σ p + epsilon)
//   tversky   Σ p t / (Σ p t + alpha Σ (1 − p) t + beta Σ p (1 − t) + epsilon)
ValueId add_overlap(graph::GraphBuilder& builder, const Loss& loss, const std::string& node,
                    ValueId p, ValueId t) {
  constexpr double kEpsilon = 1e-7;
  const auto sum = [&](const std::string& what, ValueId value) {
    if (loss.axes.empty()) return builder.call("batch_sum", node + what, {value});
    std::vector<int64_t> ones = ops::sample_dims(builder.type(value).shape);
    std::vector<int64_t> kept;
    for (size_t i = 0; i < ones.size(); ++i) {
      const bool summed =
          std::ranges::find(loss.axes, static_cast<int64_t>(i) + 1) != loss.axes.end();
      if (summed) {
        ones[i] = 1;
      } else {
        kept.push_back(ones[i]);
      }
    }
    const ValueId total =
        builder.call("sum_to", node + what, {value}, {{"shape", ones}, {"batched", true}});
    return builder.call("reshape", node + what + "_rows", {total}, {{"shape", kept}});
  };
  const auto line = [&](const std::string& what, ValueId value, double scale, double offset) {
    return builder.call("scale_shift", node + what, {value},
                        {{"scale", scale}, {"offset", offset}});
  };
  const auto add = [&](const std::string& what, ValueId a, ValueId b) {
    return builder.call("add", node + what, {a, b});
  };
  const ValueId both = sum("/both", builder.call("multiply", node + "/product", {p, t}));
  const ValueId of_target = sum("/of_target", t);
  const ValueId of_prediction = sum("/of_prediction", p);
  if (loss.op == "dice") {
    const ValueId sums = line("/divisor", add("/sums", of_target, of_prediction), 1, kEpsilon);
    return line("", builder.call("divide", node + "/overlap", {both, sums}), -2, 1);
  }
  const ValueId missed = builder.call("subtract", node + "/missed", {of_target, both});
  const ValueId added = builder.call("subtract", node + "/added", {of_prediction, both});
  const ValueId wrong =
      add("/wrong", line("/alpha", missed, loss.attributes.get_double("alpha"), 0),
          line("/beta", added, loss.attributes.get_double("beta"), 0));
  const ValueId divisor = line("/divisor", add("/sums", both, wrong), 1, kEpsilon);
  return line("", builder.call("divide", node + "/overlap", {both, divisor}), -1, 1);
}

// One value per row of the output's last dimension.
ValueId add_row_losses(Expansion& expansion, const Loss& loss, const std::string& name,
                       ValueId prediction, ValueId target) {
  graph::GraphBuilder& builder = expansion.builder();
  const std::string node = name + "/" + loss.name;
  const Shape shape = builder.type(prediction).shape;
  // Keras blanks the rows of an ignored class first, and what is blanked is no softmax to it.
  ValueId logits = loss.ignored ? ValueId() : expansion.logits_of(prediction);
  if (!logits.valid() && loss.from_logits) logits = prediction;
  const ValueId source = logits.valid() ? logits : prediction;
  const std::string suffix = logits.valid() ? "_logits" : "";
  switch (loss.kind) {
    case LossKind::kOverlap:
      return add_overlap(builder, loss, node, prediction, target);
    case LossKind::kCircle:
      return builder.call("circle", node, {prediction, target}, loss.attributes);
    case LossKind::kCtc:
      return builder.call("ctc", node, {prediction, target}, {{"blank", int64_t{0}}});
    case LossKind::kGeneralizedCrossentropy:
      return builder.call("generalized_crossentropy", node, {prediction, target}, loss.attributes);
    case LossKind::kMeanSquaredError:
      return builder.call("mean_squared_error", node, {prediction, target});
    case LossKind::kMeanAbsoluteError:
      return builder.call("mean_absolute_error", node, {prediction, target});
    case LossKind::kDense:
      return builder.call(loss.op, node, {prediction, target}, loss.attributes);
    case LossKind::kBinaryFocalCrossentropy: {
      const ValueId smoothed = smooth(builder, loss, name, target, 0);
      // Keras makes a sigmoid's values of what are said to be logits, whatever made those.
      if (loss.from_logits) {
        return builder.call("binary_focal_crossentropy_logits", node, {prediction, smoothed},
                            loss.attributes);
      }
      if (logits.valid() && expansion.made_by(prediction) == Probabilities::kSoftmax) {
        return add_focal_after_softmax(builder, loss, node, prediction, logits, smoothed);
      }
      return builder.call("binary_focal_crossentropy" + suffix, node, {source, smoothed},
                          loss.attributes);
    }
    case LossKind::kCategoricalFocalCrossentropy: {
      const ValueId smoothed = smooth(builder, loss, name, target, shape[shape.rank() - 1].count);
      // It is computed of probabilities, even where their logits are known: Keras does the same.
      const ValueId q =
          loss.from_logits ? builder.call("softmax", node + "/softmax", {prediction}) : prediction;
      return builder.call("categorical_focal_crossentropy", node, {q, smoothed}, loss.attributes);
    }
    case LossKind::kSparseCategoricalCrossentropy:
      if (logits.valid()) {
        return ops::sparse_crossentropy_from_logits(builder, node, logits, target);
      }
      return builder.call("sparse_categorical_crossentropy", node, {prediction, target});
    case LossKind::kBinaryCrossentropy:
    case LossKind::kCategoricalCrossentropy: {
      const ValueId smoothed = smooth(builder, loss, name, target, shape[shape.rank() - 1].count);
      const bool binary = loss.kind == LossKind::kBinaryCrossentropy;
      return builder.call((binary ? "binary_crossentropy" : "categorical_crossentropy") + suffix,
                          node, {source, smoothed});
    }
  }
  PLIMSOLL_CHECK(false, "unknown loss");
}

// Which labels are not of the ignored class.
ValueId add_counted_labels(graph::GraphBuilder& builder, const Loss& loss, const std::string& name,
                           ValueId target) {
  return builder.call("compare", name + "/counted", {target},
                      {{"kind", "not_equal"}, {"value", static_cast<double>(*loss.ignored)}});
}

// Labels with class 0 in place of the ignored one, which may lie beyond the model's classes.
ValueId replace_ignored(graph::GraphBuilder& builder, const std::string& name, ValueId target,
                        ValueId counted) {
  const std::string dtype(to_string(builder.type(target).dtype));
  const ValueId numbers =
      builder.call("cast", name + "/label_numbers", {target}, {{"dtype", "float32"}});
  const ValueId kept = builder.call("apply_mask", name + "/counted_numbers", {numbers, counted});
  return builder.call("cast", name + "/counted_labels", {kept}, {{"dtype", dtype}});
}

// 1 for rows that count, or as much more as there are rows that do not; 0 for those.
ValueId add_mask_weights(graph::GraphBuilder& builder, const Loss& loss, const std::string& name,
                         ValueId rows, ValueId mask) {
  const ValueType type = builder.type(rows);
  mask = without_last_one(builder, name + "/mask_rows", mask, type.shape);
  // Keras takes a last dimension of 1 off the loss.
  std::vector<int64_t> column = ops::sample_dims(builder.type(mask).shape);
  column.push_back(1);
  if (column == ops::sample_dims(type.shape)) {
    mask = builder.call("reshape", name + "/mask_column", {mask}, {{"shape", column}});
  }
  if (builder.type(mask).shape != type.shape) {
    throw Error(ErrorKind::kModel,
                fmt::format("loss {}: expected a mask of the loss's shape {}, received {}. End the "
                            "mask before the output, by a Reshape.",
                            loss.name, to_string(type.shape), to_string(builder.type(mask).shape)));
  }
  const ValueId counts =
      builder.call("cast", name + "/mask", {mask}, {{"dtype", std::string(to_string(type.dtype))}});
  if (loss.reduction != Reduction::kMean) return counts;
  const ValueId valid = builder.call("batch_sum", name + "/mask_sum", {counts});
  const ValueId total = builder.call("batch_count", name + "/mask_count", {},
                                     {{"elements_per_sample", type.shape.elements_per_sample()}});
  const ValueId share = builder.call("divide_no_nan", name + "/mask_share", {total, valid});
  return builder.call("multiply", name + "/mask_weights", {counts, share});
}

// Sample weights of the loss's shape.
ValueId repeat_weights(graph::GraphBuilder& builder, const std::string& name, ValueId samples,
                       const Shape& shape) {
  const int rank = builder.type(samples).shape.rank();
  if (rank == 1 && shape.rank() > 1) {
    const std::vector<int64_t> ones(static_cast<size_t>(shape.rank()) - 1, 1);
    samples = builder.call("reshape", name + "/weight_rows", {samples}, {{"shape", ones}});
  }
  if (builder.type(samples).shape == shape) return samples;
  return builder.call("broadcast", name + "/weights", {samples},
                      {{"shape", ops::sample_dims(shape)}});
}

// The weights have the loss's shape or (B); invalid where every row counts the same.
ValueId add_row_weights(graph::GraphBuilder& builder, const Loss& loss, const std::string& name,
                        ValueId rows, const LossWeights& weights) {
  if (!weights.mask.valid()) {
    const bool one = !weights.samples.valid() || builder.type(weights.samples).shape.rank() == 1;
    return one ? weights.samples
               : repeat_weights(builder, name, weights.samples, builder.type(rows).shape);
  }
  const ValueId counts = add_mask_weights(builder, loss, name, rows, weights.mask);
  if (!weights.samples.valid()) return counts;
  const ValueId samples = repeat_weights(builder, name, weights.samples, builder.type(rows).shape);
  return builder.call("multiply", name + "/masked_weights", {samples, counts});
}

// One number of the whole batch, by the mean or the sum of the samples' weights.
ValueId weigh_batch(graph::GraphBuilder& builder, const Loss& loss, const std::string& name,
                    ValueId value, const LossWeights& weights) {
  if (weights.mask.valid()) {
    throw Error(ErrorKind::kModel,
                "loss " + loss.name +
                    ": expected an output without a mask, received one with a mask. End the mask "
                    "before the output, by a Reshape, or name the axes of a sample.");
  }
  if (!weights.samples.valid()) return value;
  if (builder.type(weights.samples).shape.rank() != 1 ||
      loss.reduction == Reduction::kMeanOfWeighted) {
    throw Error(ErrorKind::kModel,
                "loss " + loss.name +
                    ": expected one weight a sample and a reduction by sum_over_batch_size or sum, "
                    "received others. Name the axes of a sample, such as axis=[1,2,3].");
  }
  const ValueId sum = builder.call("batch_sum", name + "/weight_sum", {weights.samples});
  const ValueId weight = loss.reduction == Reduction::kSum
                             ? sum
                             : builder.call("divide_by_count", name + "/mean_weight", {sum},
                                            {{"elements_per_sample", int64_t{1}}});
  return builder.call("multiply", name + "/loss", {value, weight});
}

}  // namespace

void read_last_axis(OptionReader& options, const ValueType& output) {
  const double axis = options.optional_number("axis", -1e9, 1e9).value_or(-1);
  const int last = output.shape.rank() - 1;
  if (axis == -1 || axis == last) return;
  options.refuse("axis", fmt::format("-1 or {}, the last of {}", last, to_string(output.shape)),
                 Config(static_cast<int64_t>(axis)), "Put the classes last.");
}

bool is_of_whole_batch(const Loss& loss) {
  return loss.kind == LossKind::kOverlap && loss.axes.empty();
}

ValueId add_loss_rows(Expansion& expansion, const Loss& loss, const std::string& name,
                      ValueId prediction, ValueId target) {
  if (!loss.ignored) return add_row_losses(expansion, loss, name, prediction, target);
  graph::GraphBuilder& builder = expansion.builder();
  const ValueId counted = add_counted_labels(builder, loss, name, target);
  target = replace_ignored(builder, name, target, counted);
  const ValueId rows = add_row_losses(expansion, loss, name, prediction, target);
  return builder.call("apply_mask", name + "/counted_rows", {rows, counted});
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    names.emplace_back(row.name);
    names.emplace_back(row.class_name);
  }
  return names;
}

std::vector<std::string> loss_class_names() {
  std::vector<std::string> names;
  names.reserve(kRows.size());
  for (const Row& row : kRows) names.emplace_back(row.class_name);
  return names;
}

std::string loss_class(const std::string& name) {
  const Row* row = find_row(name);
  return row == nullptr ? name : std::string(row->class_name);
}

std::string loss_name(const std::string& name) {
  const Row* row = find_row(name);
  return row == nullptr ? name : std::string(row->name);
}

bool is_sparse(const Loss& loss) { return reads_class_numbers(loss.kind); }

bool names_sparse_loss(const Config& config) { return names_loss(config, reads_class_numbers); }

bool names_binary_loss(const Config& config) {
  return names_loss(config, [](LossKind kind) {
    return kind == LossKind::kBinaryCrossentropy || kind == LossKind::kBinaryFocalCrossentropy;
  });
}

Loss read_loss(const Config& config, const ValueType& output, std::vector<Option>* list) {
  const Spelling given = read_object(config, "loss");
  const Row& row = row_of(given.name, output);
  Loss loss;
  loss.kind = row.kind;
  OptionReader options(given.arguments, std::string(row.name), list);
  loss.reduction = read_reduction(options);
  loss.name = options.text("name", std::string(row.name));
  options.ignore("dtype");
  options.ignore("fn");
  read_own_options(options, row, output, loss);
  options.finish();
  check_output(loss, output);
  return loss;
}

int64_t class_count(const Loss& loss, const ValueType& output) {
  if (!is_sparse(loss) || loss.kind == LossKind::kCircle) return 0;
  return output.shape[output.shape.rank() - 1].count;
}

bool reads_label_sequences(const Loss& loss) { return loss.kind == LossKind::kCtc; }

bool names_label_sequences(const Config& config) {
  return names_loss(config, [](LossKind kind) { return kind == LossKind::kCtc; });
}

ValueType rows_type(const Loss& loss, const ValueType& output) {
  if (!reads_label_sequences(loss)) return output;
  return {output.dtype, Shape({Dim::batch(), Dim::constant(1)})};
}

ValueType target_type(const Loss& loss, const ValueType& output,
                      const std::vector<int64_t>& given) {
  if (!is_sparse(loss)) return output;
  if (reads_label_sequences(loss) && !given.empty()) {
    if (given.size() != 1 || given[0] < 1) {
      throw Error(ErrorKind::kData,
                  fmt::format("loss {}: expected a row of labels for each sample, received labels "
                              "of shape {}. Pad shorter rows with 0.",
                              loss.name, to_string(batch_shape(given))));
    }
    return {DType::kInt32, batch_shape(given)};
  }
  std::vector<Dim> dims(output.shape.dims().begin(), output.shape.dims().end() - 1);
  return {DType::kInt32, Shape(std::move(dims))};
}

std::optional<int64_t> ignored_class_of(const Config& config) {
  const Config* arguments = config.find("config");
  const Config* ignored = arguments == nullptr ? nullptr : arguments->find("ignore_class");
  if (!names_sparse_loss(config) || ignored == nullptr || !ignored->is_int()) return std::nullopt;
  return ignored->as_int();
}

ValueType weight_type(const std::string& name, const ValueType& output,
                      const std::vector<int64_t>& given) {
  const std::vector<int64_t> rows = ops::sample_dims(ops::without_last(output.shape));
  std::vector<int64_t> dims = given;
  while (dims.size() > rows.size() && dims.back() == 1) dims.pop_back();
  const bool one = std::ranges::all_of(dims, [](int64_t dim) { return dim == 1; });
  if (one) return {DType::kFloat32, Shape({Dim::batch()})};
  // Keras takes a last dimension of 1 off the loss.
  if (dims.size() + 1 == rows.size() && rows.back() == 1) dims.push_back(1);
  bool fits = dims.size() == rows.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i] == 1 || dims[i] == rows[i];
  if (!fits) {
    throw Error(
        ErrorKind::kData,
        fmt::format("[{}] expected one weight a sample{}, received weights of shape {}.", name,
                    rows.empty()
                        ? std::string()
                        : fmt::format(", or weights of shape {}, one for each value of the loss",
                                      to_string(batch_shape(rows))),
                    to_string(batch_shape(given))));
  }
  return {DType::kFloat32, batch_shape(dims)};
}

ValueId add_loss(Expansion& expansion, const Loss& loss, const std::string& name,
                 ValueId prediction, ValueId target, const LossWeights& given) {
  graph::GraphBuilder& builder = expansion.builder();
  builder.set_stage(graph::Stage::kLoss);
  LossWeights weights = given;
  if (loss.ignored) {
    const ValueId counted = add_counted_labels(builder, loss, name, target);
    target = replace_ignored(builder, name, target, counted);
    weights.mask = weights.mask.valid() ? builder.call("logical", name + "/counted_mask",
                                                       {weights.mask, counted}, {{"kind", "and"}})
                                        : counted;
  }
  const ValueId rows = add_row_losses(expansion, loss, name, prediction, target);
  if (loss.kind == LossKind::kCircle) {
    // Keras: samples whose loss is 0 do not count in the mean.
    const ValueId counted =
        builder.call("compare", name + "/counted", {rows}, {{"kind", "greater"}, {"value", 0.0}});
    weights.mask = weights.mask.valid() ? builder.call("logical", name + "/counted_mask",
                                                       {weights.mask, counted}, {{"kind", "and"}})
                                        : counted;
  }
  if (is_of_whole_batch(loss)) return weigh_batch(builder, loss, name, rows, weights);
  if (weights.samples.valid() && loss.reduction == Reduction::kMeanOfWeighted) {
    throw Error(ErrorKind::kModel,
                "loss " + loss.name +
                    ": expected sum_over_batch_size or sum together with sample weights, "
                    "received mean_with_sample_weight. Scale the weights to a mean of 1 and use "
                    "sum_over_batch_size.");
  }
  const ValueId row_weights = add_row_weights(builder, loss, name, rows, weights);
  std::vector<ValueId> operands = {rows};
  if (row_weights.valid()) operands.push_back(row_weights);
  const ValueId sum = builder.call("batch_sum", name + "/loss_sum", operands);
  if (loss.reduction == Reduction::kSum) return sum;
  if (loss.reduction == Reduction::kMeanOfWeighted && row_weights.valid()) {
    const ValueId total = builder.call("batch_sum", name + "/weight_sum", {row_weights});
    return builder.call("divide_no_nan", name + "/loss", {sum, total});
  }
  return builder.call("divide_by_count", name + "/loss", {sum},
                      {{"elements_per_sample", builder.type(rows).shape.elements_per_sample()}});
}

}  // namespace plimsoll::layers
