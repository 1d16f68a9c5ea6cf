#include "layers/training/optimizers.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/config/constraints.h"
#include "layers/config/names.h"
#include "layers/config/option_reader.h"
#include "layers/config/spelling.h"
#include "layers/training/schedules.h"
#include "layers/training/table_reads.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

using graph::StateVariable;
using graph::ValueId;

constexpr double kNoBound = 1e30;
constexpr std::array<std::string_view, 14> kClasses = {
    "Adadelta", "Adafactor", "Adagrad", "Adam",  "AdamW",   "Adamax", "Ftrl",
    "Lamb",     "Lion",      "Muon",    "Nadam", "RMSprop", "SGD",    "ScheduleFreeAdamW"};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Keras takes "adam", "Adam" and "ADAM" for one.
std::string class_of(const std::string& name) {
  std::array<std::string, kClasses.size()> known;
  for (size_t i = 0; i < kClasses.size(); ++i) {
    known[i] = lower(kClasses[i]);
    if (lower(name) == known[i] || name == snake_case(kClasses[i])) {
      return std::string(kClasses[i]);
    }
  }
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  throw Error(ErrorKind::kModel, "optimizer: expected one of " + all + ", received \"" + name +
                                     "\"." + did_you_mean(lower(name), known));
}

// Options of all optimizers that must say nothing, and those that say nothing here.
void read_common(OptionReader& options, Optimizer& optimizer) {
  options.ignore("name");
  options.ignore("decay");  // without effect in Keras 3
  options.ignore("jit_compile");
  options.ignore("is_legacy_optimizer");
  // Gradients of a scaled loss are divided by the scale: in float32 it changes nothing.
  options.optional_number("loss_scale_factor", 0, kNoBound);
  options.refuse_unless_empty("gradient_accumulation_steps",
                              "Use a larger batch: it is cut to fit the memory limit.");
  optimizer.averages = read_averages(options);
}

// A number, or a schedule.
void read_learning_rate(OptionReader& options, const Config::Object& arguments, double fallback,
                        Optimizer& optimizer) {
  for (const auto& [key, value] : arguments) {
    if (key != "learning_rate" || !value.is_object()) continue;
    options.ignore("learning_rate");
    options.ignore("lr");
    optimizer.schedule = read_schedule(value);
    return;
  }
  const double old_name = options.number("lr", fallback, 0, kNoBound);
  optimizer.learning_rate = options.number("learning_rate", old_name, 0, kNoBound);
}

double default_rate(std::string_view class_name) {
  if (class_name == "SGD") return 0.01;
  return class_name == "ScheduleFreeAdamW" ? 0.0025 : 0.001;
}

// At most one of three; a limit of zero or less says nothing, as in Keras.
void read_clipping(OptionReader& options, Optimizer& optimizer) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"clipnorm", "norm"}, {"global_clipnorm", "global"}, {"clipvalue", "value"}};
  for (const auto& [key, kind] : kKinds) {
    const std::optional<double> limit = options.optional_number(key, -kNoBound, kNoBound);
    if (!limit) continue;
    if (!optimizer.clip.empty()) {
      options.refuse(key, "one way to clip gradients", Config(*limit), "Leave the others out.");
    }
    if (*limit <= 0) continue;
    optimizer.clip = kind;
    optimizer.clip_limit = *limit;
  }
}

void read_sgd(OptionReader& options, Optimizer& optimizer) {
  const double momentum = options.number("momentum", 0.0, 0, 1);
  const bool nesterov = options.flag("nesterov", false);
  optimizer.op = momentum != 0 ? "sgd_momentum" : "sgd";
  if (momentum == 0) return;
  optimizer.attributes.set("momentum", momentum);
  optimizer.attributes.set("nesterov", nesterov);
  optimizer.slots = {"momentum"};
}

void read_adam(OptionReader& options, Optimizer& optimizer) {
  optimizer.attributes.set("beta_1", options.number("beta_1", 0.9, 0, 1));
  optimizer.attributes.set("beta_2", options.number("beta_2", 0.999, 0, 1));
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  const bool amsgrad = options.flag("amsgrad", false);
  optimizer.op = amsgrad ? "adam_amsgrad" : "adam";
  optimizer.slots = {"momentum", "velocity"};
  if (amsgrad) optimizer.slots.push_back("velocity_hat");
  optimizer.counts = true;
}

