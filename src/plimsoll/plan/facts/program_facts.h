#pragma once

// What planning asks of a program again and again, asked once: axes, blocks, whole extents, and the
// catalog's answers about scratch and time, remembered by node and extents.
//
// It holds references: program and catalog outlive it. The answers of a catalog must not change
// while it lives.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/kernel_catalog.h"
#include "graph/lanes.h"
#include "graph/program.h"
#include "plan/core/extents.h"
#include "plan/facts/loop_chains.h"

namespace plimsoll::plan {

// So many blocks of one length along an axis.
struct BlockLength {
  int64_t rows = 0;
  int64_t count = 0;
  friend bool operator==(const BlockLength&, const BlockLength&) = default;
};
using BlockLengths = std::vector<BlockLength>;

class ProgramFacts {
 public:
  ProgramFacts(const graph::Program& program, const graph::KernelCatalog& catalog);

  const graph::Program& program() const { return program_; }
  const graph::Graph& graph() const { return program_.graph; }
  const graph::KernelCatalog& catalog() const { return catalog_; }
  int64_t batch() const { return program_.batch; }
  // Samples of a lane; 0: the batch is one.
  int64_t lane() const { return lane_; }

  // Partial sums of a sum over several lanes; 1 of every other value.
  int64_t partials(graph::ValueId value) const { return partials_[value.index()]; }

  const AxisTable& axes() const { return axes_; }
  const std::vector<graph::Axis>& axes(graph::NodeId node) const { return axes_[node.index()]; }
  // As the catalog says, and with the whole axis spelled out.
  const std::vector<graph::Block>& blocks() const { return blocks_; }
  const std::vector<int64_t>& block(graph::NodeId node) const { return concrete_[node.index()]; }
  int64_t extent(graph::NodeId node, size_t axis) const {
    return axes_[node.index()][axis].extent.at(program_.batch);
  }
  // Rows of an axis in one lane; 0: it is not cut there.
  int64_t lane(graph::NodeId node, size_t axis) const {
    return graph::lane_rows(axes_[node.index()][axis], lane_);
  }
  // Nodes that read each value, in node order, each once.
  const std::vector<std::vector<graph::NodeId>>& users() const { return users_; }

  // What the operators say of each node.
  const std::vector<graph::Alias>& aliases(graph::NodeId node) const {
    return aliases_[node.index()];
  }
  const std::vector<std::string>& saved_forms(graph::NodeId node, size_t input) const {
    return forms_[node.index()][input];
  }

  // The most scratch, and all seconds, of calls of these block lengths (one list per axis).
  Bytes scratch(graph::NodeId node, std::span<const BlockLengths> lengths,
                std::span<const std::string> forms);
  double seconds(graph::NodeId node, std::span<const BlockLengths> lengths);

  // Remembered for plans whose loops have numbers.
  struct CallCost {
    Bytes scratch;       // where all inputs are plain
    double seconds = 0;  // of all its blocks, over all iterations, once
  };
  LoopChains& chains() { return chains_; }
  ChainMemo<CallCost>& call_costs() { return call_costs_; }  // by node
  // By value, those in another form after all plain ones: number × values.
  ChainMemo<Bytes>& value_bytes() { return value_bytes_; }
  size_t form_number(const std::string& form) {
    return form_numbers_.try_emplace(form, form_numbers_.size() + 1).first->second;
  }

 private:
  Bytes ask_scratch(graph::NodeId node, const std::vector<int64_t>& extents,
                    std::span<const std::string> forms);
  double ask_seconds(graph::NodeId node, const std::vector<int64_t>& extents);

  const graph::Program& program_;
  const graph::KernelCatalog& catalog_;
  int64_t lane_;
  AxisTable axes_;
  std::vector<int64_t> partials_;
  std::vector<graph::Block> blocks_;
  std::vector<std::vector<int64_t>> concrete_;
  std::vector<std::vector<graph::NodeId>> users_;
  std::vector<std::vector<graph::Alias>> aliases_;
  std::vector<std::vector<std::vector<std::string>>> forms_;
  LoopChains chains_;
  ChainMemo<CallCost> call_costs_;
  ChainMemo<Bytes> value_bytes_;
  std::map<std::string, size_t> form_numbers_;
  using ScratchKey = std::pair<std::vector<int64_t>, std::vector<std::string>>;
  std::vector<std::map<ScratchKey, Bytes>> scratch_;             // per node
  std::vector<std::map<std::vector<int64_t>, double>> seconds_;  // per node
};

// Rows of an axis in all, in one lane (0: not cut there) and in a block.
struct AxisRows {
  int64_t extent = 0;
  int64_t lane = 0;
  int64_t block = 0;
};

// Blocks of an axis when calls cover the iterations of `loop` (invalid: the whole axis at once), by
// falling length.
BlockLengths find_block_lengths(const ProgramPlan& plan, std::span<const LoopId> parents,
                                LoopId loop, const AxisRows& rows);

// The same for each axis of a call that stands in the body of `around`.
std::vector<BlockLengths> find_call_lengths(const ProgramPlan& plan,
                                            std::span<const LoopId> parents, LoopId around,
                                            const Call& call, const ProgramFacts& facts);

}  // namespace plimsoll::plan
