#pragma once

// The operator interface: all that autodiff, the planner and the executor know of an operator.
//
// An operator is a stateless singleton in an OpRegistry. It says which types it maps to which,
// how its iteration space may be cut (axes), what its gradient is as further nodes, which outputs
// may overwrite which inputs, and which smaller lossless forms of an input its kernels accept. An
// operator that declares no axis is correct and is never cut.
//
// Axes. An axis of the iteration space meets an operand in at most one dimension. Rows [i, j) of
// the axis need or make these rows of that dimension (clipped to it):
//
//     [i * stride - before, (j - 1) * stride + after + 1)
//
//   map, one row a sample      stride 1, before 0, after 0
//   map, (4B, …)               stride 4, before 0, after 3
//   window, 3 wide, same       stride 1, before 1, after 1
//
// Groups. Where an operator needs a total over fixed runs of rows and over no more (statistics of
// groups of samples), `group` is their length: every block of the axis is exactly one of them,
// counted from its start, whatever the kernel set would like; the last one is the rest.
//
// An operand that does not have the axis (dimension −1) is read whole by every row; an *output*
// that does not have a reduce axis is an accumulator, folded over blocks in order, the first block
// stored (see backend/kernel/kernel.h).

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.h"
#include "graph/op_traits.h"

namespace plimsoll::graph {

enum class AxisKind : uint8_t {
  kMap,        // rows of the outputs need the same rows of the inputs
  kWindow,     // rows of the outputs need a window of rows of the inputs
  kScan,       // in order, carrying a state (an output without the axis)
  kReduce,     // adds up into the outputs that do not have the axis
  kNormalize,  // needs a total over the axis before any row: cannot be cut as it stands
  kWhole,      // cannot be cut
};
std::string_view to_string(AxisKind kind);

// How one operand meets an axis. Dimension −1: the operand does not have it.
struct AxisUse {
  int dimension = -1;
  int64_t stride = 1;
  int64_t before = 0;
  int64_t after = 0;
  friend bool operator==(const AxisUse&, const AxisUse&) = default;
};

struct Axis {
  std::string name{};  // "batch", "units", "classes", "rows": loops bind to axes by name
  AxisKind kind = AxisKind::kWhole;
  Dim extent{};
  std::vector<AxisUse> inputs{};   // one per input
  std::vector<AxisUse> outputs{};  // one per output
  bool falling = false;            // blocks run from the last to the first (backward scans)
  int64_t group = 0;               // rows of every block; 0: the kernel set's choice
  friend bool operator==(const Axis&, const Axis&) = default;
};

inline constexpr std::string_view kBatchAxis = "batch";
// Dimension 1 of images (B, height, width, channels).
inline constexpr std::string_view kRowsAxis = "rows";

// What an operator is asked about: one node's attributes and types.
struct NodeTypes {
  const Attributes& attributes;
  std::span<const ValueType> inputs;
  std::span<const ValueType> outputs;  // empty in infer()
};

// Output `output` may take the memory of input `input` when that input is dead afterwards. Only
// where a kernel call that computes a block reads no element of the input after it wrote the
// element of the output in its place.
struct Alias {
  int input = 0;
  int output = 0;
  friend bool operator==(const Alias&, const Alias&) = default;
};

class GradientContext;

class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;

  // Shape and dtype rule; checks attributes too. Throws kModel: expected, received, next step.
  // The text does not name the node; the builder adds that.
  virtual std::vector<ValueType> infer(const NodeTypes& node) const = 0;

  // The axes that may be cut or that matter to cutting, in the order in which blocks are visited
  // (batch first). Axes not named here are whole.
  virtual std::vector<Axis> axes(const NodeTypes&) const { return {}; }

  // Adds the nodes that compute gradients of this node's inputs (autodiff.h). The default says
  // that the operator has no gradient.
  virtual void gradient(GradientContext& context) const;

  virtual std::vector<Alias> aliases(const NodeTypes&) const { return {}; }

  // Names of form-encoding operators whose output this node's kernels accept in place of input
  // `input`, smallest first. The kernel's results are the same bits with each.
  virtual std::vector<std::string> saved_forms(const NodeTypes&, int /*input*/) const { return {}; }

  virtual OpTraits traits() const { return {}; }

  // Operators that move elements of samples and compute nothing say here which.
  virtual ElementMoves element_moves(const NodeTypes&) const { return {}; }

  // Floating-point operations of a call that covers `elements_out` … of the whole node per sample
  // (or in all where it has no batch axis): a cost model's raw material, never exact.
  virtual double flops_per_sample(const NodeTypes& node) const;
};

class OpRegistry {
 public:
  // Takes ownership; a second operator of one name is our bug.
  void add(std::unique_ptr<Op> op);
  // nullptr where there is none.
  const Op* find(std::string_view name) const;
  // Throws kModel with a did-you-mean.
  const Op& get(std::string_view name) const;
  // In name order.
  std::vector<const Op*> all() const;

 private:
  std::vector<std::unique_ptr<Op>> ops_;  // sorted by name
};

// The axes of a node; position of the axis of that name, or −1.
std::vector<Axis> axes_of(const Graph& graph, NodeId node);
int find_axis(std::span<const Axis> axes, std::string_view name);

// One map axis "batch" over dimension 0 of every operand that has a batch dimension; empty where
// none has. The common case of Op::axes.
std::vector<Axis> batch_map_axis(const NodeTypes& node);
// The same, but as a reduce axis: outputs have no batch dimension.
std::vector<Axis> batch_reduce_axis(const NodeTypes& node);

}  // namespace plimsoll::graph