void read_rmsprop(OptionReader& options, Optimizer& optimizer) {
  optimizer.attributes.set("rho", options.number("rho", 0.9, 0, 1));
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  const double momentum = options.number("momentum", 0.0, 0, 1);
  const bool centered = options.flag("centered", false);
  optimizer.op = "rmsprop";
  optimizer.slots = {"velocity"};
  if (centered) {
    optimizer.op += "_centered";
    optimizer.slots.push_back("average_gradient");
  }
  if (momentum > 0) {
    optimizer.op += "_momentum";
    optimizer.slots.push_back("momentum");
    optimizer.attributes.set("momentum", momentum);
  }
}

void read_adagrad(OptionReader& options, Optimizer& optimizer) {
  optimizer.accumulator = options.number("initial_accumulator_value", 0.1, 0, kNoBound);
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  optimizer.slots = {"accumulator"};
}

void read_adadelta(OptionReader& options, Optimizer& optimizer) {
  optimizer.attributes.set("rho", options.number("rho", 0.95, 0, 1));
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  optimizer.slots = {"accumulated_grad", "accumulated_delta_var"};
}

void read_betas(OptionReader& options, Optimizer& optimizer, double beta_2) {
  optimizer.attributes.set("beta_1", options.number("beta_1", 0.9, 0, 1));
  optimizer.attributes.set("beta_2", options.number("beta_2", beta_2, 0, 1));
}

void read_adamax(OptionReader& options, Optimizer& optimizer) {
  read_betas(options, optimizer, 0.999);
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  optimizer.slots = {"momentum", "norm"};
  optimizer.counts = true;
}

void read_nadam(OptionReader& options, Optimizer& optimizer) {
  read_betas(options, optimizer, 0.999);
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  options.ignore("schedule_decay");  // of Keras 2.2
  optimizer.slots = {"momentum", "velocity"};
  optimizer.counts = true;
}

void read_ftrl(OptionReader& options, Optimizer& optimizer) {
  optimizer.attributes.set("learning_rate_power",
                           options.number("learning_rate_power", -0.5, -kNoBound, 0));
  optimizer.accumulator = options.number("initial_accumulator_value", 0.1, 0, kNoBound);
  for (const char* key : {"l1_regularization_strength", "l2_regularization_strength",
                          "l2_shrinkage_regularization_strength", "beta"}) {
    optimizer.attributes.set(key, options.number(key, 0, 0, kNoBound));
  }
  optimizer.slots = {"accumulator", "linear"};
}

void read_lion(OptionReader& options, Optimizer& optimizer) {
  read_betas(options, optimizer, 0.99);
  optimizer.slots = {"momentum"};
}

void read_lamb(OptionReader& options, Optimizer& optimizer) {
  read_betas(options, optimizer, 0.999);
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  optimizer.slots = {"momentum", "velocity"};
  optimizer.counts = true;
}

void read_adafactor(OptionReader& options, Optimizer& optimizer) {
  const auto read = [&](const char* key, double fallback, double least) {
    optimizer.attributes.set(key, options.number(key, fallback, least, kNoBound));
  };
  read("beta_2_decay", -0.8, -kNoBound);
  read("epsilon_1", 1e-30, 0);
  read("epsilon_2", 1e-3, 0);
  read("clip_threshold", 1.0, 0);
  // Keras takes the smaller of the rate and 1 / sqrt(t) with it and without it.
  options.flag("relative_step", true);
  optimizer.slots = {"r", "c", "velocity"};
  optimizer.counts = true;
}

void read_schedule_free(OptionReader& options, Optimizer& optimizer) {
  read_betas(options, optimizer, 0.999);
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-8, 0, kNoBound));
  optimizer.attributes.set("warmup_steps", options.number("warmup_steps", 0, 0, kNoBound));
  optimizer.op = "schedule_free_adamw";
  optimizer.slots = {"momentum", "velocity"};
  optimizer.counts = true;
  optimizer.starts_at_weight = true;
}

