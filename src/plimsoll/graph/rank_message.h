#pragma once

// How sums lie in a message that ranks exchange.
//
//   one sum       as it lies in memory
//   several       side by side, each from a multiple of 8 bytes on
//
// A short message goes whole from rank to rank; so does one with sums that are merged. A long one
// goes in halves, piece by piece: it is sent twice, but less of it.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::graph {

// A message of sums of no more bytes goes whole.
inline constexpr int64_t kMostWholeBytes = 8 << 10;
// What a sum of which each rank gets a part takes in one message, all ranks' parts together.
inline constexpr int64_t kScatteredBytes = 1 << 20;

// A longer message is announced, and sent when the other side has asked for it (Open MPI over TCP).
inline constexpr int64_t kMostUnasked = 64 << 10;
// How many ways one after another so many bytes take in one message, and in messages by halves.
constexpr int64_t ways_of(int64_t bytes) { return bytes > kMostUnasked ? 3 : 1; }
int64_t ways_by_halves(int64_t bytes, int64_t ranks);

// What one of several ranks sends, and how many ways of messages it waits for one after another.
struct Exchanged {
  int64_t messages = 0;
  int64_t bytes = 0;
  int64_t waits = 0;
  Exchanged& operator+=(const Exchanged& other) {
    messages += other.messages;
    bytes += other.bytes;
    waits += other.waits;
    return *this;
  }
};

struct SumInMessage {
  DType dtype = DType::kFloat32;
  int64_t begin = 0;  // byte of the message
  int64_t count = 0;  // elements
  int64_t rows = 0;   // that are merged, of a sample; 0: it is added

  int64_t bytes() const { return count * element_bytes(dtype).count(); }
};

struct RankMessage {
  std::vector<SumInMessage> sums;
  int64_t bytes = 0;
  int64_t unit = 8;   // bytes; it is halved between two of them
  int64_t piece = 0;  // units that go in halves at a time
  bool whole = false;

  // What is received at once.
  int64_t received_bytes() const;
  // What goes between so many ranks.
  Exchanged exchanged(int64_t ranks) const;
  // What an exchange needs beside its operands: what is received, and where there are several sums
  // the message.
  int64_t room_bytes() const;
};

// The message that holds sums of these types, of so many merged rows each.
RankMessage rank_message(std::span<const ValueType> types, std::span<const int64_t> rows);

// Attributes of a node that begins an exchange and of the one that waits for it. In between the
// results of the first, but for the last, are written to: nobody else reads them, and they stay
// where they are.
inline constexpr const char* kUnderWay = "under_way";
inline constexpr const char* kWaits = "waits";
bool is_under_way(const Graph& graph, ValueId value);

}  // namespace plimsoll::graph
