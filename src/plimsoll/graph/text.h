#pragma once

// Graphs as text, both ways: parse(print(g)) == g.
//
//   program train batch 128
//   input %x float32 (B, 28, 28, 1)
//   state %conv/kernel float32 (3, 3, 1, 32) weight trainable layer=conv
//   node conv1 conv2d (%x, %conv/kernel) -> (%conv1 float32 (B, 26, 26, 32)) {strides=[1, 1]}
//   layer=conv forward node conv/kernel/write state_write (%adam) -> () writes=conv/kernel update
//   output %loss
//
// A text may hold several programs. Bounded: a text that asks for absurd sizes is refused.

#include <string>
#include <string_view>

#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::graph {

std::string print(const Graph& graph);
std::string print(const ProgramSet& set);
// Throws kModel with line number, expected, received.
Graph parse_graph(std::string_view text, const OpRegistry& registry);
ProgramSet parse_programs(std::string_view text, const OpRegistry& registry);

// "true", "3", "0.5", "\"relu\"", "[1, 2]": one attribute value as text.
std::string print(const AttributeValue& value);

}  // namespace plimsoll::graph
