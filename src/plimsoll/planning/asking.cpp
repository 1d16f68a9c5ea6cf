#include "planning/asking.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "exec/spill_queue.h"
#include "plan/search/techniques.h"
#include "planning/tuning.h"

namespace plimsoll::planning {
namespace {

// One part in so many of the effort goes into each set of smaller blocks.
constexpr int64_t kSmallerSetShare = 4;
// Times the effort before, and how often, where a search that was cut short finds nothing.
constexpr int64_t kMoreEffort = 4;
constexpr int kLongerSearches = 2;

// Bytes that a spill file may have; none where there is no folder for one.
Bytes most_spilled(const PlanRequest& request) {
  if (request.spill == SpillUse::kNever) return Bytes();
  std::string folder;
  try {
    folder = choose_spill_folder(request.spill_directory);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo || request.spill == SpillUse::kAlways) throw;
    return Bytes();
  }
  return request.spill_limit.value_or(Bytes(free_space(folder).count() / 2));
}

std::optional<Bytes> arena_limit(const ProcessOverhead& overhead, std::optional<Bytes> limit) {
  if (!limit) return std::nullopt;
  return max(arena_within(overhead, *limit), Bytes(0));
}

// Plans with a spill file, where they are wanted.
void ask_spilled(PlanRequest request, plan::PlanOptions options, SetAnswer& answer) {
  const bool fits = answer.outcome.fits() != nullptr;
  const bool own = answer.catalog().block_set() == 0;
  const bool wanted = !fits || (own && (request.full_answer || request.spill == SpillUse::kAlways));
  const Bytes most = wanted ? most_spilled(request) : Bytes();
  if (most == Bytes()) return;
  const Bytes smallest = answer.process(answer.outcome.smallest);
  request.found = min(request.found.value_or(smallest), smallest);
  if (fits) {
    tell(request, "it fits; searching for the smallest limit with a spill file");
  } else {
    tell_search(request, ", now with a spill file");
  }
  const graph::ProgramSet& set = answer.lowered.built.set;
  const graph::KernelCatalog& catalog = answer.lowered.backend->catalog();
  if (fits && request.spill != SpillUse::kAlways) {
    options.arena_limit = std::nullopt;
    const plan::SmallestArena found =
        plan::find_smallest_spilled_arena(set, catalog, options, most);
    if (found.smallest) {
      answer.spilled = plan::SpilledPlans{found.lower_bound, *found.smallest, {}, std::nullopt};
    }
    return;
  }
  options.arena_limit = arena_limit(answer.with_file(), request.limit);
  answer.spilled = plan::make_spilled_plans(set, catalog, options, most);
  if (!answer.spilled || !answer.spilled->fits) return;
  const plan::Fits& file = *answer.spilled->fits;
  const double free_seconds =
      options.free_seconds > 0 ? options.free_seconds : answer.outcome.free_seconds;
  if (options.max_slowdown && file.seconds > *options.max_slowdown * free_seconds) return;
  const bool faster =
      request.spill == SpillUse::kAlways && fits && file.seconds < answer.fits()->seconds;
  answer.takes_file = !fits || faster;
  if (!answer.takes_file) return;
  if (file.plan.spill_bytes > Bytes()) answer.overhead = answer.with_file();
}

// What the search is told of a request: the only place where one becomes the other. `answer` has
// the set's programs and overhead.
plan::PlanOptions search_options(const PlanRequest& request, const SetAnswer& answer,
                                 int block_set) {
  plan::PlanOptions options;
  options.max_steps = block_set > 0 ? request.plan_steps / kSmallerSetShare : request.plan_steps;
  options.max_slowdown = request.max_slowdown;
  options.clone_bytes = answer.clone_bytes;
  plan::switch_off(request.without, options);
  options.arena_limit = arena_limit(answer.overhead, request.limit);
  options.choice = answer.timed.get();
  options.search_by_choice = answer.timed && has_calls(request.times);
  return options;
}

void fill_overhead(const Lowering& lowering, const PlanRequest& request, int block_set,
                   SetAnswer& answer) {
  answer.least_overhead = answer.overhead = overhead_of(answer.lowered, request);
  answer.clone_bytes = clone_bytes_of(answer.lowered.built.set);
  if (request.any_data) {
    PlanRequest without = request;
    without.data = {};
    answer.least_overhead = overhead_of(answer.lowered, without);
    if (const std::optional<Lowered> tailed = lowering.lower_with_tail(block_set)) {
      answer.overhead = overhead_of(*tailed, request);
      answer.clone_bytes = clone_bytes_of(tailed->built.set);
    }
  }
  // Ranks look for a plan that exchanges beside computing, too.
  const int beside = request.ranks.count > 1 ? 1 : 0;
  const int before = request.searches_before + block_set + beside;
  add_searches_before(before, answer.overhead);
  add_searches_before(before, answer.least_overhead);
}

// A set's programs, and what to ask the planner.
struct Question {
  SetAnswer answer;
  plan::PlanOptions options;
  std::vector<std::shared_ptr<const void>> remembered = {};  // of the programs' graphs
};

Question prepare(const Lowering& lowering, const PlanRequest& request, int block_set) {
  Question question;
  SetAnswer& answer = question.answer;
  answer.lowered = lowering.lower(block_set, request.beside);
  answer.timed = timed_catalog(*answer.lowered.backend, request);
  const graph::ProgramSet& set = answer.lowered.built.set;
  for (const graph::Program& program : set.programs) {
    question.remembered.push_back(answer.catalog().remember(program.graph));
  }
  fill_overhead(lowering, request, block_set, answer);
  question.options = search_options(request, answer, block_set);
  return question;
}

}  // namespace