// Adam's part is the optimizer's own; Muon's stands beside it.
void read_muon_and_adam(OptionReader& options, Optimizer& optimizer) {
  optimizer.muon = read_muon(options);
  if (optimizer.attributes.has("weight_decay")) {
    optimizer.muon->weight_decay = optimizer.attributes.get_double("weight_decay");
  }
  optimizer.attributes = {};
  optimizer.attributes.set("beta_1", options.number("adam_beta_1", 0.9, 0, 1));
  optimizer.attributes.set("beta_2", options.number("adam_beta_2", 0.999, 0, 1));
  optimizer.attributes.set("epsilon", options.number("epsilon", 1e-7, 0, kNoBound));
  std::optional<double> decay = options.optional_number("adam_weight_decay", 0, kNoBound);
  if (!decay && !options.is_null("adam_weight_decay")) decay = 0.004;
  // Weights decay by the rate as it is, and Adam's step takes a share of it.
  if (decay) optimizer.attributes.set("weight_decay", *decay / optimizer.muon->adam_rate_ratio);
  optimizer.op = "adam";
  optimizer.slots = {"momentum", "velocity"};
  optimizer.counts = true;
}

struct OwnOptions {
  std::string_view class_name;
  void (*read)(OptionReader&, Optimizer&);
};
constexpr std::array kOwnOptions = {
    OwnOptions{"Adadelta", read_adadelta}, OwnOptions{"Adafactor", read_adafactor},
    OwnOptions{"Adagrad", read_adagrad},   OwnOptions{"Adam", read_adam},
    OwnOptions{"AdamW", read_adam},        OwnOptions{"Adamax", read_adamax},
    OwnOptions{"Ftrl", read_ftrl},         OwnOptions{"Lamb", read_lamb},
    OwnOptions{"Lion", read_lion},         OwnOptions{"Muon", read_muon_and_adam},
    OwnOptions{"Nadam", read_nadam},       OwnOptions{"RMSprop", read_rmsprop},
    OwnOptions{"SGD", read_sgd},           OwnOptions{"ScheduleFreeAdamW", read_schedule_free},
};

graph::StateId declare_scalar(graph::GraphBuilder& builder, std::string_view name, DType dtype,
                              graph::StateRole role) {
  return builder.state({.name = std::string(name), .type = {dtype, Shape()}, .role = role});
}

// A weight's gradient, and the reads that it comes from where Keras's optimizer looks at them.
struct Update {
  WeightGradient pair;
  std::optional<TableReads> reads{};
};

// What a table's optimizer wants beside the sum of each row's gradients: the sum of their squares
// (Adamax: of their magnitudes), which Keras takes of each read. None where that is the same, or
// plain arithmetic.
std::string sum_over_reads(const Optimizer& optimizer) {
  constexpr std::array<std::string_view, 9> kSquaring = {
      "Adadelta", "Adafactor", "Adagrad", "Adamax",           "Ftrl",
      "Lamb",     "Nadam",     "RMSprop", "ScheduleFreeAdamW"};
  if (std::ranges::find(kSquaring, optimizer.class_name) == kSquaring.end()) return "";
  // Keras ends with an error there: the variance may fall below 0.
  if (optimizer.op.find("centered") != std::string::npos) return "";
  return optimizer.class_name == "Adamax" ? "magnitudes" : "squares";
}

bool is_adam(const Optimizer& optimizer) {
  return optimizer.op == "adam" || optimizer.op == "adam_amsgrad";
}

std::vector<Update> find_updates(graph::GraphBuilder& builder, const Optimizer& optimizer,
                                 const std::vector<WeightGradient>& gradients) {
  const bool looks =
      is_adam(optimizer) || !optimizer.clip.empty() || !sum_over_reads(optimizer).empty();
  std::vector<Update> updates;
  for (const WeightGradient& pair : gradients) {
    updates.push_back({pair});
    if (looks) {
      updates.back().reads =
          find_reads(builder, pair.gradient, builder.graph().state(pair.weight).name);
    }
  }
  return updates;
}

graph::StateId declare_slot(graph::GraphBuilder& builder, const StateVariable& weight,
                            const TensorInfo& slot) {
  return builder.state({.name = slot_state(weight.name, slot.name),
                        .type = {weight.type.dtype, fixed_shape(slot.shape)},
                        .role = graph::StateRole::kOptimizerSlot,
                        .layer = weight.layer});
}

std::vector<TensorInfo> slots_of(const Optimizer& optimizer, const StateVariable& weight) {
  return slots_of(optimizer, {weight.name, weight.type.dtype, weight.type.shape.at(1)});
}

// What the step's number and rate are; Muon's share of the rate for Adam.
struct StepNumbers {
  ValueId learning_rate;
  ValueId adam_rate;
  ValueId iteration;
};

