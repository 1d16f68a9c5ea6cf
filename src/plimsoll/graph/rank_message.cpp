#include "graph/rank_message.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"

namespace plimsoll::graph {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;

}  // namespace

int64_t RankMessage::received_bytes() const {
  return whole ? bytes : ceil_div(std::min(bytes / unit, piece), 2) * unit;
}

int64_t ways_by_halves(int64_t bytes, int64_t ranks) {
  int64_t ways = 0;
  for (; ranks > 1; ranks /= 2) ways += ways_of(bytes /= 2);
  return ways;
}

Exchanged RankMessage::exchanged(int64_t ranks) const {
  const int64_t levels = std::countr_zero(static_cast<uint64_t>(ranks));
  if (whole) return {levels, levels * bytes, levels * ways_of(bytes)};
  const int64_t most = piece * unit;
  const int64_t rest = bytes % most;
  const int64_t ways =
      bytes / most * ways_by_halves(most, ranks) + (rest > 0 ? ways_by_halves(rest, ranks) : 0);
  return {2 * levels * ceil_div(bytes, most), 2 * (bytes - bytes / ranks), 2 * ways};
}

int64_t RankMessage::room_bytes() const { return (sums.size() > 1 ? bytes : 0) + received_bytes(); }

RankMessage rank_message(std::span<const ValueType> types, std::span<const int64_t> rows) {
  RankMessage message;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SumInMessage sum{types[i].dtype, message.bytes, types[i].shape.element_count(1), rows[i]};
    message.bytes += round_up(sum.bytes(), message.unit);
    message.whole |= rows[i] > 0;
    message.sums.push_back(sum);
  }
  if (rows.size() == 1) {
    message.bytes = message.sums[0].bytes();
    message.unit = element_bytes(message.sums[0].dtype).count();
  }
  message.whole |= message.bytes <= kMostWholeBytes;
  message.piece = kPieceBytes / message.unit;
  return message;
}

bool is_under_way(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kNode) return false;
  const Node& producer = graph.node(value.producer);
  return producer.attributes.has(kUnderWay) && producer.outputs.back() != id;
}

}  // namespace plimsoll::graph
