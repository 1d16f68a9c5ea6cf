#include "layers/training/programs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "graph/autodiff.h"
#include "graph/prune.h"
#include "graph/verify.h"
#include "layers/config/regularizers.h"
#include "layers/training/accumulation.h"
#include "layers/training/initialize_program.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

using graph::GraphBuilder;
using graph::Stage;

// A metric under the name that logs have for it.
struct NamedMetric {
  std::string name;
  Metric metric;
  bool weighted = false;  // by sample weights
  // Whose state it counts in: its own name, or that of the first of several uses of one object.
  std::string state{};
};

// What compile() says, resolved against one output of the model.
struct OutputPlan {
  const ModelPort* port = nullptr;
  Loss loss{};
  double loss_weight = 1;
  std::vector<NamedMetric> metrics{};
};

const Config* entry_for(const std::vector<Config>& entries, size_t output) {
  if (entries.empty()) return nullptr;
  const Config& entry = entries.size() == 1 ? entries[0] : entries[output];
  return entry.is_null() ? nullptr : &entry;
}

void check_count(const Model& model, size_t received, const std::string& what) {
  if (received <= 1 || received == model.outputs().size()) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("[{}] expected one {} for all outputs, or one for each of {}, received {}.",
                  model.name(), what, model.outputs().size(), received));
}

// `wish`, or wish_1, wish_2, … as Keras counts.
std::string unique_metric_name(std::vector<std::string>& taken, const std::string& wish) {
  std::string name = wish;
  for (int i = 1; std::find(taken.begin(), taken.end(), name) != taken.end(); ++i) {
    name = fmt::format("{}_{}", wish, i);
  }
  taken.push_back(name);
  return name;
}

// keras.src.trainers.compile_utils.CompileMetrics.result: a weighted metric that another has the
// name of is called weighted_….
std::string weighted_metric_name(std::vector<std::string>& taken, const std::string& port,
                                 const std::string& name) {
  const std::string prefix = port.empty() ? "" : port + "_";
  const bool known = std::find(taken.begin(), taken.end(), prefix + name) != taken.end();
  return unique_metric_name(taken, prefix + (known ? "weighted_" : "") + name);
}

// Outputs of one layer have its name, and their losses would have one name: the last has it, as in
// Keras.
bool names_its_loss(std::span<const OutputPlan> plans, size_t index) {
  const std::string& name = plans[index].port->name;
  return std::ranges::none_of(plans.subspan(index + 1),
                              [&](const OutputPlan& later) { return later.port->name == name; });
}

// The metrics of all outputs, in Keras's order of names. What cannot be computed is refused, or
// said in `left_out`.
class MetricReader {
 public:
  MetricReader(const Model& model, const CompileOptions& compile,
               std::vector<std::string>* left_out)
      : several_(model.outputs().size() > 1),
        compile_(compile),
        left_out_(left_out),
        outputs_(model.outputs()) {}

  void read(std::vector<OutputPlan>& plans) {
    for (const bool weighted : {false, true}) {
      const auto& lists = weighted ? compile_.weighted_metrics : compile_.metrics;
      for (OutputPlan& plan : plans) {
        for (const Config& config : list_of(lists, *plan.port)) add(config, weighted, plan);
      }
    }
  }

 private:
  std::vector<Config> list_of(const std::vector<std::vector<Config>>& lists,
                              const ModelPort& port) const {
    if (lists.empty()) return {};
    if (lists.size() == 1) return lists[0];
    return lists[static_cast<size_t>(&port - outputs_.data())];
  }

  void add(const Config& config, bool weighted, OutputPlan& plan) {
    const std::string port = several_ ? plan.port->name : "";
    try {
      Metric metric = read_metric(config, plan.loss, plan.port->type);
      if (weighted && compile_.sample_weights) check_weighted(metric, plan.port->type);
      const std::string plain = port.empty() ? metric.name : port + "_" + metric.name;
      const std::string name = weighted ? weighted_metric_name(names_, port, metric.name)
                                        : unique_metric_name(names_, plain);
      plan.metrics.push_back({name, std::move(metric), weighted, owner_of(config, name)});
    } catch (const Error& error) {
      if (!compile_.skips_metrics || error.kind() != ErrorKind::kModel) throw;
      if (left_out_ == nullptr) return;
      const std::string of = several_ ? " of " + plan.port->name : "";
      left_out_->push_back("metric " + metric_title(config) + of +
                           " is left out: " + error.message());
    }
  }

