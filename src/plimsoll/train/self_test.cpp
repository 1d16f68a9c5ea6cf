#include "train/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::train {
namespace {

// Tensors in memory.
class HeldTensors final : public TensorSource {
 public:
  void add(TensorInfo info, std::vector<std::byte> bytes) {
    infos_.push_back(std::move(info));
    bytes_.push_back(std::move(bytes));
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    std::memcpy(destination.data(), bytes_[index].data() + byte_begin, destination.size());
  }
  const std::vector<std::byte>& bytes(size_t index) const { return bytes_[index]; }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<std::vector<std::byte>> bytes_;
};

// Predictions of every output, as they come.
class HeldOutputs final : public OutputSink {
 public:
  HeldOutputs(const graph::Graph& graph, int64_t rows) {
    for (const graph::ValueId id : graph.outputs) {
      const graph::ValueType& type = graph.value(id).type;
      TensorInfo info{fmt::format("outputs/{}", infos_.size()), type.dtype, type.shape.at(rows)};
      row_bytes_.push_back(static_cast<size_t>(row_bytes(type.dtype, type.shape).count()));
      bytes_.emplace_back(row_bytes_.back() * static_cast<size_t>(rows));
      infos_.push_back(std::move(info));
    }
  }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    const auto index = static_cast<size_t>(output);
    std::memcpy(bytes_[index].data() + static_cast<size_t>(row_begin) * row_bytes_[index], rows,
                static_cast<size_t>(row_count) * row_bytes_[index]);
  }
  void hand_over(HeldTensors& tensors) {
    for (size_t i = 0; i < infos_.size(); ++i) tensors.add(infos_[i], std::move(bytes_[i]));
  }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<size_t> row_bytes_;
  std::vector<std::vector<std::byte>> bytes_;
};

int64_t byte_count(const TensorInfo& info) {
  int64_t bytes = element_bytes(info.dtype).count();
  for (const int64_t extent : info.shape) bytes *= extent;
  return bytes;
}

void check_size(int64_t bytes) {
  if (bytes <= kMaxSelfTest.count()) return;
  throw Error(ErrorKind::kConfig, fmt::format("self-test: expected at most {} of samples and "
                                              "predictions, received {}. Give fewer samples.",
                                              to_string(kMaxSelfTest), to_string(Bytes(bytes))));
}

void predict_into(HeldTensors& tensors, const layers::Model& model, TensorSource& weights,
                  data::Dataset& samples, SessionOptions options) {
  planning::RowCounts rows;
  rows.predict = samples.row_count();
  options.batch = std::max<int64_t>(rows.predict, 1);
  options.plan.backend = "reference";
  options.plan.times = {};
  Session session(model, layers::CompileOptions{}, options, rows, {samples.resident_bytes()});
  const graph::Graph& graph = graph::find_program(session.programs().set, "predict")->graph;
  int64_t bytes = 0;
  for (const graph::ValueId id : graph.outputs) {
    const graph::ValueType& type = graph.value(id).type;
    bytes += row_bytes(type.dtype, type.shape).count() * rows.predict;
  }
  check_size(bytes);
  HeldOutputs outputs(graph, rows.predict);
  session.initialize(&weights);
  session.predict(samples, outputs);
  outputs.hand_over(tensors);
}

std::vector<double> numbers(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values;
  const auto widen = [&]<typename T>(T) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      values.push_back(static_cast<double>(value));
    }
  };
  if (dtype == DType::kFloat32) widen(float{});
  if (dtype == DType::kFloat64) widen(double{});
  if (dtype == DType::kInt32) widen(int32_t{});
  if (dtype == DType::kInt64) widen(int64_t{});
  return values;
}

double relative_error(std::span<const double> got, std::span<const double> expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(got[i] - expected[i]);
    error = std::isnan(difference) ? HUGE_VAL : std::max(error, difference);
  }
  return largest > 0 ? error / largest : error;
}

// The test's tensors whole, told apart by name.
struct ReadTest {
  HeldTensors held;
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

void read_test(const std::string& origin, TensorSource& test, ReadTest& read) {
  int64_t bytes = 0;
  for (const TensorInfo& info : test.tensors()) bytes += byte_count(info);
  check_size(bytes);
  for (size_t i = 0; i < test.tensors().size(); ++i) {
    const TensorInfo& info = test.tensors()[i];
    if (info.shape.empty() || info.shape[0] < 1) {
      throw Error(ErrorKind::kModel,
                  origin + ": [self-test] expected samples in " + info.name + ", received none.");
    }
    std::vector<std::byte> content(static_cast<size_t>(byte_count(info)));
    test.read(i, 0, content);
    read.held.add(info, std::move(content));
    (info.name.starts_with("inputs/") ? read.inputs : read.outputs).push_back(i);
  }
}

}  // namespace

std::unique_ptr<TensorSource> make_self_test(const layers::Model& model, TensorSource& weights,
                                             data::Dataset& samples,
                                             const SessionOptions& options) {
  auto tensors = std::make_unique<HeldTensors>();
  for (size_t i = 0; i < samples.features.size(); ++i) {
    data::RowSource& rows = *samples.features[i];
    std::vector<int64_t> shape = {rows.row_count()};
    shape.insert(shape.end(), rows.row_shape().begin(), rows.row_shape().end());
    const DType dtype = model.inputs().at(i).type.dtype;
    TensorInfo info{fmt::format("inputs/{}", i), dtype, std::move(shape)};
    check_size(byte_count(info));
    std::vector<std::byte> content(static_cast<size_t>(byte_count(info)));
    rows.read(0, rows.row_count(), dtype, content.data());
    tensors->add(std::move(info), std::move(content));
  }
  predict_into(*tensors, model, weights, samples, options);
  return tensors;
}

void check_self_test(const std::string& origin, const layers::Model& model, TensorSource& weights,
                     TensorSource& test, const SessionOptions& options) {
  ReadTest read;
  read_test(origin, test, read);
  data::Dataset samples;
  for (const size_t index : read.inputs) {
    const TensorInfo& info = read.held.tensors()[index];
    samples.features.push_back(
        data::rows_in_memory(read.held.bytes(index).data(), info.dtype, info.shape[0],
                             {info.shape.begin() + 1, info.shape.end()}, origin + "/" + info.name));
  }
  samples.check_rows();
  HeldTensors got;
  predict_into(got, model, weights, samples, options);
  for (size_t i = 0; i < read.outputs.size(); ++i) {
    const TensorInfo& info = read.held.tensors()[read.outputs[i]];
    const bool found = i < got.tensors().size() && got.tensors()[i].dtype == info.dtype;
    const double error = found
                             ? relative_error(numbers(info.dtype, got.bytes(i)),
                                              numbers(info.dtype, read.held.bytes(read.outputs[i])))
                             : HUGE_VAL;
    if (error <= kSelfTestTolerance) continue;
    throw Error(
        ErrorKind::kModel,
        fmt::format(
            "{}: [self-test] expected the predictions that the file holds, received others "
            "(relative difference {:.2e}). The file is damaged, or was changed by hand: take "
            "another copy.",
            origin, error));
  }
}

}  // namespace plimsoll::train
