#pragma once

// Checks a graph against the IR's invariants.
//
// Names unique; operands exist and stand before their users; types are what the shape rules say;
// a state is read before it is written, written once, and keeps its type; axes name dimensions
// that exist. A graph that fails is our bug or a hand-written text, so the answer is a message.

#include <optional>
#include <string>

#include "graph/program.h"

namespace plimsoll::graph {

// The first thing wrong, or nothing.
[[nodiscard]] std::optional<std::string> verify(const Graph& graph);
// Also that states of one name have one type over all programs.
[[nodiscard]] std::optional<std::string> verify(const ProgramSet& set);

}  // namespace plimsoll::graph
