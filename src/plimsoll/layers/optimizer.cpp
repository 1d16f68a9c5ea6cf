#include "layers/optimizer.h"

#include <array>

#include "base/error.h"
#include "layers/config_reader.h"
#include "layers/programs.h"
#include "layers/spec.h"

namespace plimsoll::layers {
namespace {

constexpr std::array kOptimizers = {
    KnownName{"SGD", "sgd"},
    KnownName{"Adam", "adam"},
    KnownName{"AdamW", "adamw"},
    KnownName{"RMSprop", "rmsprop"},
};

constexpr double kAdamWDecay = 0.004;  // Keras's default

// Arguments that every optimizer of Keras has and that are not built yet.
void refuse_common(ConfigReader& reader) {
  const std::string_view later = "Leave it out: clipping comes with a later version.";
  for (const char* key : {"clipnorm", "global_clipnorm", "clipvalue"}) {
    reader.refuse_unless_empty(key, later);
  }
  reader.refuse_unless_empty("use_ema", "Leave it out: averages of weights are not supported.");
  for (const char* key : {"ema_momentum", "ema_overwrite_frequency"}) {
    reader.value(key, std::string_view(key) == "ema_momentum" ? Config(0.99) : Config());
  }
  reader.refuse_unless_empty("loss_scale_factor", "Leave it out: float32 needs no loss scale.");
  reader.refuse_unless_empty("gradient_accumulation_steps",
                             "Use a larger --batch: it is split to fit the memory limit.");
}

double read_learning_rate(ConfigReader& reader, double fallback) {
  const Config value = reader.value("learning_rate", Config(fallback));
  if (!value.is_number()) {
    reader.refuse("learning_rate", "a number", value.to_json(),
                  "Schedules come with a later version: pass a fixed rate.");
  }
  return value.as_double();
}

}  // namespace

Optimizer::Optimizer(const Config& value) {
  const Spec spec = read_spec(value, "optimizer", kOptimizers);
  class_name_ = spec.class_name;
  ConfigReader reader(class_name_, spec.config);
  const bool sgd = class_name_ == "SGD";
  reader.text("name", sgd ? "SGD" : class_name_ == "RMSprop" ? "rmsprop" : "adam");
  learning_rate_ = read_learning_rate(reader, sgd ? 0.01 : 0.001);
  const double decay =
      reader.optional_number("weight_decay").value_or(class_name_ == "AdamW" ? kAdamWDecay : 0.0);
  if (decay != 0.0) {
    reader.complete("weight_decay", Config(decay));
    attributes_.set("weight_decay", decay);
  }
  refuse_common(reader);
  if (sgd) {
    const double momentum = reader.number("momentum", 0.0);
    const bool nesterov = reader.flag("nesterov", false);
    op_ = "sgd";
    if (momentum != 0.0) {
      op_ = "sgd_momentum";
      slots_ = {"momentum"};
      attributes_.set("momentum", momentum);
      attributes_.set("nesterov", nesterov);
    }
  } else if (class_name_ == "RMSprop") {
    attributes_.set("rho", reader.number("rho", 0.9));
    const double momentum = reader.number("momentum", 0.0);
    attributes_.set("epsilon", reader.number("epsilon", 1e-7));
    const bool centered = reader.flag("centered", false);
    op_ = "rmsprop";
    slots_ = {"velocity"};
    operands_ = slots_;
    if (centered) {
      op_ += "_centered";
      operands_.push_back("average_gradient");
    }
    if (momentum > 0) {
      op_ += "_momentum";
      attributes_.set("momentum", momentum);
      slots_.push_back("momentum");
      operands_.push_back("momentum");
    }
    if (centered) slots_.push_back("average_gradient");
  } else {
    wants_iterations_ = true;
    attributes_.set("beta_1", reader.number("beta_1", 0.9));
    attributes_.set("beta_2", reader.number("beta_2", 0.999));
    attributes_.set("epsilon", reader.number("epsilon", 1e-7));
    const bool amsgrad = reader.flag("amsgrad", false);
    op_ = amsgrad ? "adam_amsgrad" : "adam";
    slots_ = {"momentum", "velocity"};
    if (amsgrad) slots_.push_back("velocity_hat");
  }
  // Keras makes Adam's two moments in one list, everything else in lists of their own.
  groups_ = wants_iterations_ ? std::vector<size_t>{2} : std::vector<size_t>{};
  for (size_t made = wants_iterations_ ? 2 : 0; made < slots_.size(); ++made) groups_.push_back(1);
  if (operands_.empty()) operands_ = slots_;
  config_ = reader.finish();
}

std::vector<std::string> Optimizer::variable_names(const std::vector<std::string>& weights) const {
  std::vector<std::string> names = {std::string(kIterations), std::string(kLearningRate)};
  size_t first = 0;
  for (const size_t group : groups_) {
    for (const std::string& weight : weights) {
      for (size_t i = first; i < first + group; ++i) {
        names.push_back("optimizer/" + weight + "/" + slots_[i]);
      }
    }
    first += group;
  }
  return names;
}

graph::StateVariable Optimizer::slot(const graph::StateVariable& weight,
                                     const std::string& name) const {
  graph::StateVariable variable;
  variable.name = "optimizer/" + weight.name + "/" + name;
  variable.type = weight.type;
  variable.role = graph::StateRole::kOptimizerSlot;
  variable.layer = weight.layer;
  return variable;
}

void Optimizer::add_initial(graph::GraphBuilder& builder,
                            const std::vector<graph::StateVariable>& weights) const {
  builder.set_layer("");
  builder.set_stage(graph::Stage::kUpdate);
  const auto fill = [&](graph::StateVariable variable, double value) {
    graph::Attributes attributes{{"shape", variable.type.shape.at(1)}, {"value", value}};
    if (variable.type.dtype != DType::kFloat32) {
      attributes.set("dtype", std::string(to_string(variable.type.dtype)));
    }
    const std::string name = variable.name;
    const graph::StateId state = builder.state(std::move(variable));
    builder.write(state, builder.call("constant", name, {}, std::move(attributes)));
  };
  graph::StateVariable iterations;
  iterations.name = kIterations;
  iterations.type.dtype = DType::kInt64;
  iterations.role = graph::StateRole::kCounter;
  fill(std::move(iterations), 0);
  graph::StateVariable rate;
  rate.name = kLearningRate;
  rate.role = graph::StateRole::kHyperparameter;
  fill(std::move(rate), learning_rate_);
  for (const graph::StateVariable& weight : weights) {
    for (const std::string& name : slots_) fill(slot(weight, name), 0);
  }
}

void Optimizer::begin(graph::GraphBuilder& builder) {
  graph::StateVariable iterations;
  iterations.name = kIterations;
  iterations.type.dtype = DType::kInt64;
  iterations.role = graph::StateRole::kCounter;
  iterations_ = builder.state(std::move(iterations));
  iterations_value_ = builder.read(iterations_);
  graph::StateVariable rate;
  rate.name = kLearningRate;
  rate.role = graph::StateRole::kHyperparameter;
  learning_rate_value_ = builder.read(builder.state(std::move(rate)));
}

void Optimizer::update(graph::GraphBuilder& builder, graph::StateId weight,
                       graph::ValueId gradient) {
  const graph::StateVariable variable = builder.graph().state(weight);
  builder.set_stage(graph::Stage::kUpdate);
  builder.set_layer(variable.layer);
  std::vector<graph::StateId> states = {weight};
  std::vector<graph::ValueId> inputs = {builder.read(weight), gradient};
  for (const std::string& name : operands_) {
    states.push_back(builder.state(slot(variable, name)));
    inputs.push_back(builder.read(states.back()));
  }
  inputs.push_back(learning_rate_value_);
  if (wants_iterations_) inputs.push_back(iterations_value_);
  const graph::NodeId node =
      builder.add(op_, variable.name + "/" + op_, std::move(inputs), attributes_);
  const std::vector<graph::ValueId> outputs = builder.graph().node(node).outputs;
  for (size_t i = 0; i < states.size(); ++i) builder.write(states[i], outputs[i]);
}

void Optimizer::finish(graph::GraphBuilder& builder) {
  builder.set_stage(graph::Stage::kUpdate);
  builder.set_layer("");
  builder.write(iterations_, builder.call("increment", kIterations, {iterations_value_}));
}

Config parse_optimizer(std::string_view text) {
  const Config value = parse_spec(text, "--optimizer", kOptimizers);
  with_context("while reading --optimizer", [&] { Optimizer{value}; });
  return value;
}

}  // namespace plimsoll::layers