ProcessOverhead SetAnswer::overhead_taken() const {
  const plan::Fits* plan = fits();
  if (plan == nullptr) return overhead;
  return with_clones(overhead, plan->plan.arena_bytes,
                     plan::counted_bytes(plan->plan, clone_bytes));
}

ProcessOverhead SetAnswer::with_file() const {
  ProcessOverhead with = overhead;
  with.spill = exec::kSpillBuffer + spill_tables(lowered.built.set);
  return with;
}

Bytes clone_bytes_of(const graph::ProgramSet& set) {
  const auto trains = [](const graph::Program& program) {
    return std::ranges::any_of(program.graph.nodes, [](const graph::Node& node) {
      return node.stage == graph::Stage::kBackward;
    });
  };
  return kBytesPerClone * std::ranges::count_if(set.programs, trains);
}

ProcessOverhead overhead_of(const Lowered& lowered, const PlanRequest& request) {
  return process_overhead(lowered.built.set, *lowered.backend, held_beside(request));
}

Bytes smallest_of(const SetAnswer& answer) {
  const Bytes plain = answer.process(answer.outcome.smallest);
  return answer.spilled ? min(plain, answer.process_with_file(answer.spilled->smallest)) : plain;
}

SetAnswer ask(const Lowering& lowering, const PlanRequest& request, int block_set,
              double free_seconds) {
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  options.free_seconds = free_seconds;
  answer.outcome =
      plan::make_plan(answer.lowered.built.set, answer.lowered.backend->catalog(), options);
  ask_spilled(request, options, answer);
  return std::move(answer);
}

SetAnswer ask_smallest(const Lowering& lowering, const PlanRequest& request, int block_set) {
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  options.arena_limit = std::nullopt;
  const plan::SmallestArena found = plan::find_smallest_arena(
      answer.lowered.built.set, answer.lowered.backend->catalog(), options);
  answer.outcome.lower_bound = found.lower_bound;
  answer.outcome.smallest = *found.smallest;
  return std::move(answer);
}

bool ask_fits(const Lowering& lowering, const PlanRequest& request, int block_set) {
  if (request.max_slowdown) return ask(lowering, request, block_set).fits() != nullptr;
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  const graph::ProgramSet& set = answer.lowered.built.set;
  const graph::KernelCatalog& catalog = answer.lowered.backend->catalog();
  plan::SmallestArena found = plan::find_smallest_arena(set, catalog, options);
  if (found.smallest && *found.smallest <= *options.arena_limit) return true;
  const Bytes most = most_spilled(request);
  if (most == Bytes()) return false;
  options.arena_limit = arena_limit(answer.with_file(), request.limit);
  found = plan::find_smallest_spilled_arena(set, catalog, options, most);
  return found.smallest && *found.smallest <= *options.arena_limit;
}

SetAnswer ask_own(const Lowering& lowering, PlanRequest request) {
  SetAnswer answer = ask(lowering, request, 0);
  for (int search = 0; search < kLongerSearches; ++search) {
    const bool may_fit =
        request.limit && (answer.process_bound(answer.outcome.lower_bound) <= *request.limit ||
                          (answer.spilled && answer.process_with_file(
                                                 answer.spilled->lower_bound) <= *request.limit));
    if (!request.extends || answer.fits() != nullptr || !may_fit || !answer.outcome.cut_short) {
      break;
    }
    request.plan_steps *= kMoreEffort;
    request.found = smallest_of(answer);
    tell_search(request, fmt::format(", {} times as long", kMoreEffort));
    SetAnswer longer = ask(lowering, request, 0);
    // More effort takes other ways, which may end higher.
    const bool better = longer.fits() != nullptr ||
                        longer.outcome.smallest < answer.outcome.smallest ||
                        (longer.spilled && longer.spilled->smallest < answer.spilled->smallest);
    if (better) answer = std::move(longer);
  }
  return answer;
}

std::optional<SetAnswer> ask_beside(const Lowering& lowering, PlanRequest request,
                                    const SetAnswer& chosen) {
  const bool plain = chosen.fits() != nullptr && !chosen.takes_file;
  if (request.ranks.count == 1 || !plain) return std::nullopt;
  const int block_set = chosen.catalog().block_set();
  const graph::ProgramSet split = lowering.lower(block_set, true).built.set;
  if (graph::fingerprint(split) == graph::fingerprint(chosen.lowered.built.set)) {
    return std::nullopt;  // no sum can wait
  }
  request.beside = true;
  request.spill = SpillUse::kNever;
  request.limit = request.limit.value_or(guard_without_limit());
  SetAnswer beside = ask(lowering, request, block_set, chosen.outcome.free_seconds);
  if (beside.fits() == nullptr) return std::nullopt;
  return beside;
}

}  // namespace plimsoll::planning