  // Keras has one state for one object, wherever it is given; files number objects.
  std::string owner_of(const Config& config, const std::string& name) {
    const Config* number = config.is_object() ? config.find(kSharedObject) : nullptr;
    const Config* made_with = config.is_object() ? config.find("config") : nullptr;
    const bool is_object = made_with != nullptr && made_with->is_object();  // and no function
    if (number == nullptr || number->is_null() || !is_object) return name;
    return owners_.try_emplace(number->to_json(), name).first->second;
  }

  bool several_;
  std::map<std::string, std::string> owners_;  // by the number of an object
  const CompileOptions& compile_;
  std::vector<std::string>* left_out_;
  const std::vector<ModelPort>& outputs_;
  std::vector<std::string> names_ = {"loss"};
};

std::vector<OutputPlan> plan_outputs(const Model& model, const CompileOptions& compile,
                                     std::vector<std::string>* left_out = nullptr) {
  if (!compile.unread_loss.empty()) throw Error(ErrorKind::kModel, compile.unread_loss);
  check_count(model, compile.losses.size(), "loss");
  check_count(model, compile.loss_weights.size(), "weight of losses");
  check_count(model, compile.metrics.size(), "list of metrics");
  check_count(model, compile.weighted_metrics.size(), "list of weighted metrics");
  std::vector<OutputPlan> plans;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const ModelPort& port = model.outputs()[i];
    const Config* loss = entry_for(compile.losses, i);
    if (loss == nullptr) continue;
    OutputPlan plan{.port = &port};
    with_context("while reading the loss of " + port.name,
                 [&] { plan.loss = read_loss(*loss, port.type); });
    if (!compile.loss_weights.empty()) {
      plan.loss_weight = compile.loss_weights[compile.loss_weights.size() == 1 ? 0 : i];
    }
    plans.push_back(std::move(plan));
  }
  if (plans.empty()) {
    throw Error(ErrorKind::kConfig, "[" + model.name() +
                                        "] expected a loss, received none. Name one, such as "
                                        "--loss sparse_categorical_crossentropy.");
  }
  MetricReader(model, compile, left_out).read(plans);
  return plans;
}

class StepBuilder {
 public:
  StepBuilder(const Model& model, const std::vector<OutputPlan>& plans,
              const CompileOptions& compile, bool sample_weights, bool training,
              int64_t carried_rows, int64_t batch_norm_group = 0)
      : model_(model),
        plans_(plans),
        compile_(compile),
        sample_weights_(sample_weights),
        builder_(ops::registry()),
        expansion_(builder_, training, compile.precision, batch_norm_group) {
    expansion_.set_carried_rows(carried_rows);
  }

  // Forward, and predictions as outputs.
  graph::Graph predict() {
    add_forward();
    for (const ModelPort& port : model_.outputs()) builder_.output(value_of(port.tensor));
    builder_.set_stage(Stage::kUpdate);
    expansion_.write_statistics();
    return finish();
  }

  // Forward, loss and metrics; with an optimizer also backward and updates, or sums of gradients
  // for a program that updates.
  graph::Graph step(const Optimizer* optimizer, bool accumulates) {
    add_forward();
    add_targets();
    const ValueId loss = add_losses();
    builder_.output(loss);
    add_metrics(loss);
    if (optimizer != nullptr) add_training(*optimizer, loss, accumulates);
    builder_.set_stage(Stage::kUpdate);
    expansion_.write_statistics();
    return finish();
  }

  const Constants& constants() const { return expansion_.constants(); }
  const std::vector<ProgramInput>& inputs() const { return inputs_; }

 private:
  ValueId feed(InputRole role, const std::string& name, const std::string& value_name,
               const ValueType& type, int64_t class_count = 0) {
    inputs_.push_back({role, name, type.dtype, type.shape, class_count, {}, {}});
    return builder_.input(value_name, type);
  }

  void add_forward() {
    std::vector<ValueId> features;
    for (const ModelPort& port : model_.inputs()) {
      features.push_back(feed(InputRole::kFeatures, port.name, port.name, port.type));
    }
    values_ = expand_model(model_, expansion_, features);
  }

  // In float32: losses, metrics and whoever asked for predictions see no other.
  ValueId value_of(Tensor tensor) { return expansion_.as_float32(values_.value(tensor)); }