StepNumbers step_numbers(graph::GraphBuilder& builder, const Optimizer& optimizer, ValueId rate,
                         ValueId iteration) {
  StepNumbers numbers{rate, rate, iteration};
  if (optimizer.muon && optimizer.muon->adam_rate_ratio != 1) {
    numbers.adam_rate =
        builder.call("scale_shift", std::string(kLearningRateState) + "/of_adam", {rate},
                     {{"scale", optimizer.muon->adam_rate_ratio}, {"offset", 0.0}});
  }
  return numbers;
}

ValueId value_before(graph::GraphBuilder& builder, const WeightGradient& pair) {
  return pair.before.valid() ? pair.before : builder.read(pair.weight);
}

// The new values of a weight and of its slots.
std::vector<ValueId> add_step(graph::GraphBuilder& builder, const Optimizer& optimizer,
                              const Update& given, const std::vector<ValueId>& slots,
                              const StepNumbers& numbers) {
  const WeightGradient& pair = given.pair;
  const std::string weight = builder.graph().state(pair.weight).name;
  const ValueId before = value_before(builder, pair);
  if (optimizer.muon && slots.size() == 1) {
    const MuonStep next = add_muon_step(builder, *optimizer.muon, weight, {before, slots[0]},
                                        pair.gradient, numbers.learning_rate);
    return {next.weight, next.momentum};
  }
  std::vector<ValueId> operands = {before, pair.gradient};
  std::string op = optimizer.op;
  // However small the table, the reads are not added up first (ops/training/adam_rows.cpp).
  if (is_adam(optimizer) && given.reads) {
    op = op == "adam" ? "adam_rows" : "adam_rows_amsgrad";
    operands = {before, given.reads->rows, given.reads->gradients};
  }
  operands.insert(operands.end(), slots.begin(), slots.end());
  operands.push_back(numbers.adam_rate);
  if (optimizer.counts) operands.push_back(numbers.iteration);
  if (const std::string what = sum_over_reads(optimizer); given.reads && !what.empty()) {
    operands.push_back(add_reads(builder, weight + "/" + what, *given.reads, what));
  }
  const graph::NodeId update = builder.add(op, weight + "/update", operands, optimizer.attributes);
  return builder.graph().node(update).outputs;
}

void add_update(graph::GraphBuilder& builder, const Optimizer& optimizer, const Update& given,
                const StepNumbers& numbers, FiniteSteps& steps) {
  const WeightGradient& pair = given.pair;
  const StateVariable weight = builder.graph().state(pair.weight);
  std::vector<graph::StateId> states = {pair.weight};
  std::vector<ValueId> slots;
  for (const TensorInfo& slot : slots_of(optimizer, weight)) {
    states.push_back(declare_slot(builder, weight, slot));
    slots.push_back(builder.read(states.back()));
  }
  builder.set_layer(weight.layer);
  const ValueId average = optimizer.averages ? slots.back() : ValueId();
  if (average.valid()) slots.pop_back();
  std::vector<ValueId> results = add_step(builder, optimizer, given, slots, numbers);
  if (average.valid()) {
    const AveragedWeight next = add_average(builder, *optimizer.averages, weight.name, results[0],
                                            average, numbers.iteration);
    results[0] = next.weight;
    results.push_back(next.average);
  }
  if (!pair.constraint.is_null()) {
    results[0] = add_constraint(builder, pair.constraint, results[0], weight.name);
  }
  steps.write(pair.weight, results[0], value_before(builder, pair));
  for (size_t i = 1; i < states.size(); ++i) {
    steps.write(states[i], results[i], builder.read(states[i]));
  }
  builder.set_layer("");
}

// Σ g², of each read where there are reads: those of a sample, however large the table is.
ValueId sum_of_squares(graph::GraphBuilder& builder, const Update& update,
                       const std::string& name) {
  const std::string sum = name + "/gradient_squares";
  if (!update.reads) {
    return builder.call("sum_squares", sum, {update.pair.gradient}, {{"factor", 1.0}});
  }
  ValueId reads = update.reads->gradients;
  if (builder.type(reads).dtype != DType::kFloat32) {
    reads = builder.call("cast", name + "/wide_reads", {reads}, {{"dtype", "float32"}});
  }
  const ValueId squares = builder.call("multiply", name + "/read_squares", {reads, reads});
  return builder.call("batch_sum", sum, {squares});
}

