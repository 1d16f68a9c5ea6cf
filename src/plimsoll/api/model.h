#pragma once

// Models that are planned before they run: what fit takes of memory is known, named and held.
//
//   pl::Sequential model({pl::Input({28, 28, 1}), pl::Flatten(), pl::Dense(10, pl::softmax)});
//   model.compile(pl::Adam(), pl::SparseCategoricalCrossentropy(), {pl::Accuracy()});
//   pl::History h = model.fit(pl::Dataset::from_npy("x.npy", "y.npy"),
//                             {.batch = 128, .epochs = 3, .memory = 256_MiB});
//   model.save("trained.keras");
//
// A limit is that of the whole process. plan() answers with a value; fit, evaluate and predict
// throw an Error of kind kBudget, before anything is touched, where the limit cannot be met.
// Results do not depend on the limit. Between runs a model keeps its weights and the optimizer's
// state: in the arena of its last fit, which is used again when the next fit is alike, or in a
// nameless temporary file. One thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/dataset.h"
#include "api/layers.h"
#include "api/options.h"
#include "api/results.h"
#include "api/training.h"
#include "base/bytes.h"

namespace plimsoll {

class Model {
 public:
  // From inputs to outputs; what lies between is found. Throws kModel naming the layer.
  Model(const Tensor& input, const Tensor& output, const std::string& name = "functional");
  Model(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
        const std::string& name = "functional");
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Says what training means. One loss serves all outputs, or one each; metrics likewise. The
  // optimizer's state starts anew. Throws kModel where they do not fit the outputs.
  void compile(const Optimizer& optimizer, const Loss& loss,
               const std::vector<Metric>& metrics = {});
  void compile(const Optimizer& optimizer, const std::vector<Loss>& losses,
               const std::vector<std::vector<Metric>>& metrics = {});

  // Over which samples BatchNormalization takes its statistics in training: "full", the whole
  // batch, or "slice:8", groups of 8 samples (the last one is the rest), as Keras does when it
  // accumulates gradients over 8 samples at a time. Part of the model: save keeps it, and so does
  // another compile. Needs compile. Throws kConfig.
  void set_batch_norm(const std::string& statistics);
  std::string batch_norm() const;  // "full" where the model is not compiled

  // What a training step of this batch size would take; with data also the short last batch,
  // validation and what the data sources hold. Needs compile (kConfig).
  PlanAnswer plan(const RunOptions& options = {}) const;
  PlanAnswer plan(const Dataset& dataset, const Dataset* validation,
                  const RunOptions& options = {}) const;

  // Trains, going on from the weights that the model has. Needs compile (kConfig). Throws kBudget
  // (does not fit), kData, kIo; the weights of an ended fit are kept in all cases but kBudget,
  // where nothing has changed.
  History fit(const Dataset& dataset, const FitOptions& options = {});
  // Ends the fit that runs, or else the next one, after the current step; its checkpoint is
  // written. From any thread and from a signal handler.
  void request_stop();
  // Takes the fit that runs to a plan within another limit after the current step, with the same
  // bits. Where none is found, it goes on as before, and a notice says so. From any thread.
  void change_limit(Bytes limit);
  // Loss and metrics over all samples. Needs compile.
  MetricValues evaluate(const Dataset& dataset, const RunOptions& options = {});
  // One entry per output, in memory (which counts against the limit); or written as they come, to
  // .npy, .csv or .jsonl, for several outputs to p-left.npy and p-right.npy: returns the paths.
  std::vector<Predictions> predict(const Dataset& dataset, const RunOptions& options = {});
  std::vector<std::string> predict_to(const std::string& path, const Dataset& dataset,
                                      const RunOptions& options = {});

  // `.keras`, with weights and the state of training, or `.json`, the structure alone. The file
  // appears whole or not at all. Throws kConfig for other endings, kIo.
  void save(const std::string& path);

  const std::string& name() const;
  int64_t parameter_count() const;
  // A table of layers: shapes, parameters, bytes of one sample's output.
  std::string summary() const;
  // Freezes or frees a layer by name. Throws kModel with a did-you-mean.
  void set_trainable(const std::string& layer, bool trainable);

  // "conv2d/kernel", "conv2d/bias", … and their values, row-major. weight throws kConfig with a
  // did-you-mean; set_weight also where the number of values is another.
  std::vector<std::string> weight_names() const;
  std::vector<float> weight(const std::string& name);
  void set_weight(const std::string& name, const std::vector<float>& values);

 protected:
  class Impl;
  explicit Model(std::unique_ptr<Impl> impl);

 private:
  friend Model load_model(const std::string& path, const LoadOptions& options);
  friend class Trainer;
  std::unique_ptr<Impl> impl_;
};

// Layers one after the other; the first is an Input.
class Sequential : public Model {
 public:
  explicit Sequential(const std::vector<Layer>& layers, const std::string& name = "sequential");
};

// A .keras file, an .h5 or Keras JSON; weights, training configuration and the optimizer's state
// are taken over. Throws kModel with the layer and reason where it cannot be trained, kIo.
Model load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace plimsoll
