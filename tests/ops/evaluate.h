#pragma once

// Runs graphs node by node, block by block, straight on a backend's kernels: no plan, no arena.
//
// Every value has a buffer of its own with guards; scratch is exactly as large as the catalog says,
// guarded too. A kernel that writes where it must not fails the test.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "graph/op.h"
#include "ops/buffer.h"

namespace plimsoll::ops_test {

// One kernel call of a node.
struct BlockCall {
  std::vector<int64_t> begin;
  std::vector<int64_t> extents;
  bool first = true;  // first block of every reduce axis
};

// The calls that cover a node in blocks of this box, in their order.
std::vector<BlockCall> calls_of(const graph::Graph& graph, graph::NodeId node,
                                const graph::Block& block, int64_t batch);

// The box that covers everything in one call.
graph::Block whole_block(const graph::Graph& graph, graph::NodeId node);

struct NodeRun {
  backend::Backend& backend;
  const graph::Graph& graph;
  graph::NodeId node;
  int64_t batch = 1;
  std::vector<std::string> forms{};  // per input; empty: all plain
  int dropped = -1;                  // an output that nobody reads
};

// Runs calls on whole values; `outputs` may start with any contents. A state_write's output is the
// state.
void run_calls(const NodeRun& run, std::span<const BlockCall> calls,
               std::span<Buffer* const> inputs, std::span<Buffer* const> outputs);

enum class Blocks { kWhole, kCatalog };

// Computes nodes [0, node_count) into `values` (one per value; inputs and states are filled).
void evaluate(backend::Backend& backend, const graph::Graph& graph, int64_t batch, Blocks blocks,
              size_t node_count, std::vector<Buffer>& values);

// Operands of a node among the values; a state_write's output is its state's incoming value.
std::vector<Buffer*> input_buffers(const graph::Graph& graph, graph::NodeId node,
                                   std::vector<Buffer>& values);
std::vector<Buffer*> output_buffers(const graph::Graph& graph, graph::NodeId node,
                                    std::vector<Buffer>& values);

// The step that every evaluation runs in.
const backend::StepContext& test_step();

}  // namespace plimsoll::ops_test
