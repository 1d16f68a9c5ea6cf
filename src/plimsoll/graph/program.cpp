#include "graph/program.h"

#include <set>

#include "base/hash.h"
#include "graph/text.h"

namespace plimsoll::graph {

std::vector<StateVariable> states_of(const ProgramSet& set) {
  std::vector<StateVariable> states;
  std::set<std::string, std::less<>> seen;
  for (const Program& program : set.programs) {
    for (const StateVariable& state : program.graph.states) {
      if (!seen.insert(state.name).second) continue;
      states.push_back(state);
      states.back().incoming = ValueId();
      states.back().write = NodeId();
    }
  }
  return states;
}

const Program* find_program(const ProgramSet& set, std::string_view name) {
  for (const Program& program : set.programs) {
    if (program.name == name) return &program;
  }
  return nullptr;
}

uint64_t fingerprint(const ProgramSet& set) {
  HashStream hash;
  print(set, [&](std::string_view piece) { hash.add(piece); });
  return hash.value();
}

}  // namespace plimsoll::graph
