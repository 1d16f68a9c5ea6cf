#pragma once

// Graphs as text, both ways: parse(print(g)) == g.
//
//   program train batch 128
//   input %x float32 (B, 28, 28, 1)
//   state %conv/kernel float32 (3, 3, 1, 32) weight trainable layer=conv
//   node conv1 conv2d (%x, %conv/kernel) -> (%conv1 float32 (B, 26, 26, 32)) {strides=[1, 1]}
//     layer=conv forward                                                     (all on one line)
//   node conv/kernel/write state_write (%adam) -> () {} writes=conv/kernel update
//   output %loss
//
// Lines stand in the order of the values. `state %s` declares variable s and its incoming value of
// the same name; `state s` declares the variable alone, and `read %v s` names its incoming value
// later. Names of other characters than letters, digits and _./:+- stand in quotes. Blank lines and
// lines that begin with # mean nothing. Ids are numbered as the lines come, which is how the
// builder numbers them; that is what makes the round trip exact.
//
// A text may hold several programs. parse resolves names only; whether the graph is right is the
// verifier's question (verify.h). Bounded: a text that asks for absurd sizes is refused.

#include <functional>
#include <string>
#include <string_view>

#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::graph {

std::string print(const Graph& graph);
std::string print(const ProgramSet& set);
// The same in pieces, for who need not hold all of it.
using TextSink = std::function<void(std::string_view)>;
void print(const ProgramSet& set, const TextSink& sink);
// Throws kModel with line number, expected, received.
Graph parse_graph(std::string_view text, const OpRegistry& registry);
ProgramSet parse_programs(std::string_view text, const OpRegistry& registry);

// "true", "3", "0.5", "\"relu\"", "[1, 2]": one attribute value as text.
std::string print(const AttributeValue& value);

}  // namespace plimsoll::graph