  void add_targets() {
    const auto given = [](const std::vector<std::vector<int64_t>>& shapes, size_t i) {
      return i < shapes.size() ? shapes[i] : std::vector<int64_t>();
    };
    for (const OutputPlan& plan : plans_) {
      const ValueType& output = plan.port->type;
      const int64_t classes = class_count(plan.loss, output);
      const std::vector<int64_t> shape = given(compile_.target_shapes, targets_.size());
      targets_.push_back(feed(InputRole::kTarget, plan.port->name, plan.port->name + "/target",
                              target_type(plan.loss, output, shape), classes));
      inputs_.back().ignored_class = plan.loss.ignored;
    }
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (!sample_weights_) {
        weights_.push_back(ValueId());
        continue;
      }
      const ModelPort& port = *plans_[i].port;
      weights_.push_back(feed(InputRole::kSampleWeight, port.name, port.name + "/sample_weight",
                              weight_type(port.name, rows_type(plans_[i].loss, port.type),
                                          given(compile_.weight_shapes, i))));
    }
  }

  ValueId add_losses() {
    ValueId total;
    for (size_t i = 0; i < plans_.size(); ++i) {
      const ValueId loss = add_loss(expansion_, plans_[i].loss, plans_[i].port->name,
                                    value_of(plans_[i].port->tensor), targets_[i],
                                    {weights_[i], values_.mask(plans_[i].port->tensor)});
      losses_.push_back(loss);
      const ValueId part = weigh(loss, plans_[i]);
      total = total.valid() ? builder_.call("add", "loss/total", {total, part}) : part;
    }
    for (const ValueId penalty : expansion_.activity_penalties()) {
      total = builder_.call("add", "loss/penalized", {total, penalty});
    }
    for (const ModelWeight& weight : model_.all_weights()) {
      if (!weight.trainable || weight.weight.regularizer.is_null()) continue;
      const graph::StateId state = find_state(builder_.graph(), weight.name);
      if (!state.valid()) continue;
      const ValueId penalty =
          add_penalty(builder_, weight.weight.regularizer, expansion_.value_of(state), weight.name);
      if (penalty.valid()) total = builder_.call("add", "loss/penalized", {total, penalty});
    }
    return total;
  }

  ValueId weigh(ValueId loss, const OutputPlan& plan) {
    if (plan.loss_weight == 1) return loss;
    return builder_.call("scale_shift", plan.port->name + "/weighted_loss", {loss},
                         {{"scale", plan.loss_weight}, {"offset", 0.0}});
  }

  void add_metrics(ValueId loss) {
    add_loss_tracker(builder_, "loss", loss, LossMean::kOfSamples);
    for (const bool weighted : {false, true}) {
      for (const OutputPlan& plan : plans_) {
        for (const NamedMetric& named : plan.metrics) {
          if (named.weighted == weighted && named.state == named.name) add_counts(named);
        }
      }
    }
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (plans_.size() > 1 && names_its_loss(plans_, i)) {
        add_loss_tracker(builder_, plans_[i].port->name + "_loss", losses_[i],
                         LossMean::kOfBatches);
      }
    }
  }

  // All that is counted in the state of a metric, in Keras's order.
  void add_counts(const NamedMetric& owner) {
    std::vector<MetricSource> sources;
    for (const bool weighted : {false, true}) {
      for (size_t i = 0; i < plans_.size(); ++i) {
        for (const NamedMetric& named : plans_[i].metrics) {
          if (named.weighted != weighted || named.state != owner.name) continue;
          const Tensor output = plans_[i].port->tensor;
          sources.push_back({value_of(output), targets_[i],
                             LossWeights{.samples = weighted ? weights_[i] : ValueId(),
                                         .mask = values_.mask(output)}});
        }
      }
    }
    add_metric(expansion_, owner.metric, owner.name, sources);
  }

  void add_training(const Optimizer& optimizer, ValueId loss, bool accumulates) {
    std::vector<WeightGradient> updates;
    std::vector<ValueId> weights;
    for (const ModelWeight& weight : model_.all_weights()) {
      const graph::StateId state = find_state(builder_.graph(), weight.name);
      if (!weight.trainable || !state.valid()) continue;
      weights.push_back(expansion_.value_of(state));
      updates.push_back({state, ValueId(), weight.weight.constraint, weights.back()});
    }
    const std::vector<ValueId> gradients = add_gradients(builder_, loss, weights);
    for (size_t i = 0; i < updates.size(); ++i) updates[i].gradient = gradients[i];
    std::erase_if(updates, [](const WeightGradient& w) { return !w.gradient.valid(); });
    if (accumulates) {
      refuse_replaced();
      add_accumulation(builder_, updates);
    } else {
      add_updates(builder_, optimizer, updates);
      add_idle(optimizer, updates);
      write_replaced(updates);
    }
  }

  // Parts of a batch would each change them.
  void refuse_replaced() const {
    if (expansion_.replaced().empty()) return;
    throw Error(ErrorKind::kModel, "[" + model_.name() +
                                       "] expected weights that a step's update alone changes, "
                                       "received " +
                                       expansion_.replaced().begin()->first +
                                       ", which a call of its layer changes. Train it by fit.");
  }

  // What calls put in the place of weights that no update writes.
  void write_replaced(const std::vector<WeightGradient>& updates) {
    for (const auto& [name, value] : expansion_.replaced()) {
      const graph::StateId state = find_state(builder_.graph(), name);
      if (std::ranges::find(updates, state, &WeightGradient::weight) != updates.end()) continue;
      builder_.set_stage(Stage::kUpdate);
      builder_.write(state, value);
    }
  }

  // The slots of weights that are trained but have no gradient.
  void add_idle(const Optimizer& optimizer, const std::vector<WeightGradient>& updates) {
    std::set<std::string> updated;
    for (const WeightGradient& update : updates) {
      updated.insert(builder_.graph().state(update.weight).name);
    }
    for (const ModelWeight& weight : model_.all_weights()) {
      if (!weight.trainable || updated.contains(weight.name)) continue;
      add_idle_slots(builder_, optimizer,
                     state_variable(model_.layer(weight.layer), weight.weight));
    }
  }

  graph::Graph finish() {
    graph::Graph graph = prune(builder_.finish());
    const std::optional<std::string> wrong = verify(graph);
    PLIMSOLL_CHECK(!wrong, "a program of " + model_.name() + " is wrong: " + wrong.value_or(""));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].bounds = index_bounds(graph, static_cast<int>(i));
    }
    return graph;
  }

  const Model& model_;
  const std::vector<OutputPlan>& plans_;
  const CompileOptions& compile_;
  bool sample_weights_;
  GraphBuilder builder_;
  Expansion expansion_;
  std::vector<ProgramInput> inputs_;
  ModelValues values_;  // of all calls
  std::vector<ValueId> targets_;
  std::vector<ValueId> weights_;  // invalid without sample weights
  std::vector<ValueId> losses_;
};

