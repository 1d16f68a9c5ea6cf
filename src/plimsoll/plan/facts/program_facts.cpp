#include "plan/facts/program_facts.h"

#include <algorithm>
#include <functional>

namespace plimsoll::plan {
namespace {

// Calls visit(extents, count) for every combination of lengths.
void for_each_shape(std::span<const BlockLengths> lengths,
                    const std::function<void(const std::vector<int64_t>&, int64_t)>& visit) {
  std::vector<size_t> at(lengths.size());
  std::vector<int64_t> extents(lengths.size());
  while (true) {
    int64_t count = 1;
    for (size_t a = 0; a < lengths.size(); ++a) {
      if (lengths[a].empty()) return;
      extents[a] = lengths[a][at[a]].rows;
      count *= lengths[a][at[a]].count;
    }
    visit(extents, count);
    size_t a = 0;
    while (a < lengths.size() && ++at[a] == lengths[a].size()) at[a++] = 0;
    if (a == lengths.size()) return;
  }
}

void count_blocks(RowRange rows, int64_t block, std::map<int64_t, int64_t>& counts) {
  for (int64_t k = 0; k < block_count(rows, block, 0); ++k)
    ++counts[block_rows(rows, block, 0, k).size()];
}

// Iterations of the innermost loop of a chain, one after the other.
void count_iterations(const ProgramPlan& plan, std::span<const LoopId> chain, RowRange around,
                      int64_t block, std::map<int64_t, int64_t>& counts) {
  if (chain.empty()) {
    count_blocks(around, block, counts);
    return;
  }
  const Loop& loop = plan.loops[chain.front().index()];
  for (int64_t begin = around.begin; begin < around.end;) {
    const RowRange rows = iteration_from(loop, around, begin, 0);
    count_iterations(plan, chain.subspan(1), rows, block, counts);
    begin = rows.end;
  }
}

}  // namespace

ProgramFacts::ProgramFacts(const graph::Program& program, const graph::KernelCatalog& catalog)
    : program_(program),
      catalog_(catalog),
      lane_(graph::lane_length(program)),
      axes_(find_all_axes(program.graph)),
      partials_(find_partials(program, axes_)),
      users_(graph::find_users(program.graph)),
      scratch_(program.graph.nodes.size()),
      seconds_(program.graph.nodes.size()) {
  for (std::vector<graph::NodeId>& nodes : users_) {
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
  for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
    const graph::NodeId node(n);
    blocks_.push_back(catalog.block(program.graph, node));
    concrete_.push_back(graph::concrete_block(program.graph, node, blocks_.back(), program.batch));
    const graph::Node& source = program.graph.node(node);
    const std::vector<graph::ValueType> inputs = graph::input_types(program.graph, node);
    const std::vector<graph::ValueType> outputs = graph::output_types(program.graph, node);
    const graph::NodeTypes types{source.attributes, inputs, outputs};
    aliases_.push_back(source.op->aliases(types));
    forms_.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      forms_.back().push_back(source.op->saved_forms(types, static_cast<int>(i)));
    }
  }
}

Bytes ProgramFacts::scratch(graph::NodeId node, std::span<const BlockLengths> lengths,
                            std::span<const std::string> forms) {
  Bytes most;
  for_each_shape(lengths, [&](const std::vector<int64_t>& extents, int64_t) {
    most = max(most, ask_scratch(node, extents, forms));
  });
  return most;
}

double ProgramFacts::seconds(graph::NodeId node, std::span<const BlockLengths> lengths) {
  double all = 0;
  for_each_shape(lengths, [&](const std::vector<int64_t>& extents, int64_t count) {
    all += static_cast<double>(count) * ask_seconds(node, extents);
  });
  return all;
}

Bytes ProgramFacts::ask_scratch(graph::NodeId node, const std::vector<int64_t>& extents,
                                std::span<const std::string> forms) {
  ScratchKey key(extents, {forms.begin(), forms.end()});
  const auto found = scratch_[node.index()].find(key);
  if (found != scratch_[node.index()].end()) return found->second;
  const Bytes bytes = catalog_.scratch(graph(), node, batch(), extents, forms);
  scratch_[node.index()].emplace(std::move(key), bytes);
  return bytes;
}

double ProgramFacts::ask_seconds(graph::NodeId node, const std::vector<int64_t>& extents) {
  const auto found = seconds_[node.index()].find(extents);
  if (found != seconds_[node.index()].end()) return found->second;
  const double seconds = catalog_.seconds(graph(), node, batch(), extents);
  seconds_[node.index()].emplace(extents, seconds);
  return seconds;
}

namespace {

// So many blocks of each length, in one lane of that extent.
void count_lane(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId loop,
                int64_t extent, int64_t block, std::map<int64_t, int64_t>& counts) {
  std::vector<LoopId> chain;  // outermost first
  bool regular = true;        // every iteration starts at a multiple of the step
  int64_t step = block;
  for (; loop.valid(); loop = find_outer_loop(plan, parents, loop)) {
    const int64_t slice = plan.loops[loop.index()].slice;
    regular = regular && (slice % step == 0 || (chain.empty() && step % slice == 0));
    if (chain.empty()) step = std::min(step, slice);
    chain.insert(chain.begin(), loop);
  }
  if (regular) {
    if (extent / step > 0) counts[step] += extent / step;
    if (extent % step > 0) ++counts[extent % step];
  } else {
    count_iterations(plan, chain, {0, extent}, block, counts);
  }
}

}  // namespace

BlockLengths find_block_lengths(const ProgramPlan& plan, std::span<const LoopId> parents,
                                LoopId loop, const AxisRows& rows) {
  std::map<int64_t, int64_t> counts;
  const int64_t lane = rows.lane == 0 ? rows.extent : std::min(rows.lane, rows.extent);
  count_lane(plan, parents, loop, lane, rows.block, counts);
  for (auto& [length, count] : counts) count *= rows.extent / lane;
  if (rows.extent % lane > 0) {
    count_lane(plan, parents, loop, rows.extent % lane, rows.block, counts);
  }
  BlockLengths lengths;
  for (auto it = counts.rbegin(); it != counts.rend(); ++it)
    lengths.push_back({it->first, it->second});
  return lengths;
}

std::vector<BlockLengths> find_call_lengths(const ProgramPlan& plan,
                                            std::span<const LoopId> parents, LoopId around,
                                            const Call& call, const ProgramFacts& facts) {
  const std::vector<graph::Axis>& axes = facts.axes(call.node);
  const std::vector<LoopId> bound = bind_loops(plan, parents, around, call, axes);
  std::vector<BlockLengths> lengths;
  lengths.reserve(axes.size());
  for (size_t a = 0; a < axes.size(); ++a) {
    lengths.push_back(find_block_lengths(
        plan, parents, bound[a],
        {facts.extent(call.node, a), facts.lane(call.node, a), facts.block(call.node)[a]}));
  }
  return lengths;
}

}  // namespace plimsoll::plan
