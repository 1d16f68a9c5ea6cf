#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <vector>

#include "base/ceil_div.h"
#include "ops/fuse/rank_messages.h"

namespace plimsoll::ops {
namespace {

using graph::Exchanged;
using graph::Node;
using graph::ValueType;

int64_t levels_of(int64_t ranks) { return std::countr_zero(static_cast<uint64_t>(ranks)); }

// (ranks − 1) / ranks of so many bytes, by halves or from halves, in `times` messages each.
Exchanged by_halves(int64_t bytes, int64_t ranks, int64_t times) {
  const int64_t ways = times * graph::ways_by_halves(bytes / std::max<int64_t>(times, 1), ranks);
  return {times * levels_of(ranks), bytes - bytes / ranks, ways};
}

int64_t bytes_of(const ValueType& type, int64_t batch) {
  return tensor_bytes(type.dtype, type.shape, batch).count();
}

Exchanged sum(const Node& node, const std::vector<ValueType>& inputs, int64_t ranks) {
  constexpr const char* kRows = "rows_per_sample";
  if (node.op->name() == "rank_sum") {
    return graph::rank_message(inputs, std::array{node.attributes.get_int(kRows)}).exchanged(ranks);
  }
  return graph::rank_message(inputs, node.attributes.get_ints(kRows)).exchanged(ranks);
}

}  // namespace

Exchanged exchanged_by(const graph::Graph& graph, graph::NodeId id, const RankCounts& ranks,
                       int64_t batch) {
  const Node& node = graph.node(id);
  const std::vector<ValueType> inputs = input_types(graph, id);
  const std::string_view op = node.op->name();
  if (op == "rank_sum" || op == "rank_sums" || op == "rank_sum_begin") {
    return sum(node, inputs, ranks.counted);
  }
  if (op == "rank_scatter") {
    const int64_t bytes = ranks.program * bytes_of(output_types(graph, id)[0], 1);
    return by_halves(bytes, ranks.counted, ceil_div(bytes, graph::kScatteredBytes));
  }
  if (op == "rank_whole") {
    return by_halves(ranks.program * bytes_of(inputs[0], 1), ranks.counted, 1);
  }
  const int64_t levels = levels_of(ranks.counted);
  if (op == "rank_gather") {
    const int64_t bytes = bytes_of(inputs[0], batch);
    int64_t ways = 0;
    for (int64_t level = 0; level < levels; ++level) ways += graph::ways_of(bytes << level);
    return {levels, (ranks.counted - 1) * bytes, ways};
  }
  // From rank to rank, and from the last one to all.
  if (op == "rank_squares") return {2, 2 * int64_t{sizeof(double)}, ranks.counted - 1 + levels};
  return {};
}

bool goes_on_beside(const Node& node) { return node.op->name() == "rank_sum_begin"; }

Exchanged exchanged_by(const graph::Graph& graph, const RankCounts& ranks, int64_t batch) {
  Exchanged all;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    all += exchanged_by(graph, graph::NodeId(n), ranks, batch);
  }
  return all;
}

}  // namespace plimsoll::ops