// Σ g² of all weights.
ValueId sum_of_all_squares(graph::GraphBuilder& builder, const std::vector<Update>& updates) {
  ValueId total;
  for (const Update& update : updates) {
    const ValueId squares =
        sum_of_squares(builder, update, builder.graph().state(update.pair.weight).name);
    total = total.valid() ? builder.call("add", "optimizer/squares", {total, squares}) : squares;
  }
  if (total.valid()) return total;
  return builder.call("zeros", "optimizer/squares", {},
                      {{"shape", std::vector<int64_t>()}, {"dtype", "float32"}});
}

void clip_one(graph::GraphBuilder& builder, const Optimizer& optimizer, Update& update,
              ValueId squares) {
  const std::string name = builder.graph().state(update.pair.weight).name;
  // Keras makes a matrix of reads where it clips by the norm of all gradients.
  if (optimizer.clip == "global") update.reads.reset();
  ValueId& clipped = update.reads ? update.reads->gradients : update.pair.gradient;
  std::vector<ValueId> operands = {clipped};
  if (squares.valid()) operands.push_back(squares);
  clipped = builder.call("clip_gradient", name + "/clip", operands,
                         {{"kind", optimizer.clip}, {"limit", optimizer.clip_limit}});
  if (!update.reads) return;
  update.pair.gradient = add_reads(builder, name + "/clipped", *update.reads, "gradients");
}

void clip_gradients(graph::GraphBuilder& builder, const Optimizer& optimizer,
                    std::vector<Update>& updates) {
  if (optimizer.clip.empty() || updates.empty()) return;
  std::vector<ValueId> squares(updates.size());
  ValueId total;
  for (size_t i = 0; i < updates.size() && optimizer.clip != "value"; ++i) {
    const std::string name = builder.graph().state(updates[i].pair.weight).name;
    squares[i] = sum_of_squares(builder, updates[i], name);
    total = total.valid() ? builder.call("add", "optimizer/gradient_squares", {total, squares[i]})
                          : squares[i];
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    clip_one(builder, optimizer, updates[i], optimizer.clip == "global" ? total : squares[i]);
  }
}

// Keeps what Keras keeps for Nadam: Π beta_1 (1 − ½ 0.96^t). Updates find it from the number of the
// step (ops/training/adaptive_optimizers.cpp); it is there for who goes on in Keras. It stays as it
// is where there is nothing to update.
void add_momentum_product(graph::GraphBuilder& builder, const Optimizer& optimizer,
                          ValueId iteration, bool idle, FiniteSteps& steps) {
  constexpr double kDecay = 0.96;
  const std::string name(kMomentumProductState);
  const double beta = optimizer.attributes.get_double("beta_1");
  const graph::StateId product = declare_scalar(builder, kMomentumProductState, DType::kFloat32,
                                                graph::StateRole::kOptimizerSlot);
  const ValueId decayed = builder.call("scheduled_rate", name + "/decay", {iteration},
                                       {{"kind", "exponential"},
                                        {"initial", kDecay},
                                        {"steps", 1.0},
                                        {"rate", kDecay},
                                        {"staircase", false}});
  const ValueId momentum =
      builder.call("scale_shift", name + "/momentum", {decayed},
                   {{"scale", idle ? 0.0 : -0.5 * beta}, {"offset", idle ? 1.0 : beta}});
  const ValueId before = builder.read(product);
  steps.write(product, builder.call("multiply", name + "/next", {before, momentum}), before);
}

}  // namespace

std::string slot_state(std::string_view weight, std::string_view slot) {
  return "optimizer/" + std::string(weight) + "/" + std::string(slot);
}

std::vector<TensorInfo> slots_of(const Optimizer& optimizer, const TensorInfo& weight) {
  const std::vector<int64_t>& dims = weight.shape;
  std::vector<TensorInfo> slots;
  if (optimizer.muon && takes(*optimizer.muon, weight.name, dims.size())) {
    slots.push_back({"momentum", weight.dtype, dims});
  } else {
    for (const std::string& name : optimizer.slots) slots.push_back({name, weight.dtype, dims});
  }
  if (optimizer.class_name == "Adafactor") {
    // Means of the last dimension, and of the one before; a vector has none, and Keras a scalar.
    const auto without = [&](size_t back) {
      std::vector<int64_t> shape = dims;
      if (dims.size() < 2) return std::vector<int64_t>();
      shape.erase(shape.end() - static_cast<ptrdiff_t>(back));
      return shape;
    };
    slots[0].shape = without(1);
    slots[1].shape = without(2);
  }
  if (optimizer.averages) slots.push_back({std::string(kAverageSlot), weight.dtype, dims});
  return slots;
}

