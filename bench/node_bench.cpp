#include "node_bench.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::bench {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {
size_t whole_pages(size_t bytes) { return (bytes + 4096) / 4096 * 4096; }
}  // namespace

Memory::Memory(size_t bytes) : data_(new (std::align_val_t(4096)) std::byte[whole_pages(bytes)]) {
  std::memset(data_, 0, whole_pages(bytes));
}
Memory::~Memory() { ::operator delete[](data_, std::align_val_t(4096)); }

Values::Values(const graph::Graph& graph, int64_t samples) {
  for (const graph::Value& value : graph.values) {
    const Bytes bytes = tensor_bytes(value.type.dtype, value.type.shape, samples);
    buffers_.push_back(std::make_unique<Memory>(bytes.size()));
    dims_.push_back(value.type.shape.at(samples));
    std::vector<int64_t> strides(dims_.back().size());
    int64_t step = 1;
    for (size_t i = strides.size(); i-- > 0;) {
      strides[i] = step;
      step *= dims_.back()[i];
    }
    strides_.push_back(strides);
    if (value.type.dtype != DType::kFloat32) continue;
    auto* numbers = reinterpret_cast<float*>(buffers_.back()->data());
    for (int64_t i = 0; i < bytes.count() / 4; ++i) {
      numbers[i] = 0.01f * static_cast<float>((i * 2654435761u >> 7) % 201) - 1.0f;
    }
  }
}

NodeRunner::NodeRunner(backend::Backend& backend, const graph::Graph& graph, graph::NodeId node,
                       int64_t batch, int64_t samples, const Values& values) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  batch_axis_ = graph::find_axis(axes, graph::kBatchAxis);
  for (size_t i = 0; i < axes.size(); ++i) {
    extents_.push_back(static_cast<int>(i) == batch_axis_ ? samples : axes[i].extent.at(batch));
  }
  begin_.assign(axes.size(), 0);
  backend::KernelRequest request{graph, node, batch, extents_, {}, {}, {}, {}, {}};
  for (graph::ValueId value : graph.node(node).inputs) {
    request.input_dims.push_back(values.dims(value));
    request.input_strides.push_back(values.strides(value));
    inputs_.push_back({values.data(value), values.dims(value), values.strides(value)});
  }
  for (graph::ValueId value : graph.node(node).outputs) {
    request.output_dims.push_back(values.dims(value));
    request.output_strides.push_back(values.strides(value));
    outputs_.push_back({values.data(value), values.dims(value), values.strides(value)});
  }
  request.forms.resize(inputs_.size());
  kernel_ = backend.make_kernel(request);
  scratch_ =
      std::make_unique<Memory>(backend.catalog().scratch(graph, node, batch, extents_, {}).size());
}

void NodeRunner::run(int64_t begin) {
  if (batch_axis_ >= 0) begin_[static_cast<size_t>(batch_axis_)] = begin;
  kernel_->run({inputs_, outputs_, scratch_->data(), begin_, extents_, begin == 0, &step_});
}

double NodeRunner::time(double budget) {
  run(0);
  double best = 1e30;
  const double end = now_seconds() + budget;
  constexpr int kLeastCalls = 5;
  for (int i = 0; i < kLeastCalls || now_seconds() < end; ++i) {
    const double start = now_seconds();
    run(1);
    best = std::min(best, now_seconds() - start);
  }
  return best;
}

}  // namespace plimsoll::bench
