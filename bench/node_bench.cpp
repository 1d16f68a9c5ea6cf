#include "node_bench.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::bench {

bool saved_as_bits(const graph::Graph& graph, graph::NodeId node, size_t input) {
  const graph::Node& n = graph.node(node);
  return n.op->name() == "activation_grad" && input == 1 &&
         n.attributes.get_string("kind") == "relu";
}

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

namespace {

// Greedy placement in the order of the nodes: the first gap that is large enough.
class Arena {
 public:
  size_t take(size_t size) {
    size_t at = 0;
    auto place = live_.begin();
    for (; place != live_.end() && place->first - at < size; ++place) at = place->second;
    live_.insert(place, {at, at + size});
    end_ = std::max(end_, at + size);
    return at;
  }
  void give_back(size_t offset) {
    std::erase_if(live_, [&](const auto& range) { return range.first == offset; });
  }
  size_t end() const { return end_; }

 private:
  std::vector<std::pair<size_t, size_t>> live_;  // by offset
  size_t end_ = 0;
};

// The input that output `output` takes over: dead afterwards, allowed, and as large; −1: none.
int taken_over(const graph::Graph& graph, size_t n, int output, const std::vector<size_t>& last_use,
               const std::vector<size_t>& sizes) {
  const graph::Node& node = graph.nodes[n];
  const auto inputs = input_types(graph, graph::NodeId(n));
  const auto outputs = output_types(graph, graph::NodeId(n));
  for (const graph::Alias& alias : node.op->aliases({node.attributes, inputs, outputs})) {
    const graph::ValueId from = node.inputs[static_cast<size_t>(alias.input)];
    const graph::ValueId to = node.outputs[static_cast<size_t>(output)];
    if (alias.output == output && last_use[from.index()] == n &&
        graph.value(from).kind == graph::ValueKind::kNode &&
        sizes[from.index()] == sizes[to.index()]) {
      return alias.input;
    }
  }
  return -1;
}

}  // namespace

void Values::place(const graph::Graph& graph, const std::vector<size_t>& sizes, Sharing sharing) {
  constexpr size_t kForever = static_cast<size_t>(-1);
  std::vector<size_t> last_use(sizes.size(), kForever);
  if (sharing == Sharing::kArena) {
    bits_.resize(sizes.size());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
        const size_t value = graph.nodes[n].inputs[i].index();
        if (saved_as_bits(graph, graph::NodeId(n), i)) {
          bits_[value] = std::make_unique<std::byte[]>(sizes[value] / 32 + 64);
        } else {
          last_use[value] = n;
        }
      }
    }
  }
  Arena arena;
  offsets_.resize(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (graph.values[i].kind == graph::ValueKind::kNode) continue;
    offsets_[i] = arena.take(sizes[i]);
    last_use[i] = kForever;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const size_t value = node.outputs[o].index();
      const int input = taken_over(graph, n, static_cast<int>(o), last_use, sizes);
      if (input < 0) {
        offsets_[value] = arena.take(sizes[value]);
        continue;
      }
      const size_t old = node.inputs[static_cast<size_t>(input)].index();
      offsets_[value] = offsets_[old];
      last_use[old] = kForever;
    }
    for (graph::ValueId value : node.inputs) {
      if (last_use[value.index()] != n) continue;
      arena.give_back(offsets_[value.index()]);
      last_use[value.index()] = kForever;
    }
  }
  bytes_ = arena.end();
  memory_ = std::make_unique<Memory>(bytes_);
}

Values::Values(const graph::Graph& graph, int64_t samples, Sharing sharing) {
  std::vector<size_t> sizes;
  for (const graph::Value& value : graph.values) {
    const Bytes bytes = tensor_bytes(value.type.dtype, value.type.shape, samples);
    sizes.push_back(round_up(max(bytes, 1_B), 64_B).size());
    dims_.push_back(value.type.shape.at(samples));
    std::vector<int64_t> strides(dims_.back().size());
    int64_t step = 1;
    for (size_t i = strides.size(); i-- > 0;) {
      strides[i] = step;
      step *= dims_.back()[i];
    }
    strides_.push_back(strides);
  }
  place(graph, sizes, sharing);
  for (size_t v = 0; v < sizes.size(); ++v) {
    if (graph.values[v].type.dtype == DType::kInt64) {
      auto* numbers = reinterpret_cast<int64_t*>(data(graph::ValueId(v)));
      for (size_t i = 0; i < sizes[v] / sizeof(int64_t); ++i) {
        numbers[i] = static_cast<int64_t>((i * 2654435761u >> 7) % 4099);
      }
    }
    if (graph.values[v].type.dtype != DType::kFloat32) continue;
    auto* numbers = reinterpret_cast<float*>(data(graph::ValueId(v)));
    for (size_t i = 0; i < sizes[v] / sizeof(float); ++i) {
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
  for (size_t i = 0; i < graph.node(node).inputs.size(); ++i) {
    const graph::ValueId value = graph.node(node).inputs[i];
    const bool as_bits = values.bits(value) != nullptr && saved_as_bits(graph, node, i);
    request.input_dims.push_back(values.dims(value));
    request.input_strides.push_back(values.strides(value));
    request.forms.push_back(as_bits ? "positive_bits" : "");
    inputs_.push_back({as_bits ? values.bits(value) : values.data(value), values.dims(value),
                       values.strides(value)});
  }
  for (graph::ValueId value : graph.node(node).outputs) {
    request.output_dims.push_back(values.dims(value));
    request.output_strides.push_back(values.strides(value));
    outputs_.push_back({values.data(value), values.dims(value), values.strides(value)});
  }
  kernel_ = backend.make_kernel(request);
  const graph::ValueId made = graph.node(node).outputs[0];
  if (values.bits(made) != nullptr) {
    bits_ = {values.bits(made), values.dims(made), values.strides(made)};
    encoder_ =
        backend.make_encoder({"positive_bits", graph.value(made).type, values.dims(made)[0]});
  }
  scratch_ = std::make_unique<Memory>(
      backend.catalog().scratch(graph, node, batch, extents_, request.forms).size());
}

void NodeRunner::run(int64_t begin) {
  if (batch_axis_ >= 0) begin_[static_cast<size_t>(batch_axis_)] = begin;
  kernel_->run({inputs_, outputs_, scratch_->data(), begin_, extents_, begin == 0, &step_});
  if (encoder_ == nullptr) return;
  encoder_->run({outputs_, std::span(&bits_, 1), nullptr, begin_, extents_, true, &step_});
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