double initial_slot_value(const Optimizer& optimizer, std::string_view state) {
  if (state == kMomentumProductState) return 1.0;
  if (state.starts_with(kLossScaleStates)) {
    return state.ends_with("/dynamic_scale") ? optimizer.loss_scale->initial : 0.0;
  }
  return state.ends_with("/accumulator") ? optimizer.accumulator : 0.0;
}

std::vector<std::string> optimizer_class_names() {
  std::vector<std::string> names(kClasses.begin(), kClasses.end());
  names.emplace_back(kLossScaleClass);
  std::ranges::sort(names);
  return names;
}

Optimizer read_optimizer(const Config& config, std::vector<Option>* list) {
  const Spelling given = read_object(config, "optimizer");
  Optimizer optimizer;
  if (is_loss_scale(given.name)) {
    OptionReader own(given.arguments, "loss_scale_optimizer", list);
    const LossScale scale = read_loss_scale(own);
    optimizer = read_optimizer(inner_optimizer(given.arguments));
    if (optimizer.loss_scale) own.refuse("inner_optimizer", "one without a scale", given.name);
    if (optimizer.class_name == "Nadam") {
      own.refuse("inner_optimizer", "another one", optimizer.class_name,
                 "Keras does not keep its product of momenta there: take Adam, or Nadam alone.");
    }
    optimizer.loss_scale = scale;
    own.ignore("inner_optimizer");
    // Keras 3.5, say, writes these of every optimizer; what it is given there it does not use.
    for (const char* option : {"weight_decay", "clipnorm", "clipvalue", "global_clipnorm"}) {
      if (own.is_null(option)) own.ignore(option);
    }
    if (optimizer.averages) {
      own.refuse("inner_optimizer", "one without use_ema", given.name,
                 "Average the weights without a loss scale.");
    }
    Optimizer around;
    read_common(own, around);
    if (around.averages) own.refuse("use_ema", "false", true, "Leave it out.");
    own.finish();
    return optimizer;
  }
  optimizer.class_name = class_of(given.name);
  OptionReader options(given.arguments, lower(optimizer.class_name), list);
  read_learning_rate(options, given.arguments, default_rate(optimizer.class_name), optimizer);
  read_clipping(options, optimizer);
  std::optional<double> decay = options.optional_number("weight_decay", 0, kNoBound);
  if (optimizer.class_name == "AdamW" && !decay) decay = 0.004;
  if (optimizer.class_name == "Muon" && !decay && !options.is_null("weight_decay")) decay = 0.004;
  if (decay) optimizer.attributes.set("weight_decay", *decay);
  optimizer.op = lower(optimizer.class_name);
  for (const OwnOptions& own : kOwnOptions) {
    if (own.class_name == optimizer.class_name) own.read(options, optimizer);
  }
  read_common(options, optimizer);
  options.finish();
  return optimizer;
}

void add_updates(graph::GraphBuilder& builder, const Optimizer& optimizer,
                 const std::vector<WeightGradient>& gradients) {
  builder.set_stage(graph::Stage::kUpdate);
  // The rate first: that is where it stood before there were schedules.
  graph::StateId rate_state;
  if (!optimizer.schedule) {
    rate_state = declare_scalar(builder, kLearningRateState, DType::kFloat32,
                                graph::StateRole::kHyperparameter);
  }
  const graph::StateId counter =
      declare_scalar(builder, kIterationState, DType::kInt64, graph::StateRole::kCounter);
  const ValueId rate = optimizer.schedule ? ValueId() : builder.read(rate_state);
  const ValueId iteration = builder.read(counter);
  const ValueId current = optimizer.schedule ? builder.call("scheduled_rate", kLearningRateState,
                                                            {iteration}, *optimizer.schedule)
                                             : rate;
  std::vector<Update> updates = find_updates(builder, optimizer, gradients);
  FiniteSteps steps(builder, optimizer.loss_scale,
                    optimizer.loss_scale ? sum_of_all_squares(builder, updates) : ValueId());
  clip_gradients(builder, optimizer, updates);
  const StepNumbers numbers = step_numbers(builder, optimizer, current, iteration);
  for (const Update& update : updates) add_update(builder, optimizer, update, numbers, steps);
  if (optimizer.class_name == "Nadam") {
    add_momentum_product(builder, optimizer, iteration, updates.empty(), steps);
  }
  steps.write(counter,
              builder.call("increment", std::string(kIterationState) + "/next", {iteration}),
              iteration);
}

