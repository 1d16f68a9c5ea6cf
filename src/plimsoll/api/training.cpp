#include "api/training.h"

#include "api/spec_impl.h"
#include "layers/training/programs.h"

namespace plimsoll {
namespace {

using api::TrainingObject;
using layers::Config;

using Object = std::shared_ptr<const TrainingObject>;

Object make(Config value) {
  return std::make_shared<TrainingObject>(TrainingObject{std::move(value)});
}

Object make(const char* class_name, Config::Object arguments) {
  return make(Config(Config::Object{{"class_name", Config(class_name)},
                                    {"config", Config(std::move(arguments))}}));
}

void add_decay(Config::Object& arguments, const std::optional<double>& weight_decay) {
  if (weight_decay) arguments.emplace_back("weight_decay", *weight_decay);
}

Object sgd(const SGDOptions& options) {
  Config::Object arguments{{"learning_rate", Config(options.learning_rate)},
                           {"momentum", Config(options.momentum)},
                           {"nesterov", Config(options.nesterov)}};
  add_decay(arguments, options.weight_decay);
  return make("SGD", std::move(arguments));
}

Config::Object adam_arguments(double learning_rate, double beta_1, double beta_2, double epsilon,
                              bool amsgrad) {
  return {{"learning_rate", Config(learning_rate)},
          {"beta_1", Config(beta_1)},
          {"beta_2", Config(beta_2)},
          {"epsilon", Config(epsilon)},
          {"amsgrad", Config(amsgrad)}};
}

Object adam(const AdamOptions& options) {
  Config::Object arguments = adam_arguments(options.learning_rate, options.beta_1, options.beta_2,
                                            options.epsilon, options.amsgrad);
  add_decay(arguments, options.weight_decay);
  return make("Adam", std::move(arguments));
}

Object adamw(const AdamWOptions& options) {
  Config::Object arguments = adam_arguments(options.learning_rate, options.beta_1, options.beta_2,
                                            options.epsilon, options.amsgrad);
  add_decay(arguments, options.weight_decay);
  return make("AdamW", std::move(arguments));
}

Object rmsprop(const RMSpropOptions& options) {
  Config::Object arguments{{"learning_rate", Config(options.learning_rate)},
                           {"rho", Config(options.rho)},
                           {"momentum", Config(options.momentum)},
                           {"epsilon", Config(options.epsilon)},
                           {"centered", Config(options.centered)}};
  add_decay(arguments, options.weight_decay);
  return make("RMSprop", std::move(arguments));
}

Object crossentropy(const char* class_name, const CrossentropyOptions& options) {
  return make(class_name, {{"from_logits", Config(options.from_logits)},
                           {"label_smoothing", Config(options.label_smoothing)}});
}

}  // namespace

Optimizer::Optimizer(std::string_view spelling)
    : Optimizer(make(layers::parse_optimizer(spelling))) {}
Loss::Loss(std::string_view spelling) : Loss(make(layers::parse_loss(spelling))) {}
Metric::Metric(std::string_view spelling) : Metric(make(layers::parse_metric(spelling))) {}

SGD::SGD(const SGDOptions& options) : Optimizer(sgd(options)) {}
Adam::Adam(const AdamOptions& options) : Optimizer(adam(options)) {}
AdamW::AdamW(const AdamWOptions& options) : Optimizer(adamw(options)) {}
RMSprop::RMSprop(const RMSpropOptions& options) : Optimizer(rmsprop(options)) {}

BinaryCrossentropy::BinaryCrossentropy(const CrossentropyOptions& options)
    : Loss(crossentropy("BinaryCrossentropy", options)) {}
CategoricalCrossentropy::CategoricalCrossentropy(const CrossentropyOptions& options)
    : Loss(crossentropy("CategoricalCrossentropy", options)) {}
SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(
    const SparseCrossentropyOptions& options)
    : Loss(make("SparseCategoricalCrossentropy", {{"from_logits", Config(options.from_logits)}})) {}
MeanSquaredError::MeanSquaredError() : Loss(make("MeanSquaredError", {})) {}
MeanAbsoluteError::MeanAbsoluteError() : Loss(make("MeanAbsoluteError", {})) {}

Accuracy::Accuracy() : Metric(make(Config("accuracy"))) {}
BinaryAccuracy::BinaryAccuracy(double threshold)
    : Metric(make("BinaryAccuracy", {{"threshold", Config(threshold)}})) {}

}  // namespace plimsoll
