#pragma once

// What an operator is, for decisions that must not know operators by name.
//
// Planner, memory model, backends and layers ask these of any operator; its file answers. They are
// facts about what is computed, never about how fast or by whom: numbers that are measured stay
// where they are used.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::graph {

// Products of matrices, which are most of a step's work: members of one family share how their
// blocks are chosen and what a call of theirs costs.
enum class OpFamily : uint8_t {
  kOther,        // maps, sums and whatever else moves more than it multiplies
  kConvolution,  // inputs: x or dy, then the kernel or dy
  kDense,        // the same, of matrices
  kRecurrent,    // a product for each step of a scan
  kAttention,    // products of queries, keys and values
};

// What a member of a family computes.
enum class OpPass : uint8_t {
  kForward,
  kGradInput,   // (dy, kernel) → dx
  kGradKernel,  // (x, dy) → the kernel's gradient
  kGradients,   // several in one call
};

// What is done with the product in the same call.
enum class OpFusion : uint8_t {
  kNone,    // bias and activation at most
  kPool,    // maximum pooling
  kLoss,    // a loss of the product and of labels
  kUpdate,  // the optimizer's step by it
};

struct OpWork {
  OpFamily family = OpFamily::kOther;
  OpPass pass = OpPass::kForward;
  OpFusion fusion = OpFusion::kNone;
  friend bool operator==(const OpWork&, const OpWork&) = default;
};

// What becomes of a node that a layer adds where the layer computes in bfloat16.
enum class Bf16Use : uint8_t {
  kNever,    // it computes in float32
  kFollows,  // in bfloat16 where one of its values is that
  kAsks,     // in bfloat16
};
// `values`: so many of its first inputs are values; the others (weights, statistics) stay float32.
struct Bf16Rule {
  Bf16Use use = Bf16Use::kNever;
  size_t values = 1;
  friend bool operator==(const Bf16Rule&, const Bf16Rule&) = default;
};
inline constexpr Bf16Rule kFollowsFirst{Bf16Use::kFollows, 1};
inline constexpr Bf16Rule kFollowsAll{Bf16Use::kFollows, 1000};
inline constexpr Bf16Rule kAsksForFactors{Bf16Use::kAsks, 2};

// An input of integers that name rows of a table, which is another input; −1: none.
struct RowLookup {
  int rows = -1;
  int table = -1;
  friend bool operator==(const RowLookup&, const RowLookup&) = default;
};

// How sums over lanes of the batch (graph/lanes.h) are joined.
enum class LaneJoining : uint8_t {
  kAdded,    // one is added to the other
  kMoments,  // of rows (mean, sum of squared differences), by how many there are of each
  kApart,    // not at all: rows of the batch have places of their own in the output
};

struct OpTraits {
  bool elementwise = false;   // same shape in and out, element by element
  bool view = false;          // output is the input's bytes under another shape
  bool random = false;        // draws from Philox keyed by call site
  bool state_write = false;   // stores its input into Node::writes
  bool cheap = false;         // recomputing it costs little more than reading its input
  bool form_encoder = false;  // encodes a saved form; planned by items, never stands in a graph
  bool pack = false;          // its input as a kernel wants it, {layout}, {bytes}: the same numbers
  bool literal = false;       // its output's numbers stand in the node's attributes
  bool exchanges = false;  // waits for other ranks: runs once a step, in one order on all of them
  bool read_back = false;  // the program itself reads what its output counts, at the end
  // Sums over the whole batch that every row's gradient needs: no loop over the batch holds both,
  // which cuts a step into phases.
  bool sums_for_rows = false;
  LaneJoining lanes = LaneJoining::kAdded;
  OpWork work{};
  Bf16Rule bf16{};
  RowLookup lookup{};
};

// Where the elements of an output come from, of operators that take over elements of samples
// unchanged, or converted one by one.
struct ElementMoves {
  enum class Kind : uint8_t {
    kNone,     // the operator computes
    kInOrder,  // all of input 0's, in their order
    kByIndex,  // elements of input 0, by `dims`
    kJoined,   // of all inputs, side by side along `axis`
  };
  // Index i of a dimension of the output is this index of dimension `source` of the input:
  // begin + i, or begin − i. Dimensions count from 0 after the batch.
  struct Dimension {
    size_t source = 0;
    int64_t begin = 0;
    bool reversed = false;
  };
  Kind kind = Kind::kNone;
  std::vector<Dimension> dims{};  // one per dimension of the output
  size_t axis = 0;                // from 0 after the batch
};

}  // namespace plimsoll::graph
