#pragma once

// Operands of attention nodes, for rules and kernels alike (attention.cpp says what they are).

#include <string_view>

#include "graph/attributes.h"

namespace plimsoll::ops {

inline constexpr std::string_view kQueriesAxis = "queries";
inline constexpr std::string_view kKeysAxis = "keys";

// Positions among the inputs; −1: there is none. q, k and v are 0, 1 and 2.
struct AttentionOperands {
  int key_mask = -1;
  int query_mask = -1;
  int mask = -1;
  int stats = -1;  // and the two after it: gradients only
  int dout = -1;
  int dot = -1;
  int count = 3;
};

AttentionOperands read_attention(const graph::Attributes& attributes, bool gradient);

}  // namespace plimsoll::ops
