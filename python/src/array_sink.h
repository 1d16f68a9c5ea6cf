#pragma once

// Predictions as arrays of Python's.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/tensor_io.h"
#include "layers/model/model.h"
#include "run/predictions.h"

namespace plimsoll::python {

// Every output of the model for all rows, in arrays that are given to Python.
class ArraySink final : public OutputSink {
 public:
  ArraySink(const layers::Model& model, int64_t rows) {
    for (const layers::ModelPort& port : model.outputs()) {
      run::check_float_output(port);
      Output output;
      output.shape = port.type.shape.at(rows);
      output.row_elements = port.type.shape.elements_per_sample();
      output.values = std::make_unique<float[]>(static_cast<size_t>(output.row_elements * rows));
      outputs_.push_back(std::move(output));
    }
  }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    const Output& one = outputs_[static_cast<size_t>(output)];
    const auto* values = static_cast<const float*>(rows);
    std::copy(values, values + row_count * one.row_elements,
              one.values.get() + row_begin * one.row_elements);
  }
  nanobind::list give() {
    nanobind::list arrays;
    for (Output& output : outputs_) {
      float* const values = output.values.release();
      const nanobind::capsule owner(
          values, [](void* held) noexcept { delete[] static_cast<float*>(held); });
      const std::vector<size_t> shape(output.shape.begin(), output.shape.end());
      arrays.append(nanobind::cast(
          nanobind::ndarray<nanobind::numpy, float>(values, shape.size(), shape.data(), owner)));
    }
    return arrays;
  }

 private:
  struct Output {
    std::vector<int64_t> shape;
    int64_t row_elements = 0;
    std::unique_ptr<float[]> values;
  };
  std::vector<Output> outputs_;
};

}  // namespace plimsoll::python
