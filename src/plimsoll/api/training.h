#pragma once

// Optimizers, losses and metrics with Keras's arguments, defaults and arithmetic.
//
// Each can also be given by name, as on the command line: pl::Optimizer("adam(beta_1=0.8)"),
// pl::Metric("mse"). Such names throw kConfig with a did-you-mean where they are unknown.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

namespace api {
struct TrainingObject;
struct ObjectAccess;
}  // namespace api

class Optimizer {
 public:
  explicit Optimizer(std::string_view spelling);

 protected:
  explicit Optimizer(std::shared_ptr<const api::TrainingObject> object)
      : object_(std::move(object)) {}

 private:
  friend struct api::ObjectAccess;
  std::shared_ptr<const api::TrainingObject> object_;
};

class Loss {
 public:
  explicit Loss(std::string_view spelling);

 protected:
  explicit Loss(std::shared_ptr<const api::TrainingObject> object) : object_(std::move(object)) {}

 private:
  friend struct api::ObjectAccess;
  std::shared_ptr<const api::TrainingObject> object_;
};

class Metric {
 public:
  explicit Metric(std::string_view spelling);

 protected:
  explicit Metric(std::shared_ptr<const api::TrainingObject> object) : object_(std::move(object)) {}

 private:
  friend struct api::ObjectAccess;
  std::shared_ptr<const api::TrainingObject> object_;
};

struct SGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  std::optional<double> weight_decay{};
};
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

struct AdamOptions {
  double learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay{};
};
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  double learning_rate = 0.001;
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct RMSpropOptions {
  double learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  std::optional<double> weight_decay{};
};
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const RMSpropOptions& options = {});
};

struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
};
// Targets 0 or 1, of the output's shape.
class BinaryCrossentropy : public Loss {
 public:
  explicit BinaryCrossentropy(const CrossentropyOptions& options = {});
};
// Targets are distributions over the last dimension.
class CategoricalCrossentropy : public Loss {
 public:
  explicit CategoricalCrossentropy(const CrossentropyOptions& options = {});
};
struct SparseCrossentropyOptions {
  bool from_logits = false;
};
// Targets are class numbers.
class SparseCategoricalCrossentropy : public Loss {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCrossentropyOptions& options = {});
};
class MeanSquaredError : public Loss {
 public:
  MeanSquaredError();
};
class MeanAbsoluteError : public Loss {
 public:
  MeanAbsoluteError();
};

// What Keras takes "accuracy" for: binary, categorical or sparse categorical, by the shapes.
class Accuracy : public Metric {
 public:
  Accuracy();
};
class BinaryAccuracy : public Metric {
 public:
  explicit BinaryAccuracy(double threshold = 0.5);
};

}  // namespace plimsoll
