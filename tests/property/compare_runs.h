#pragma once

// Runs plans of one set of programs and keeps everything that comes out, as bytes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "exec/executor.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::property {

// Bytes by name: "<program>/<output>/<run>" and "state/<name>".
using Results = std::map<std::string, std::vector<std::byte>>;

// The elements of a state variable of which a rank holds a part.
struct HeldPart {
  int64_t first = 0;
  int64_t whole = 0;  // of the variable; what lies behind is 0
};
using HeldParts = std::map<std::string, HeldPart>;

// Runs `order` (positions of programs; with `ranks`, this one's share of them), each with its own
// step number, on fixed inputs and states. Counters start at 0, optimizer slots and variances are
// not negative, everything else is spread around zero.
Results run_programs(const graph::ProgramSet& programs, const plan::Plan& plan,
                     backend::Backend& backend, const std::vector<size_t>& order,
                     const exec::ExecutorOptions& options, Ranks* ranks = nullptr,
                     const HeldParts& held = {});

// Train twice, then each other program once, then train again.
std::vector<size_t> usual_order(const graph::ProgramSet& programs);

// Names what differs first, or "".
std::string first_difference(const Results& expected, const Results& received);

}  // namespace plimsoll::property