// The loss first, then metrics, then the losses of single outputs where there are several.
std::vector<MetricState> metric_states(const std::vector<OutputPlan>& plans) {
  std::vector<MetricState> states;
  const auto add = [&](const std::string& name, const std::string& state, const Metric& metric) {
    MetricState told{name, {}, metric.result};
    for (const std::string& part : metric_parts(metric)) {
      told.states.push_back(metric_state(state, part));
    }
    states.push_back(std::move(told));
  };
  add("loss", "loss", {});
  for (const bool weighted : {false, true}) {
    for (const OutputPlan& plan : plans) {
      for (const NamedMetric& named : plan.metrics) {
        if (named.weighted == weighted) add(named.name, named.state, named.metric);
      }
    }
  }
  if (plans.size() > 1) {
    for (size_t i = 0; i < plans.size(); ++i) {
      const std::string name = plans[i].port->name + "_loss";
      if (names_its_loss(plans, i)) add(name, name, {});
    }
  }
  return states;
}

void add_programs(graph::ProgramSet& set, const std::string& name, const graph::Graph& graph,
                  int64_t batch, int64_t tail) {
  if (batch > 0) set.programs.push_back({name, graph, batch});
  if (tail > 0) set.programs.push_back({name + "_tail", graph, tail});
}

[[noreturn]] void refuse_stateful(const Model& model, const std::string& expected,
                                  const std::string& received, std::string_view next) {
  throw Error(ErrorKind::kModel, "[" + model.stateful_layer() + "] expected " + expected +
                                     ", received " + received + ". " + std::string(next));
}

// Rows that stateful layers keep, the batch that the model's Input says; 0: there are no such
// layers.
int64_t carried_rows(const Model& model, const CompileOptions& compile) {
  if (model.stateful_layer().empty()) return 0;
  if (model.fixed_batch() == 0) {
    refuse_stateful(model, "an input with a batch size, as stateful=True needs", "none",
                    "Give the model's Input a batch_shape.");
  }
  if (compile.accumulates) {
    refuse_stateful(model, "whole steps of a stateful layer", "parts of a batch",
                    "Train it by fit.");
  }
  return model.fixed_batch();
}

}  // namespace

int64_t batch_norm_group(const CompileOptions& compile, const BatchSizes& batches) {
  const int64_t batch = std::max(batches.train, batches.train_tail);
  return compile.batch_norm_group < batch ? compile.batch_norm_group : 0;
}

void check_stateful(const Model& model, const BatchSizes& batches) {
  if (model.stateful_layer().empty()) return;
  const int64_t rows = model.fixed_batch();
  for (const int64_t size : {batches.train, batches.train_tail, batches.evaluate,
                             batches.evaluate_tail, batches.predict, batches.predict_tail}) {
    if (size == 0 || size == rows || rows == 0) continue;
    refuse_stateful(model, fmt::format("batches of {} samples, as the model's Input says", rows),
                    fmt::format("one of {}", size),
                    "A stateful layer keeps a state for each place in the batch: name that batch "
                    "size, and give a multiple of it as data.");
  }
}

