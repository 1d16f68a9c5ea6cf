#pragma once

// The kernel interface: what runs one block of one node.
//
// A kernel is made once for a node, a set of concrete extents (block or tail), operand strides and
// saved forms, and is then called many times: no allocation, no exception, no locks. Its result is
// a pure function of its operands' values, its position, the step and the kernel set. It may use
// its scratch in any way and finds it undefined.
//
// Sums. An output without a reduce axis is an accumulator. The call with `first` set stores its
// block's result; every other call adds its own to what is there (for operators that merge rather
// than add, such as moments, the kernel merges; `begin` and `lane` say how many rows came before).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/ranks.h"
#include "graph/ir.h"
#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "ops/fuse/fuse.h"

namespace plimsoll::backend {

// Values that change from step to step and come from the host.
struct StepContext {
  uint64_t seed = 0;  // of the run
  int64_t step = 0;   // from 0, over epochs
  bool training = true;
  // Where several ranks share the step's batch: who they are, samples of all, and the first one of
  // the samples that are computed here. Null: they are all here.
  Ranks* ranks = nullptr;
  int64_t samples = 0;
  int64_t first_sample = 0;
  int64_t samples_each = 0;  // of a rank that is full
};

// The rows of one operand that a call touches. `data` points at the first of them.
struct Operand {
  std::byte* data = nullptr;
  std::span<const int64_t> dims;     // extents of the region
  std::span<const int64_t> strides;  // in elements; the innermost is 1 wherever rank > 0
};

struct KernelCall {
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;  // data nullptr: dropped
  std::byte* scratch = nullptr;      // 64-byte aligned, as many bytes as the catalog said
  std::span<const int64_t> begin;    // first row of the block on each axis, from the axis's start
  std::span<const int64_t> extents;  // rows of the block on each axis
  bool first = true;                 // first block of every reduce axis, in its lane
  const StepContext* step = nullptr;
  int64_t lane = 0;  // first sample of the lane that the block lies in

  // Samples of the step's batch; `batch`: of the program.
  int64_t all_samples(int64_t batch) const {
    return step == nullptr || step->ranks == nullptr ? batch : step->samples;
  }
  // The block's first sample in the step's batch, for what is drawn; `axis`: that of the batch, or
  // −1 where there is none.
  int64_t first_sample(int axis) const {
    if (axis < 0) return 0;
    return begin[static_cast<size_t>(axis)] + (step == nullptr ? 0 : step->first_sample);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelCall& call) const noexcept = 0;
};

// All that a kernel is specialised for.
struct KernelRequest {
  const graph::Graph& graph;
  graph::NodeId node;
  int64_t batch = 1;
  std::vector<int64_t> extents;                  // one per axis
  std::vector<std::string> forms;                // per input; "" plain
  std::vector<std::vector<int64_t>> input_dims;  // region of each operand
  std::vector<std::vector<int64_t>> input_strides;
  std::vector<std::vector<int64_t>> output_dims;  // empty: dropped
  std::vector<std::vector<int64_t>> output_strides;
  // First row on each axis of a block that it is made for: others of these extents touch as many
  // rows before and after their own. Empty: the first block.
  std::vector<int64_t> begin = {};
};

// Asks for an encoder of a saved form over `rows` rows.
struct EncoderRequest {
  std::string form;
  graph::ValueType type;  // of the plain value
  int64_t rows = 0;       // along dimension 0
};

// Asks for what joins the sums of two lanes in an output of a node, of that region.
struct JoinRequest {
  const graph::Graph& graph;
  graph::NodeId node;
  size_t output = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// Process memory outside of the arena.
struct ResidentBytes {
  Bytes engine;   // binary, libraries, thread stacks and heap once the backend is made
  Bytes kernels;  // code and descriptors of the kernels of some programs
  // The most that the process held while it loaded and made kernels, before the arena was touched:
  // library pages that are given back afterwards count here and not in `engine`.
  Bytes start_up;
  // The same in a process that had loaded what the engine consists of before.
  Bytes making;
  // What describing one kernel takes for a while, while the plan is searched or kernels are made.
  // Part of start_up.
  Bytes describing{};
  friend bool operator==(const ResidentBytes&, const ResidentBytes&) = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual const graph::KernelCatalog& catalog() const = 0;
  // What the fuse pass may merge for this backend, and which weights its kernels want packed (the
  // layout and its bytes are the same at block and tail).
  virtual ops::Offers offers() const { return {}; }
  virtual std::vector<ops::PackOffer> packs(const graph::Graph&, graph::NodeId) const { return {}; }
  // Throws kBackend, or kModel where the backend has no kernel for the operator.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) = 0;
  // inputs[0]: plain rows, outputs[0]: encoded rows.
  virtual std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) = 0;
  // inputs[0] is joined to outputs[0]; begin[0]: samples of the latter, extents[0]: of the former.
  // The same bits on every backend.
  virtual std::unique_ptr<Kernel> make_join(const JoinRequest& request);
  // All kernels of a run are made: what only making them needed may go.
  virtual void finish_making() {}
  // Whether kernels compute; the null backend accounts only.
  virtual bool computes() const { return true; }
  // What this backend holds outside of the arena when it runs these programs: a deterministic upper
  // bound (never a reading), from measured constants.
  virtual ResidentBytes resident_bytes(const graph::ProgramSet& programs) const = 0;
};

}  // namespace plimsoll::backend
