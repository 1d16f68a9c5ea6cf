#pragma once

// One kernel call in numbers: a node, the extents of a block, and what follows from them.
//
// A node that is cut along the batch alone, or not at all, has dense operands in every call: rows
// of whole samples. Most kernels ask for that and then see flat arrays. What is cut along another
// axis (units, classes) is only dense by chance.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/kernel/row_block.h"
#include "graph/op.h"

namespace plimsoll::backend::cpu {

using graph::OpFamily;
using graph::OpFusion;
using graph::OpPass;

struct NodeFacts : NodeProblem {
  const graph::Node* node = nullptr;
  int64_t batch = 1;
  std::vector<std::string> forms;  // one per input; "" plain

  std::string_view op() const { return node->op->name(); }
  // What is multiplied, and whether it is just that.
  graph::OpWork work() const { return node->op->traits().work; }
  bool computes(graph::OpFamily family, graph::OpPass pass,
                graph::OpFusion fusion = graph::OpFusion::kNone) const {
    return work() == graph::OpWork{family, pass, fusion};
  }
  graph::NodeTypes types() const { return {attributes, inputs, outputs}; }
  // Samples in the call; 1 where the node has no batch axis.
  int64_t samples() const;
  // Elements of an operand in the call.
  int64_t input_elements(size_t i) const { return elements(inputs[i], true, i); }
  int64_t output_elements(size_t i) const { return elements(outputs[i], false, i); }
  // Whether an axis other than the batch is cut.
  bool cut_inside_samples() const;
  bool all_float32() const;
  // Whether the first operand is bfloat16 and all others are that or float32.
  bool leads_with_bfloat16() const;

 private:
  int64_t elements(const graph::ValueType& type, bool input, size_t operand) const;
};

NodeFacts node_facts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                     std::span<const int64_t> extents, std::span<const std::string> forms);

// The same for a kernel that is to be made: rows of one image stand there as an image
// (backend/kernel/row_block.h). Rows of several images have gaps between them: the kernel is one
// image's, to be called for each. `begin`: the first row on each axis; empty: the first block.
NodeFacts block_facts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::span<const std::string> forms,
                      std::span<const int64_t> begin);

// Row-major without gaps; a dimension of extent 1 may have any stride.
bool is_dense(std::span<const int64_t> dims, std::span<const int64_t> strides);
// Whether all operands that are there are.
bool is_dense(const KernelRequest& request);

}  // namespace plimsoll::backend::cpu
