#include "ops/evaluate.h"

#include <gtest/gtest.h>

#include "backend/kernel/region.h"

namespace plimsoll::ops_test {
namespace {

using backend::find_region;
using backend::Region;
using graph::Axis;
using graph::Graph;
using graph::NodeId;
using graph::ValueType;

// One operand of one call: its region of the whole value.
struct Place {
  std::byte* data = nullptr;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

Place place_operand(const ValueType& type, int64_t batch, const std::vector<graph::AxisUse>& uses,
                    const BlockCall& call, Buffer& buffer, bool bits) {
  const Region region = find_region(type, batch, uses, call.begin, call.extents);
  Place place{buffer.data(), region.dims, backend::dense_strides(type.shape.at(batch))};
  if (bits) {
    const int64_t sample = region.begin.empty() ? 0 : region.begin[0] / type.shape[0].count;
    place.data += sample * row_bytes(DType::kBits, type.shape).count();
    return place;
  }
  int64_t offset = 0;
  for (size_t d = 0; d < region.begin.size(); ++d) offset += region.begin[d] * place.strides[d];
  place.data += offset * element_bytes(type.dtype).count();
  return place;
}

// The operands of a call; a state_write gets its state as output.
struct Operands {
  std::vector<Place> inputs;
  std::vector<Place> outputs;
};

Operands place_operands(const NodeRun& run, const BlockCall& call, std::span<Buffer* const> inputs,
                        std::span<Buffer* const> outputs) {
  const std::vector<Axis> axes = axes_of(run.graph, run.node);
  const std::vector<ValueType> input_types = graph::input_types(run.graph, run.node);
  std::vector<ValueType> output_types = graph::output_types(run.graph, run.node);
  Operands operands;
  for (size_t i = 0; i < input_types.size(); ++i) {
    const bool bits = !run.forms.empty() && !run.forms[i].empty();
    operands.inputs.push_back(place_operand(
        input_types[i], run.batch, backend::uses_of_input(axes, i), call, *inputs[i], bits));
  }
  const bool writes_state = run.graph.node(run.node).writes.valid();
  if (writes_state) output_types = input_types;
  for (size_t i = 0; i < output_types.size(); ++i) {
    const std::vector<graph::AxisUse> uses =
        writes_state ? std::vector<graph::AxisUse>() : backend::uses_of_output(axes, i);
    operands.outputs.push_back(
        static_cast<int>(i) == run.dropped
            ? Place()
            : place_operand(output_types[i], run.batch, uses, call, *outputs[i], false));
  }
  return operands;
}

std::vector<backend::Operand> as_operands(const std::vector<Place>& places) {
  std::vector<backend::Operand> operands;
  operands.reserve(places.size());
  for (const Place& place : places) operands.push_back({place.data, place.dims, place.strides});
  return operands;
}

backend::KernelRequest make_request(const NodeRun& run, const BlockCall& call,
                                    const Operands& operands) {
  backend::KernelRequest request{run.graph, run.node, run.batch, call.extents, run.forms, {},
                                 {},        {},       {}};
  request.begin = call.begin;
  if (request.forms.empty()) request.forms.resize(operands.inputs.size());
  for (const Place& place : operands.inputs) {
    request.input_dims.push_back(place.dims);
    request.input_strides.push_back(place.strides);
  }
  for (const Place& place : operands.outputs) {
    request.output_dims.push_back(place.dims);
    request.output_strides.push_back(place.strides);
  }
  return request;
}

}  // namespace

const backend::StepContext& test_step() {
  static const backend::StepContext step{.seed = 42, .step = 3, .training = true};
  return step;
}

graph::Block whole_block(const Graph& graph, NodeId node) {
  return graph::Block(axes_of(graph, node).size(), graph::kWholeAxis);
}

std::vector<BlockCall> calls_of(const Graph& graph, NodeId node, const graph::Block& block,
                                int64_t batch) {
  const std::vector<Axis> axes = axes_of(graph, node);
  std::vector<BlockCall> calls = {{}};
  const std::vector<int64_t> sizes = concrete_block(graph, node, block, batch);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t whole = axes[i].extent.at(batch);
    std::vector<BlockCall> finer;
    for (const BlockCall& outer : calls) {
      for (int64_t begin = 0; begin < whole; begin += sizes[i]) {
        BlockCall call = outer;
        call.begin.push_back(begin);
        call.extents.push_back(std::min(sizes[i], whole - begin));
        call.first = outer.first && (axes[i].kind != graph::AxisKind::kReduce || begin == 0);
        finer.push_back(std::move(call));
      }
    }
    calls = std::move(finer);
  }
  return calls;
}

void run_calls(const NodeRun& run, std::span<const BlockCall> calls,
               std::span<Buffer* const> inputs, std::span<Buffer* const> outputs) {
  const std::string& name = run.graph.node(run.node).name;
  for (const BlockCall& call : calls) {
    const Operands operands = place_operands(run, call, inputs, outputs);
    const backend::KernelRequest request = make_request(run, call, operands);
    const std::unique_ptr<backend::Kernel> kernel = run.backend.make_kernel(request);
    Buffer scratch(run.backend.catalog()
                       .scratch(run.graph, run.node, run.batch, call.extents, request.forms)
                       .size());
    const std::vector<backend::Operand> in = as_operands(operands.inputs);
    const std::vector<backend::Operand> out = as_operands(operands.outputs);
    kernel->run({in, out, scratch.data(), call.begin, call.extents, call.first, &test_step()});
    EXPECT_TRUE(scratch.guards_intact()) << name << " writes beyond its scratch";
  }
  for (const Buffer* buffer : outputs) {
    EXPECT_TRUE(buffer->guards_intact()) << name << " writes beyond its output";
  }
  for (const Buffer* buffer : inputs) {
    EXPECT_TRUE(buffer->guards_intact()) << name << " writes beyond an input";
  }
}

std::vector<Buffer*> input_buffers(const Graph& graph, NodeId node, std::vector<Buffer>& values) {
  std::vector<Buffer*> buffers;
  for (graph::ValueId input : graph.node(node).inputs) buffers.push_back(&values[input.index()]);
  return buffers;
}

std::vector<Buffer*> output_buffers(const Graph& graph, NodeId node, std::vector<Buffer>& values) {
  std::vector<Buffer*> buffers;
  const graph::Node& n = graph.node(node);
  for (graph::ValueId output : n.outputs) buffers.push_back(&values[output.index()]);
  if (n.writes.valid()) buffers.push_back(&values[graph.state(n.writes).incoming.index()]);
  return buffers;
}

void evaluate(backend::Backend& backend, const Graph& graph, int64_t batch, Blocks blocks,
              size_t node_count, std::vector<Buffer>& values) {
  for (size_t i = 0; i < node_count; ++i) {
    const NodeId node(i);
    const graph::Block block =
        blocks == Blocks::kWhole ? whole_block(graph, node) : backend.catalog().block(graph, node);
    run_calls({backend, graph, node, batch}, calls_of(graph, node, block, batch),
              input_buffers(graph, node, values), output_buffers(graph, node, values));
  }
}

}  // namespace plimsoll::ops_test
