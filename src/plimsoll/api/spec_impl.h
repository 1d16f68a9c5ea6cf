#pragma once

// What the handles of the public headers point to. Internal to api.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/dataset.h"
#include "api/tensor.h"
#include "api/training.h"
#include "layers/config/config.h"
#include "layers/model/model.h"
#include "run/request.h"

namespace plimsoll::api {

// A layer's identity is its address: a layer that is called twice is one spec in two nodes.
struct LayerSpec {
  std::string class_name;
  layers::Config config;
};

struct TensorNode {
  std::shared_ptr<const LayerSpec> layer;
  std::vector<std::shared_ptr<const TensorNode>> inputs;
};

// An optimizer, loss or metric as layers::CompileOptions holds it.
struct TrainingObject {
  layers::Config value;
};

struct ObjectAccess {
  template <typename Object>
  static const layers::Config& value(const Object& object) {
    return object.object_->value;
  }
};

// What a Dataset's copies share.
struct DatasetBox {
  run::DataRequest request;
};

struct DatasetAccess {
  static Dataset make(std::shared_ptr<data::Dataset> opened) {
    auto box = std::make_shared<DatasetBox>();
    box->request.opened = std::move(opened);
    return Dataset(std::move(box));
  }
  static DatasetBox& box(const Dataset& dataset) { return *dataset.box_; }
};

class ModelBuilder {
 public:
  // Throws kModel naming the layer.
  static layers::Model sequential(const std::vector<Layer>& layers, const std::string& name);
  static layers::Model functional(const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& outputs, const std::string& name);
};

}  // namespace plimsoll::api
