#include "planning/memory_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/kernel/backends.h"
#include "base/accounted.h"
#include "base/ceil_div.h"
#include "base/pages/code_pages.h"
#include "base/process_memory.h"
#include "exec/spill_queue.h"
#include "exec/step_times.h"

namespace plimsoll::planning {
namespace {

// Measured upper bounds on x86-64; see the header.
constexpr Bytes kBytesPerValue{416};
constexpr Bytes kBytesPerNode{1792};
// A number of a constant that the model file holds: in the text of file and graph, in the layers'
// configuration, which all copies share, in the kernel, and in what is read or written of it.
constexpr Bytes kBytesPerLiteral{112};
// Long names: how often they are held in graphs, plan and tables, and twice that while a plan is
// searched or a saved one is read, beside its text. Usual ones are part of the above.
constexpr int64_t kUsualName = 48;
constexpr int64_t kCopiesOfName = 2;
constexpr int64_t kHalfCopiesInSearch = 6;
constexpr int64_t kHalfCopiesInReading = 5;
// What each number takes that a metric counts and the program reads back: the counts as they are
// read, sums of them, and what is put aside while validation counts in the same states.
constexpr Bytes kBytesPerCount{16};
constexpr Bytes kFirstSearch = 1_MiB + 512_KiB;
constexpr Bytes kFurtherSearch = 512_KiB;
constexpr Bytes kStructuresBase = 512_KiB;
// A profile keeps a step's name and times, and what is made of them at the end.
constexpr Bytes kProfilePerNode{768};
// What of graph, plan and tables is part of what the backend allows for making kernels.
constexpr Bytes kStructuresInMaking = 1_MiB;
// The search for a plan, beside what stays of it: scores, a plan that is being built and placed.
// Where normalization over the batch cuts loops into phases, the choices in them too
// (plan/search/phase_search.h), whose size is bounded.
constexpr Bytes kSearchBase = 2_MiB + 256_KiB;
constexpr Bytes kSearchPerNode{1024};
constexpr Bytes kSearchPerLiteral{84};  // nothing has been written of it yet
constexpr Bytes kPhasesPerNode = 2_KiB;
constexpr Bytes kMostForPhases = 28_MiB;
// The data's buffers: what opening them has touched before the engine starts.
constexpr Bytes kTouchedByOpening = 1_MiB;
// What the program has touched less of while data are opened than at its start's peak.
constexpr Bytes kLessWhileOpening = 1_MiB;
constexpr int64_t kPageTableEntryBytes = 8;
// What any process of C++ has, a host too: what the engine's constants count of it is given.
constexpr Bytes kBareProcess = 5_MiB;
// Each state variable is loaded and stored a few times.
constexpr Bytes kTransfersPerState = 2_KiB;

// What values and nodes take, whatever they hold.
Bytes graph_bytes(const graph::ProgramSet& programs) {
  Bytes total = kStructuresBase;
  for (const graph::Program& program : programs.programs) {
    total += kBytesPerValue * std::ssize(program.graph.values);
    total += kBytesPerNode * std::ssize(program.graph.nodes);
  }
  return total;
}

Bytes structure_bytes(const graph::ProgramSet& programs, Bytes per_literal) {
  Bytes total = graph_bytes(programs);
  for (const graph::Program& program : programs.programs) {
    for (const graph::Node& node : program.graph.nodes) {
      if (!node.op->traits().literal) continue;
      total += per_literal *
               program.graph.value(node.outputs[0]).type.shape.element_count(program.batch);
    }
  }
  return total;
}

// Bytes of names beyond usual ones.
Bytes long_name_bytes(const graph::ProgramSet& programs) {
  int64_t total = 0;
  const auto add = [&](const std::string& name) {
    total += std::max<int64_t>(0, std::ssize(name) - kUsualName);
  };
  for (const graph::Program& program : programs.programs) {
    for (const graph::Value& value : program.graph.values) add(value.name);
    for (const graph::StateVariable& state : program.graph.states) add(state.name);
    for (const graph::Node& node : program.graph.nodes) {
      add(node.name);
      add(node.layer);
    }
  }
  return Bytes(total);
}

Bytes curve_bytes(const graph::ProgramSet& programs) {
  Bytes most;
  for (const graph::Program& program : programs.programs) {
    Bytes total;
    for (const graph::Node& node : program.graph.nodes) {
      if (!node.op->traits().read_back) continue;
      total += kBytesPerCount *
               program.graph.value(node.outputs[0]).type.shape.element_count(program.batch);
    }
    most = max(most, total);
  }
  return most;
}

Bytes profile_bytes(const graph::ProgramSet& programs) {
  constexpr Bytes kMarks(int64_t{exec::StepTimes::kMostMarks} * int64_t{sizeof(exec::StepMark)});
  Bytes total;
  for (const graph::Program& program : programs.programs) {
    total += kMarks + kProfilePerNode * std::ssize(program.graph.nodes);
  }
  return total;
}

Bytes search_bytes(const graph::ProgramSet& programs) {
  int64_t nodes = 0;
  int64_t in_phases = 0;  // updates come after all loops
  bool phases = false;
  for (const graph::Program& program : programs.programs) {
    nodes += std::ssize(program.graph.nodes);
    in_phases += std::ranges::count_if(program.graph.nodes, [](const graph::Node& node) {
      return node.stage != graph::Stage::kUpdate;
    });
    phases = phases || std::ranges::any_of(program.graph.nodes, [](const graph::Node& node) {
               return node.op->traits().sums_for_rows;
             });
  }
  Bytes total = kSearchBase + kSearchPerNode * nodes;
  if (phases) total += min(kPhasesPerNode * in_phases, kMostForPhases);
  return total;
}

}  // namespace

ProcessOverhead process_overhead(const graph::ProgramSet& programs, const backend::Backend& backend,
                                 const HeldBeside& held) {
  ProcessOverhead overhead;
  const backend::ResidentBytes resident = backend.resident_bytes(programs);
  overhead.engine = resident.engine;
  overhead.kernels = resident.kernels;
  const Bytes names = long_name_bytes(programs);
  const Bytes saved_plan = round_up(held.saved_plan, page_size());
  const int64_t half_copies = saved_plan > Bytes() ? kHalfCopiesInReading : kHalfCopiesInSearch;
  overhead.structures = structure_bytes(programs, kBytesPerLiteral) + curve_bytes(programs) +
                        names * kCopiesOfName + saved_plan +
                        (held.profiled ? profile_bytes(programs) : Bytes());
  overhead.data = held.data.held;
  overhead.exchange = held.exchange;
  overhead.search = structure_bytes(programs, kSearchPerLiteral) + search_bytes(programs) +
                    Bytes(names.count() * half_copies / 2) + saved_plan + held.times;
  const Bytes making =  // beside graphs, plan and tables
      resident.making + max(graph_bytes(programs) - kStructuresInMaking, Bytes());
  const Bytes start_up = held.given > Bytes() ? making : max(resident.start_up, making);
  overhead.start_up = max(start_up, resident.engine + overhead.search + resident.describing) +
                      max(min(held.data.held, kTouchedByOpening), held.data.opening.held);
  overhead.start_up = max(overhead.start_up, start_up - kLessWhileOpening + held.data.opening.peak);
  overhead.start_up += held.exchange;
  if (held.given > Bytes()) {
    overhead.given = held.given;
    overhead.engine -= kBareProcess;
    overhead.start_up -= kBareProcess;
    overhead.structures = max(overhead.structures, overhead.search);
  }
  return overhead;
}

Bytes read_given() {
  const void* const ours[] = {reinterpret_cast<const void*>(&read_given), backend::vendor_code()};
  if (!code_is_cut()) cut_code_of(ours);
  return read_process_memory().now() - resident_of_objects(ours);
}

ProcessOverhead with_clones(ProcessOverhead overhead, Bytes arena, Bytes counted) {
  const auto mapped = [](Bytes bytes) {
    const Bytes rounded = round_up(bytes, page_size());
    return rounded + page_tables_of(rounded);
  };
  overhead.structures += mapped(counted) - mapped(arena);
  return overhead;
}

void add_searches_before(int count, ProcessOverhead& overhead) {
  if (count == 0) return;
  const Bytes searched = kFirstSearch + kFurtherSearch * (count - 1);
  overhead.structures += searched;
  overhead.search += searched;
  overhead.start_up += searched;
}

Bytes spill_tables(const graph::ProgramSet& programs) {
  return exec::kSpillThreads +
         kTransfersPerState * static_cast<int64_t>(graph::states_of(programs).size());
}

Bytes page_tables_of(Bytes arena) {
  // One table page maps 512 pages; one more at either end where the arena straddles.
  const Bytes page = page_size();
  const int64_t pages = (arena.count() + page.count() - 1) / page.count();
  const int64_t per_table = page.count() / kPageTableEntryBytes;
  return page * (ceil_div(pages, per_table) + 2);
}

Bytes process_bytes(const ProcessOverhead& overhead, Bytes arena) {
  const Bytes rounded = round_up(arena, page_size());
  return overhead.given +
         max(overhead.start_up, overhead.total() + rounded + page_tables_of(rounded));
}

Bytes arena_within(const ProcessOverhead& overhead, Bytes limit) {
  if (limit < overhead.given + overhead.start_up) return Bytes(0);
  const Bytes page = page_size();
  Bytes arena = limit - overhead.given - overhead.total();
  arena = page * (arena.count() / page.count());
  while (arena > Bytes(0) && process_bytes(overhead, arena) > limit) arena -= page;
  return arena;
}

std::vector<plan::FrontierPoint> process_frontier(const ProcessOverhead& overhead,
                                                  std::vector<plan::FrontierPoint> arenas) {
  std::vector<plan::FrontierPoint> frontier;
  for (plan::FrontierPoint& point : arenas) {
    point.arena_bytes = process_bytes(overhead, point.arena_bytes);
    if (!frontier.empty() && frontier.back().arena_bytes == point.arena_bytes) frontier.pop_back();
    frontier.push_back(std::move(point));
  }
  return frontier;
}

std::vector<report::MemoryPart> memory_parts(const ProcessOverhead& overhead, Bytes state,
                                             Bytes arena) {
  const Bytes rounded = round_up(arena, page_size());
  std::vector<report::MemoryPart> parts = {{"engine and libraries", overhead.engine},
                                           {"kernels", overhead.kernels},
                                           {"graphs, plan and tables", overhead.structures},
                                           {"data buffers", overhead.data},
                                           {"arena: weights and state", state},
                                           {"arena: step", rounded - state},
                                           {"page tables of the arena", page_tables_of(rounded)}};
  if (overhead.given > Bytes())
    parts.insert(parts.begin(), {"held before by the process", overhead.given});
  if (overhead.exchange > Bytes()) parts.push_back({"exchange between ranks", overhead.exchange});
  if (overhead.spill > Bytes()) parts.push_back({"spill file's buffer", overhead.spill});
  if (overhead.ahead > Bytes()) parts.push_back({"reading ahead", overhead.ahead});
  const Bytes steady = overhead.total() + rounded + page_tables_of(rounded);
  if (overhead.start_up > steady) {
    parts.push_back({"more while starting", overhead.start_up - steady});
  }
  return parts;
}

std::vector<report::MemoryPart> accounted_parts(const ProcessOverhead& overhead, Bytes arena) {
  const std::pair<MemoryPart, Bytes> parts[] = {{MemoryPart::kEngine, overhead.engine},
                                                {MemoryPart::kKernels, overhead.kernels},
                                                {MemoryPart::kStructures, overhead.structures},
                                                {MemoryPart::kSearch, overhead.search},
                                                {MemoryPart::kData, overhead.data},
                                                {MemoryPart::kAhead, overhead.ahead},
                                                {MemoryPart::kSpill, overhead.spill},
                                                {MemoryPart::kFiles, overhead.structures},
                                                {MemoryPart::kArena, round_up(arena, page_size())}};
  std::vector<report::MemoryPart> named;
  for (const auto& [part, bytes] : parts) named.push_back({std::string(to_string(part)), bytes});
  return named;
}

}  // namespace plimsoll::planning