BuiltPrograms build_programs(const Model& model, const CompileOptions& compile,
                             const BatchSizes& batches) {
  model.check_complete();
  const int64_t carried = carried_rows(model, compile);
  BuiltPrograms built;
  const bool trains = batches.train > 0 || batches.train_tail > 0;
  const bool evaluates = batches.evaluate > 0 || batches.evaluate_tail > 0;
  std::vector<OutputPlan> plans;
  if (trains || evaluates) {
    plans = plan_outputs(model, compile);
    built.metrics = metric_states(plans);
  }
  std::optional<Optimizer> optimizer;
  Constants constants;
  if (trains) {
    if (compile.optimizer.is_null()) {
      throw Error(ErrorKind::kConfig, "[" + model.name() +
                                          "] expected an optimizer, received none. Name one, such "
                                          "as --optimizer adam.");
    }
    optimizer = read_optimizer(compile.optimizer);
    StepBuilder step(model, plans, compile, compile.sample_weights, true, carried,
                     batch_norm_group(compile, batches));
    const graph::Graph graph = step.step(&*optimizer, compile.accumulates);
    add_programs(built.set, "train", graph, batches.train, batches.train_tail);
    built.train_inputs = step.inputs();
    constants.insert(step.constants().begin(), step.constants().end());
    if (compile.accumulates) {
      const graph::Graph apply = apply_graph(model, *optimizer, graph::states_of(built.set));
      built.set.programs.push_back({"apply", apply, 1});
    }
    if (!optimizer->schedule) built.learning_rate = kLearningRateState;
    if (auto slots = slots_graph(*optimizer, graph::states_of(built.set))) {
      built.set.programs.push_back({"slots", std::move(*slots), 1});
    }
    if (auto averages = averages_graph(graph::states_of(built.set))) {
      built.set.programs.push_back({"averages", std::move(*averages), 1});
    }
  }
  if (evaluates) {
    StepBuilder step(model, plans, compile, compile.sample_weights, false, carried);
    const graph::Graph graph = step.step(nullptr, false);
    constants.insert(step.constants().begin(), step.constants().end());
    add_programs(built.set, "evaluate", graph, batches.evaluate, batches.evaluate_tail);
    built.train_inputs = step.inputs();
  }
  if (batches.predict > 0 || batches.predict_tail > 0) {
    StepBuilder step(model, plans, compile, false, false, carried);
    const graph::Graph graph = step.predict();
    constants.insert(step.constants().begin(), step.constants().end());
    add_programs(built.set, "predict", graph, batches.predict, batches.predict_tail);
    built.predict_inputs = step.inputs();
  }
  built.set.programs.push_back(
      {"initialize", initialize_graph(model, optimizer, constants, graph::states_of(built.set)),
       1});
  const std::vector<graph::StateVariable> states = graph::states_of(built.set);
  const auto is_rate = [&](const graph::StateVariable& s) { return s.name == built.learning_rate; };
  if (std::ranges::none_of(states, is_rate)) built.learning_rate.clear();  // nothing is trained
  return built;
}

std::vector<std::string> left_out_metrics(const Model& model, const CompileOptions& compile) {
  std::vector<std::string> left_out;
  for (const char* key : {"metrics", "weighted_metrics"}) {
    const Config* unread = compile.unread.find(key);
    if (unread == nullptr) continue;
    left_out.push_back(std::string(key) +
                       " are left out: expected metrics for outputs of the model");
  }
  plan_outputs(model, compile, &left_out);
  return left_out;
}

std::string precision_note(const Model& model, Precision precision) {
  if (precision != Precision::kOfLayers || !model.asks_for_float16()) return "";
  return "layers of mixed_float16 are computed in float32: nothing is rounded to float16, and no "
         "memory is saved by it; precision bf16 saves as much";
}

std::vector<std::string> optimizer_variables(const Model& model, const Config& optimizer) {
  std::vector<TensorInfo> weights;
  for (const ModelWeight& weight : model.all_weights()) {
    if (weight.trainable) weights.push_back({weight.name, DType::kFloat32, weight.weight.shape});
  }
  std::vector<std::string> names;
  for (TensorInfo& state : optimizer_states(read_optimizer(optimizer), weights)) {
    names.push_back(std::move(state.name));
  }
  return names;
}

}  // namespace plimsoll::layers
