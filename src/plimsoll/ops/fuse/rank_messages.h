#pragma once

// In which messages ranks exchange what their programs sum (fuse.h: insert_rank_sums).
//
//   rank_sum, rank_sum, rank_sum   ─▶  rank_sums                         one message
//   rank_sums                      ─▶  rank_sum_begin … rank_sum_end     goes on beside what is
//   between
//
// Exchanges stay in one order on all ranks, and sums in the tree that they are in.

#include <cstdint>

#include "graph/ir.h"
#include "graph/op.h"
#include "graph/rank_message.h"

namespace plimsoll::ops {

// How many bytes go in one message, and how many a sum may have that shares one with others. A
// message of 256 KiB takes some seven times as long at 10 Gbit/s as its way of 30 µs.
struct BucketSizes {
  int64_t bucket = 256 << 10;
  int64_t sum = 64 << 10;
};

// Sums that need not be waited for one by one are exchanged in one message, a `rank_sums` node.
graph::Graph join_rank_sums(const graph::Graph& graph, const graph::OpRegistry& registry,
                            const BucketSizes& sizes = {});

// After that, where there is memory for it: sums that only updates need are begun by
// `rank_sum_begin`, and waited for by `rank_sum_end` when the next exchange has begun. What is
// exchanged, and in which order, is the same.
graph::Graph split_rank_sums(const graph::Graph& graph, const graph::OpRegistry& registry);

// For how many ranks a program was made, and as how many its exchanges are counted.
struct RankCounts {
  int64_t program = 1;
  int64_t counted = 1;
};

// What the exchanges of a program send; `batch`: samples of a rank.
graph::Exchanged exchanged_by(const graph::Graph& graph, const RankCounts& ranks, int64_t batch);
// What one of its nodes sends; nothing where it only waits.
graph::Exchanged exchanged_by(const graph::Graph& graph, graph::NodeId node,
                              const RankCounts& ranks, int64_t batch);
// Whether a node begins what goes on beside those after it, until the next exchange.
bool goes_on_beside(const graph::Node& node);

}  // namespace plimsoll::ops
