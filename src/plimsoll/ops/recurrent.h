#pragma once

// Recurrences over time: lstm, gru, simple_rnn and their gradients, as one family.
//
// The products with the inputs are no part of them: z = x · kernel + bias comes in whole, one row
// of G·U columns a time step (G gates: lstm i f c o, gru z r h, simple_rnn one). Neither are the
// gradients of the weights: they are dense_grad_kernel of the states before each step (shift_time)
// and of the gradient of the gates. What is left is the chain through time.
//
//   lstm        (z, R, …) → hidden (B,T,U), cells (B,T,U), gates (B,T,4U), h (B,U), c (B,U)
//   gru         (z, R, …) → hidden (B,T,U), gates (B,T,4U), h (B,U)
//   simple_rnn  (z, R, …) → hidden (B,T,U), gates (B,T,U), h (B,U)
//
// Further operands, each there if its attribute says so, in this order: the recurrent bias (3U;
// `recurrent_bias`, gru with reset_after), the first state (h0, and c0 of lstm; `initial_state`),
// the factors of recurrent dropout (B, G·U; `recurrent_dropout`), which steps count (bool (B,T);
// `masked`). A step that does not count leaves the state as it is. `go_backwards` runs from the
// last step to the first and keeps results at the places of their inputs.
//
// `gates` is what the gradient needs: a gate's activated value, or its sum where the slope of the
// activation is computed from that (activation_kinds.h); for gru after them the fourth block,
// h·R + bias of the candidate with reset_after, r·h without.
//
//   <cell>_grad (d hidden?, d h?, d c?, gates, cells | hidden, R, first state?, factors?, mask?)
//               → d z, d inner (gru with reset_after), d first state…
//
// `gradients` names the incoming ones: "y", "h", "c" in this order. "cells" is there for lstm,
// "hidden" for gru. The first state is c0 for lstm, h0 for gru. d inner is the gradient of
// h·R + bias, which differs from d z in its last block.
//
// The time is not declared as an axis: it is never cut. Everything that carries over steps is an
// output without it, so that declaring it as a scan needs no other arithmetic.

#include <string>
#include <string_view>

#include "graph/op.h"
#include "ops/activation_kinds.h"

namespace plimsoll::ops {

enum class CellKind : uint8_t { kLstm, kGru, kSimpleRnn };

// How a recurrent node or its gradient is laid out; −1: there is no such operand.
struct RecurrentLayout {
  CellKind kind = CellKind::kLstm;
  int64_t units = 1;
  int gates = 4;  // blocks of z
  int saved = 4;  // blocks of `gates`
  bool reset_after = false;
  bool go_backwards = false;
  bool initial_state = false;
  Activation activation{};
  Activation recurrent_activation{};
  int dy = -1, dh = -1, dc = -1;  // gradient nodes only
  int z = -1;                     // z, or the saved gates
  int sequence = -1;              // cells (lstm) or hidden (gru); gradient nodes only
  int kernel = -1, bias = -1, h0 = -1, c0 = -1, factors = -1, mask = -1;
  int operands = 0;
};

// Reads a node of operator lstm, gru, simple_rnn, or one with _grad after it. Throws kModel.
RecurrentLayout read_recurrent(std::string_view op, const graph::Attributes& attributes);

}  // namespace plimsoll::ops
