#pragma once

// A model's own test: a few samples and what the model says to them, kept in its file.
//
// The numbers travel as named tensors, "inputs/0", … and "outputs/0", … with the samples in front.
// Who loads the file predicts on the inputs and compares: another machine, another build or a
// damaged file shows at once. It runs on the reference backend, so that no library of kernels is
// loaded for it, and within the limit of the run that follows.

#include <memory>

#include "base/tensor_io.h"
#include "data/dataset.h"
#include "layers/model/model.h"
#include "train/session.h"

namespace plimsoll::train {

// ‖got − expected‖∞ over ‖expected‖∞, at most.
constexpr double kSelfTestTolerance = 1e-4;
// Inputs and outputs together, at most.
constexpr Bytes kMaxSelfTest{int64_t{16} << 20};

// Predicts on all rows of `samples`. Throws kConfig where that is more than fits a self-test.
std::unique_ptr<TensorSource> make_self_test(const layers::Model& model, TensorSource& weights,
                                             data::Dataset& samples, const SessionOptions& options);

// Throws kModel, naming `origin`, where the model says something else than its self-test.
void check_self_test(const std::string& origin, const layers::Model& model, TensorSource& weights,
                     TensorSource& test, const SessionOptions& options);

}  // namespace plimsoll::train