void add_idle_slots(graph::GraphBuilder& builder, const Optimizer& optimizer,
                    const StateVariable& weight) {
  builder.set_stage(graph::Stage::kUpdate);
  builder.set_layer(weight.layer);
  for (const TensorInfo& slot : slots_of(optimizer, weight)) {
    const graph::StateId state = declare_slot(builder, weight, slot);
    const ValueId before = builder.read(state);
    if (slot.name == kAverageSlot) {
      const graph::StateId counter =
          declare_scalar(builder, kIterationState, DType::kInt64, graph::StateRole::kCounter);
      const ValueId value = builder.read(builder.state(weight));
      builder.write(state, add_average(builder, *optimizer.averages, weight.name, value, before,
                                       builder.read(counter))
                               .average);
      continue;
    }
    builder.write(state, builder.call("scale_shift", slot_state(weight.name, slot.name) + "/same",
                                      {before}, {{"scale", 1.0}, {"offset", 0.0}}));
  }
  builder.set_layer("");
}

std::optional<graph::Graph> slots_graph(const Optimizer& optimizer,
                                        const std::vector<StateVariable>& states) {
  if (!optimizer.starts_at_weight) return std::nullopt;
  graph::GraphBuilder builder(ops::registry());
  builder.set_stage(graph::Stage::kUpdate);
  for (const StateVariable& slot : states) {
    const std::string_view name = slot.name;
    if (slot.role != graph::StateRole::kOptimizerSlot || !name.ends_with("/momentum")) continue;
    const auto weight = std::ranges::find_if(
        states, [&](const StateVariable& s) { return slot_state(s.name, "momentum") == name; });
    if (weight == states.end()) continue;
    builder.set_layer(slot.layer);
    const ValueId value = builder.read(builder.state(*weight));
    builder.write(builder.state(slot), builder.call("scale_shift", slot.name + "/first", {value},
                                                    {{"scale", 1.0}, {"offset", 0.0}}));
  }
  builder.set_layer("");
  return builder.finish();
}

std::vector<TensorInfo> optimizer_states(const Optimizer& optimizer,
                                         const std::vector<TensorInfo>& weights) {
  std::vector<TensorInfo> states;
  if (optimizer.loss_scale) states = loss_scale_states();
  states.push_back({std::string(kIterationState), DType::kInt64, {}});
  const auto add = [&](const TensorInfo& weight, const TensorInfo& slot) {
    states.push_back({slot_state(weight.name, slot.name), DType::kFloat32, slot.shape});
  };
  if (!optimizer.schedule) {
    states.push_back({std::string(kLearningRateState), DType::kFloat32, {}});
  }
  if (optimizer.averages) {
    for (const TensorInfo& weight : weights) add(weight, slots_of(optimizer, weight).back());
  }
  // Keras adds Adam's pair for each weight (and those of Adadelta, Adamax, Ftrl, Lamb, Nadam), and
  // every further slot in a round of its own; Adafactor's and Muon's stand weight by weight.
  const bool by_weight = optimizer.muon || optimizer.class_name == "Adafactor";
  std::vector<std::string> order = optimizer.slots;
  const bool rms = optimizer.class_name == "RMSprop";
  if (rms && order.size() == 3) order = {"velocity", "momentum", "average_gradient"};
  for (size_t first = 0; first < order.size();) {
    size_t count = by_weight ? order.size() : 1;
    if (!by_weight && !rms && first == 0 && order.size() >= 2) count = 2;
    for (const TensorInfo& weight : weights) {
      const std::vector<TensorInfo> slots = slots_of(optimizer, weight);
      for (size_t i = first; i < first + count; ++i) {
        const auto slot = std::ranges::find(slots, order[i], &TensorInfo::name);
        if (slot != slots.end()) add(weight, *slot);
      }
    }
    first += count;
  }
  if (optimizer.class_name == "Nadam") {
    states.push_back({std::string(kMomentumProductState), DType::kFloat32, {}});
  }
  return states;
}

}  // namespace plimsoll::layers
