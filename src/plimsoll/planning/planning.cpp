#include "planning/planning.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/accounted.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "exec/spill_queue.h"
#include "graph/graph_memory.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "layers/model/precision.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/optimizers.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"
#include "plan/search/spilled.h"
#include "plan/search/techniques.h"
#include "plan/search/why.h"
#include "plan/tree/lasting_packs.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "planning/batch_search.h"
#include "planning/tuning.h"
#include "planning/ways_out.h"

namespace plimsoll::planning {
namespace {

// Halving 2^30 rows leaves nothing above 1.
constexpr int kMostBlockSets = 31;
// Of the effort goes into each set of smaller blocks, and into each batch size that is tried.
constexpr int64_t kSmallerSetShare = 4;
constexpr int64_t kBatchShare = 3;
// Times the effort before, and how often, where a search that was cut short finds nothing.
constexpr int64_t kMoreEffort = 4;
constexpr int kLongerSearches = 2;
constexpr int64_t kLargestBatchTried = int64_t{1} << 20;

void tell(const PlanRequest& request, const std::string& what) {
  if (request.tell) request.tell(what);
}

backend::KernelSetOptions kernel_options(const PlanRequest& request, int block_set) {
  backend::KernelSetOptions options;
  options.threads = request.threads;
  options.block_set = block_set;
  return options;
}

// The graph with packed weights where the backend wants them.
graph::Graph with_packs(const graph::Graph& graph, const backend::Backend& backend) {
  const std::shared_ptr<const void> remembered = graph::remember(backend.catalog(), graph);
  std::vector<std::vector<ops::PackOffer>> offers(graph.nodes.size());
  bool any = false;
  for (size_t n = 0; n < offers.size(); ++n) {
    offers[n] = backend.packs(graph, graph::NodeId(n));
    any = any || !offers[n].empty();
  }
  if (!any) return graph;
  return ops::insert_packs(graph, ops::registry(), [&](const graph::Graph&, graph::NodeId node) {
    return offers[node.index()];
  });
}

// A model's programs, built and fused once for all block sets: those differ in packed weights only.
class Lowering {
 public:
  Lowering(const layers::Model& model, const layers::CompileOptions& compile,
           const layers::BatchSizes& batches, const PlanRequest& request)
      : request_(request), fused_(layers::build_programs(model, compile, batches)) {
    const std::unique_ptr<backend::Backend> backend = make_backend(0);
    for (graph::Program& program : fused_.set.programs) {
      program.graph = ops::fuse(program.graph, ops::registry(), backend->offers(), program.batch);
    }
  }

  Lowered lower(int block_set) const {
    Lowered made{
        {{}, fused_.train_inputs, fused_.predict_inputs, fused_.metrics, fused_.learning_rate},
        make_backend(block_set)};
    for (const graph::Program& p : fused_.set.programs) {
      made.built.set.programs.push_back({p.name, with_packs(p.graph, *made.backend), p.batch});
    }
    const std::optional<std::string> wrong = graph::verify(made.built.set);
    PLIMSOLL_CHECK(!wrong, wrong.value_or(""));
    return made;
  }

 private:
  std::unique_ptr<backend::Backend> make_backend(int block_set) const {
    const std::string_view name =
        request_.backend.empty() ? backend::default_backend() : std::string_view(request_.backend);
    backend::KernelSetOptions options = kernel_options(request_, block_set);
    // Blocks of other layers that hold more than a group would hold several in every slice.
    const int64_t group = layers::batch_norm_group_of(fused_.set);
    if (group > 0) {
      const uint64_t most = std::bit_floor(static_cast<uint64_t>(group));
      options.caps.emplace_back(graph::kBatchAxis, static_cast<int64_t>(most));
    }
    return backend::make_backend(name, options);
  }

  const PlanRequest& request_;
  layers::BuiltPrograms fused_;
};

bool all_ones(const graph::ProgramSet& set, const graph::KernelCatalog& catalog) {
  for (const graph::Program& program : set.programs) {
    const std::shared_ptr<const void> remembered = graph::remember(catalog, program.graph);
    for (size_t i = 0; i < program.graph.nodes.size(); ++i) {
      const graph::Block block = catalog.block(program.graph, graph::NodeId(i));
      if (std::any_of(block.begin(), block.end(), [](int64_t n) { return n > 1; })) return false;
    }
  }
  return true;
}

// Of a clone in the plan of a training step, and of the one in that of the short last batch.
Bytes clone_bytes(const graph::ProgramSet& set) {
  const auto trains = [](const graph::Program& program) {
    return std::ranges::any_of(program.graph.nodes, [](const graph::Node& node) {
      return node.stage == graph::Stage::kBackward;
    });
  };
  return kBytesPerClone * std::ranges::count_if(set.programs, trains);
}

// One block set's answer, in bytes of the whole process.
struct SetAnswer {
  Lowered lowered;
  std::unique_ptr<graph::KernelCatalog> timed;  // by measured times; null: there are none
  ProcessOverhead overhead;
  plan::PlanOutcome outcome;
  std::optional<plan::SpilledPlans> spilled;  // where it was asked for and there are any
  bool takes_file = false;                    // the plan with the file, not the one without

  // What plans are chosen by.
  const graph::KernelCatalog& catalog() const {
    return timed ? *timed : lowered.backend->catalog();
  }
  // What is taken; null: nothing fits.
  const plan::Fits* fits() const { return takes_file ? &*spilled->fits : outcome.fits(); }
  // With the clones of what is taken, which the search counts as part of the arena.
  ProcessOverhead overhead_taken() const {
    ProcessOverhead taken = overhead;
    if (const plan::Fits* plan = fits()) {
      const Bytes counted = plan::counted_bytes(plan->plan, clone_bytes(lowered.built.set));
      taken.structures +=
          round_up(counted, page_size()) - round_up(plan->plan.arena_bytes, page_size());
    }
    return taken;
  }
  // Without a spill file, whatever is taken.
  Bytes process(Bytes arena) const { return process_bytes(without_file(), arena); }
  ProcessOverhead without_file() const {
    ProcessOverhead plain = overhead;
    plain.spill = Bytes();
    return plain;
  }
  Bytes process_with_file(Bytes arena) const { return process_bytes(with_file(), arena); }
  ProcessOverhead with_file() const {
    ProcessOverhead with = overhead;
    with.spill = exec::kSpillBuffer + spill_tables(lowered.built.set);
    return with;
  }
};

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
void ask_spilled(const PlanRequest& request, plan::PlanOptions options, SetAnswer& answer) {
  const bool fits = answer.outcome.fits() != nullptr;
  const bool own = answer.catalog().block_set() == 0;
  const bool wanted = !fits || (own && (request.full_answer || request.spill == SpillUse::kAlways));
  const Bytes most = wanted ? most_spilled(request) : Bytes();
  if (most == Bytes()) return;
  tell(request, fits ? "planning with a spill file, for its smallest limit"
                     : "no plan without a spill file: planning with one");
  const graph::ProgramSet& set = answer.lowered.built.set;
  const graph::KernelCatalog& catalog = answer.catalog();
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

ProcessOverhead overhead_of(const Lowered& lowered, const PlanRequest& request) {
  ProcessOverhead overhead =
      process_overhead(lowered.built.set, *lowered.backend, request.data, request.data_opening);
  if (request.times.known) overhead.start_up += held_bytes(*request.times.known);
  return overhead;
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
  answer.lowered = lowering.lower(block_set);
  answer.timed = timed_catalog(*answer.lowered.backend, request);
  const graph::ProgramSet& set = answer.lowered.built.set;
  for (const graph::Program& program : set.programs) {
    question.remembered.push_back(graph::remember(answer.catalog(), program.graph));
  }
  answer.overhead = overhead_of(answer.lowered, request);
  add_searches_before(block_set, answer.overhead);
  plan::PlanOptions& options = question.options;
  options.max_steps = block_set > 0 ? request.plan_steps / kSmallerSetShare : request.plan_steps;
  options.max_slowdown = request.max_slowdown;
  options.clone_bytes = clone_bytes(set);
  plan::switch_off(request.without, options);
  options.arena_limit = arena_limit(answer.overhead, request.limit);
  return question;
}

SetAnswer ask(const Lowering& lowering, const PlanRequest& request, int block_set,
              double free_seconds = 0) {
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  options.free_seconds = free_seconds;
  answer.outcome = plan::make_plan(answer.lowered.built.set, answer.catalog(), options);
  ask_spilled(request, options, answer);
  return std::move(answer);
}

// Of its outcome the smallest arena and the lower bound alone, whatever the limit is.
SetAnswer ask_smallest(const Lowering& lowering, const PlanRequest& request, int block_set) {
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  options.arena_limit = std::nullopt;
  const plan::SmallestArena found =
      plan::find_smallest_arena(answer.lowered.built.set, answer.catalog(), options);
  answer.outcome.lower_bound = found.lower_bound;
  answer.outcome.smallest = *found.smallest;
  return std::move(answer);
}

// Whether there is a plan within the limit, with a spill file where one may be used.
bool ask_fits(const Lowering& lowering, const PlanRequest& request, int block_set) {
  if (request.max_slowdown) return ask(lowering, request, block_set).fits() != nullptr;
  auto [answer, options, remembered] = prepare(lowering, request, block_set);
  const graph::ProgramSet& set = answer.lowered.built.set;
  const graph::KernelCatalog& catalog = answer.catalog();
  plan::SmallestArena found = plan::find_smallest_arena(set, catalog, options);
  if (found.smallest && *found.smallest <= *options.arena_limit) return true;
  const Bytes most = most_spilled(request);
  if (most == Bytes()) return false;
  tell(request, "no plan without a spill file: planning with one");
  options.arena_limit = arena_limit(answer.with_file(), request.limit);
  found = plan::find_smallest_spilled_arena(set, catalog, options, most);
  return found.smallest && *found.smallest <= *options.arena_limit;
}

// The kernel set's own blocks, with more and more effort where nothing fits and more would be
// tried.
SetAnswer ask_own(const Lowering& lowering, PlanRequest request) {
  SetAnswer answer = ask(lowering, request, 0);
  for (int search = 0; search < kLongerSearches; ++search) {
    const bool may_fit =
        request.limit && (answer.process(answer.outcome.lower_bound) <= *request.limit ||
                          (answer.spilled && answer.process_with_file(
                                                 answer.spilled->lower_bound) <= *request.limit));
    if (!request.extends || answer.fits() != nullptr || !may_fit || !answer.outcome.cut_short) {
      break;
    }
    request.plan_steps *= kMoreEffort;
    tell(request, "no plan within the limit yet: searching " + std::to_string(kMoreEffort) +
                      " times as long");
    SetAnswer longer = ask(lowering, request, 0);
    // More effort takes other ways, which may end higher.
    const bool better = longer.fits() != nullptr ||
                        longer.outcome.smallest < answer.outcome.smallest ||
                        (longer.spilled && longer.spilled->smallest < answer.spilled->smallest);
    if (better) answer = std::move(longer);
  }
  return answer;
}

// Which plans a search comes by depends on times: what is found by the backend's own is found
// whatever was measured.
SetAnswer ask_by_either(const Lowering& lowering, PlanRequest& request) {
  SetAnswer answer = ask_own(lowering, request);
  if (answer.fits() != nullptr || !request.times.known || request.max_slowdown) return answer;
  tell(request, "no plan by measured times: planning by the model's");
  PlanRequest other = request;
  other.times = {};
  SetAnswer found = ask_own(lowering, other);
  if (found.fits() == nullptr) return answer;
  request.times = {};
  return found;
}

std::string guard_text() {
  const CgroupMemory group = read_cgroup_memory();
  if (group.version == CgroupVersion::kNone) return "none: no memory cgroup";
  const std::string name = "memory cgroup " + std::string(to_string(group.version));
  return group.limit ? name + ", limit " + to_string(*group.limit) : name + ", no limit";
}

// Of what the limit leaves over: as much as the data want, or what is worth having.
Bytes left_for_reading_ahead(const PlanRequest& request, Bytes process) {
  // A time allowed without a limit asks for the least memory.
  if (request.max_slowdown && !request.limit) return {};
  const Bytes least = min(request.data_ahead, 2_MiB);
  const Bytes limit = request.limit ? *request.limit : guard_without_limit();
  if (limit < process + least) return {};
  return min(request.data_ahead, limit - process);
}

// The same for transfers on their way, beyond the least buffer.
Bytes left_for_transfers(const PlanRequest& request, Bytes process) {
  const Bytes limit = request.limit ? *request.limit : guard_without_limit();
  const Bytes left = max(limit - process, Bytes());
  const Bytes granted = min(left, exec::kMostSpillBuffer - exec::kSpillBuffer);
  return Bytes(granted.count() / page_size().count() / 2 * page_size().count() * 2);
}

ProcessOverhead fill_chosen(const SetAnswer& chosen, bool fits, const PlanRequest& request,
                            report::PlanSummary& summary) {
  const graph::KernelCatalog& catalog = chosen.catalog();
  summary.kernel_set = catalog.kernel_set();
  summary.precision = to_string(layers::precision_of(chosen.lowered.built.set));
  summary.batch_norm_group = layers::batch_norm_group_of(chosen.lowered.built.set);
  summary.block_set = catalog.block_set();
  summary.threads = catalog.thread_count();
  const plan::Fits* plan = chosen.fits();
  Bytes state;
  ProcessOverhead overhead = chosen.overhead;
  if (fits && plan != nullptr) {
    overhead = chosen.overhead_taken();
    summary.spill = plan->plan.spill_bytes;
    summary.planned_arena = plan->plan.arena_bytes;
    summary.arena_load = plan::find_arena_load(plan->plan);
    summary.seconds_per_step = plan->seconds;
    summary.strategy = plan->what;
    state = plan->plan.state_bytes;
  } else {
    summary.planned_arena = chosen.outcome.smallest;
    if (!chosen.outcome.frontier.empty()) {
      summary.seconds_per_step = chosen.outcome.frontier.front().seconds;
      summary.strategy = chosen.outcome.frontier.front().what;
    }
    for (const graph::StateVariable& variable : graph::states_of(chosen.lowered.built.set)) {
      state +=
          round_up(tensor_bytes(variable.type.dtype, variable.type.shape, 1), plan::kAlignment);
    }
  }
  summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  if (summary.spill > Bytes()) {
    overhead.spill += left_for_transfers(request, summary.predicted_process);
    summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  }
  if (fits) overhead.ahead = left_for_reading_ahead(request, summary.predicted_process);
  summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  summary.parts = memory_parts(overhead, state, summary.planned_arena);
  summary.accounted = accounted_parts(overhead, summary.planned_arena);
  return overhead;
}

void fill_own_set(const SetAnswer& own, report::PlanSummary& summary) {
  summary.smallest_same_bits = own.process(own.outcome.smallest);
  summary.free_plan = own.process(own.outcome.free_plan);
  summary.culprits = own.outcome.culprits;
  summary.searched_all = !own.outcome.cut_short;
  summary.smallest_is_proved = own.outcome.smallest <= own.outcome.lower_bound;
  if (own.spilled) {
    // Whoever may use a file need not.
    summary.smallest_with_spill =
        min(own.process_with_file(own.spilled->smallest), summary.smallest_same_bits);
  }
  summary.frontier = process_frontier(own.without_file(), own.outcome.frontier);
  for (plan::FrontierPoint point : own.outcome.plain) {
    point.arena_bytes = own.process(point.arena_bytes);
    summary.plain.push_back(std::move(point));
  }
}

// Rounded figures may look alike where bytes decide.
std::string exactly(Bytes bytes) {
  return to_string(bytes) + " (" + std::to_string(bytes.count()) + " B)";
}

// What no plan with these blocks can undercut, in bytes of the whole process, and why.
struct ProcessBound {
  Bytes bytes;
  std::string words;
};
ProcessBound find_bound(const SetAnswer& answer, bool spill) {
  ProcessBound bound;
  std::string proof;
  const Bytes arena = plan::lower_bound(answer.lowered.built.set, answer.catalog(), &proof, spill);
  bound.bytes = answer.process(arena);
  if (bound.bytes == answer.overhead.start_up) {
    bound.words = "so much is taken while the process starts, whatever is planned";
  } else {
    bound.words =
        to_string(answer.overhead.total()) + " for the process outside of the arena, and " + proof;
  }
  return bound;
}

// The least of all blocks that were asked for; of plans that may use a file where one is allowed.
void note_bound(const SetAnswer& answer, const PlanRequest& request,
                std::optional<ProcessBound>& least) {
  if (!request.limit) return;
  ProcessBound bound = find_bound(answer, request.spill != SpillUse::kNever);
  if (!least || bound.bytes < least->bytes) least = std::move(bound);
}

// The smallest of the frontier's plans that take no longer than is allowed.
std::optional<Bytes> smallest_in_time(const report::PlanSummary& summary) {
  if (!summary.max_slowdown || summary.frontier.empty()) return std::nullopt;
  const double most = *summary.max_slowdown * summary.frontier.back().seconds;
  for (const plan::FrontierPoint& point : summary.frontier) {
    if (point.seconds <= most) return point.arena_bytes;
  }
  return std::nullopt;
}

std::string describe_smallest(const report::PlanSummary& summary) {
  const std::optional<Bytes> in_time = smallest_in_time(summary);
  std::string text = "the smallest found at this effort ";
  if (in_time) text += "in that time needs " + exactly(*in_time) + ", and in any time ";
  text += "needs " + exactly(summary.smallest_feasible);
  if (summary.smallest_with_spill) {
    text += " (with the same bits " + exactly(summary.smallest_same_bits) +
            ", and with a spill file " + exactly(*summary.smallest_with_spill) + ")";
  }
  return text;
}

void explain_refusal(const ProcessBound& bound, const PlanRequest& request,
                     report::PlanSummary& summary) {
  const bool spill = request.spill != SpillUse::kNever;
  const Bytes limit = *summary.limit;
  const std::string which = spill ? " of plans that may use a spill file" : "";
  if (spill) summary.lower_bound_with_spill = bound.bytes;
  if (limit < bound.bytes) {
    summary.answer = "impossible";
    summary.reason = "the limit " + exactly(limit) + " is below the lower bound " +
                     exactly(bound.bytes) + which + ": " + bound.words;
  } else {
    summary.answer = "not_found";
    const std::string slowdown = request.max_slowdown
                                     ? " that takes at most " +
                                           report::format_factor(*request.max_slowdown) +
                                           " the time of the plan without a limit"
                                     : "";
    summary.reason = "no plan" + slowdown + " found within " + exactly(limit) + "; " +
                     describe_smallest(summary) + ", the lower bound" + which + " is " +
                     exactly(bound.bytes) + ", and a longer search (--plan-time) may close the gap";
  }
}

// Largest batch whose plan meets the limit with the kernel set's own blocks or smaller ones.
// `known` fits; 0: none is known to.
std::optional<int64_t> largest_batch(const layers::Model& model,
                                     const layers::CompileOptions& compile, PlanRequest request,
                                     int block_set, int64_t known) {
  request.full_answer = false;
  request.plan_steps = std::max<int64_t>(1, request.plan_steps / kBatchShare);
  return find_largest_batch(known, kLargestBatchTried, [&](int64_t batch) {
    layers::BatchSizes sizes;
    sizes.train = batch;
    tell(request, "looking for the largest batch within the limit: " + std::to_string(batch));
    const Lowering lowering(model, compile, sizes, request);
    return ask_fits(lowering, request, block_set);
  });
}

void describe(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request,
              report::PlanSummary& summary) {
  summary.model = model.name();
  summary.batch = std::max({batches.train, batches.train_tail, batches.evaluate,
                            batches.evaluate_tail, batches.predict, batches.predict_tail});
  summary.parameter_count = model.parameters().total();
  summary.batch_norm_asked = batches.train > 0 ? compile.batch_norm_group : 0;
  summary.optimizer = compile.optimizer.is_null()
                          ? "no optimizer"
                          : layers::read_optimizer(compile.optimizer).class_name;
  summary.limit = request.limit;
  summary.max_slowdown = request.max_slowdown;
  summary.guard = guard_text();
  summary.times = describe(request.times);
}

// The plan's own set of blocks: its programs' names are needed to read it.
SetAnswer read_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request) {
  SetAnswer answer;
  plan::Plan saved;
  for (int set = 0;; set = saved.block_set) {
    answer.lowered = lower(model, compile, batches, request, set);
    saved = plan::parse(request.saved_plan, answer.lowered.built.set);
    if (saved.block_set == set || set != 0) break;
  }
  answer.timed = timed_catalog(*answer.lowered.backend, request);
  const graph::ProgramSet& programs = answer.lowered.built.set;
  const graph::KernelCatalog& catalog = answer.catalog();
  const std::string where = "the saved plan: expected ";
  if (saved.fingerprint != graph::fingerprint(programs)) {
    throw Error(ErrorKind::kConfig,
                where +
                    "one of this model, optimizer, batch and number of rows, received another. "
                    "Make it anew: plimsoll plan … --output FILE, with the same --data.");
  }
  if (saved.kernel_set != catalog.kernel_set() || saved.block_set != catalog.block_set()) {
    throw Error(ErrorKind::kConfig, where + "one for kernels " + catalog.kernel_set() +
                                        ", received one for " + saved.kernel_set +
                                        ". Make it anew on this machine, or pass its --threads.");
  }
  const plan::Validation verdict = plan::validate(saved, programs, catalog);
  if (!verdict.ok()) throw Error(ErrorKind::kConfig, where + "a valid one: " + verdict.message);
  answer.overhead = overhead_of(answer.lowered, request);
  answer.outcome.smallest = answer.outcome.free_plan = saved.arena_bytes;
  answer.outcome.culprits = plan::find_culprits(saved, programs);
  plan::ProgramFacts facts(programs.programs.front(), catalog);
  const double seconds = plan::estimate_seconds(saved.programs.front(), facts);
  answer.outcome.answer = plan::Fits{std::move(saved), seconds, "as saved"};
  return answer;
}

void tell_why(const PlanRequest& request, const SetAnswer& chosen, PlannedRun& run) {
  if (request.why.empty() || !run.plan) return;
  run.summary.why_layer = request.why;
  run.summary.why =
      plan::explain_layer(*run.plan, chosen.lowered.built.set, chosen.catalog(), request.why);
}

void estimate(const PlanRequest& request, const SetAnswer& chosen, PlannedRun& run) {
  if (!request.estimate || !run.plan) return;
  for (size_t p = 0; p < run.plan->programs.size(); ++p) {
    plan::ProgramFacts facts(chosen.lowered.built.set.programs[p], chosen.catalog());
    run.estimates.push_back(plan::estimate_again(run.plan->programs[p], facts));
  }
}

PlannedRun run_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request) {
  PlannedRun run;
  describe(model, compile, batches, request, run.summary);
  SetAnswer chosen = read_saved_plan(model, compile, batches, request);
  fill_own_set(chosen, run.summary);
  run.overhead = fill_chosen(chosen, true, request, run.summary);
  run.summary.smallest_same_bits = run.summary.free_plan = Bytes(0);  // not searched
  run.summary.smallest_is_proved = false;
  const bool fits = !request.limit || run.summary.predicted_process <= *request.limit;
  run.summary.answer = fits ? "fits" : "not_found";
  if (fits) {
    run.plan = chosen.outcome.fits()->plan;
  } else {
    run.summary.reason = "the saved plan needs " + exactly(run.summary.predicted_process) +
                         " and the limit is " + exactly(*request.limit) +
                         ". Leave --plan out, or give it that limit";
  }
  tell_why(request, chosen, run);
  estimate(request, chosen, run);
  run.lowered = std::move(chosen.lowered);
  return run;
}

}  // namespace

layers::BatchSizes batch_sizes(int64_t batch, const RowCounts& rows) {
  layers::BatchSizes sizes;
  const auto split = [batch](int64_t count, int64_t& full, int64_t& tail) {
    if (count >= batch) full = batch;
    tail = count % batch;
  };
  split(rows.train, sizes.train, sizes.train_tail);
  split(rows.evaluate, sizes.evaluate, sizes.evaluate_tail);
  split(rows.predict, sizes.predict, sizes.predict_tail);
  return sizes;
}

Bytes guard_without_limit() {
  return Bytes(memory_available_to_process().count() / 100 * kGuardPercent);
}

Lowered lower(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request, int block_set) {
  const AccountedScope scope(MemoryPart::kSearch);
  return Lowering(model, compile, batches, request).lower(block_set);
}

PlannedRun plan_run(const layers::Model& model, const layers::CompileOptions& compile,
                    const layers::BatchSizes& batches, const PlanRequest& asked) {
  const AccountedScope scope(MemoryPart::kSearch);
  PlanRequest request = asked;
  request.times = find_times(model, compile, batches, asked);
  if (!request.saved_plan.empty()) return run_saved_plan(model, compile, batches, request);
  PlannedRun run;
  report::PlanSummary& summary = run.summary;
  describe(model, compile, batches, request, summary);
  const Lowering lowering(model, compile, batches, request);
  SetAnswer own = ask_by_either(lowering, request);
  summary.times = describe(request.times);
  fill_own_set(own, summary);
  summary.smallest_feasible = summary.smallest_same_bits;
  summary.lower_bound = own.process(own.outcome.lower_bound);
  const bool own_fits = own.fits() != nullptr;
  const double free_seconds = own.outcome.free_seconds;
  std::optional<ProcessBound> bound;
  if (!own_fits) note_bound(own, request, bound);
  SetAnswer chosen = std::move(own);
  bool fits = own_fits;
  for (int set = 1; set < kMostBlockSets && (request.full_answer || !fits); ++set) {
    if (request.own_blocks_only) break;
    if (all_ones(chosen.lowered.built.set, chosen.catalog()) && !fits) break;
    tell(request, std::string(fits ? "asking how far smaller blocks would reach"
                                   : "no plan with the usual blocks: trying smaller ones") +
                      " (block set " + std::to_string(set) + ")");
    SetAnswer smaller =
        fits ? ask_smallest(lowering, request, set) : ask(lowering, request, set, free_seconds);
    summary.smallest_feasible =
        min(summary.smallest_feasible, smaller.process(smaller.outcome.smallest));
    summary.lower_bound = min(summary.lower_bound, smaller.process(smaller.outcome.lower_bound));
    const bool last = all_ones(smaller.lowered.built.set, smaller.catalog());
    if (!fits) {
      fits = smaller.fits() != nullptr;
      if (!fits) note_bound(smaller, request, bound);
      chosen = std::move(smaller);
    }
    if (last) break;
  }
  // Unasked for, and not searched.
  if (!request.full_answer && own_fits) summary.smallest_feasible = Bytes(0);
  run.overhead = fill_chosen(chosen, fits, request, summary);
  if (fits) {
    summary.answer = "fits";
    run.plan = chosen.fits()->plan;
    const plan::Validation verdict =
        plan::validate(*run.plan, chosen.lowered.built.set, chosen.catalog());
    PLIMSOLL_CHECK(verdict.ok(), std::string(to_string(verdict.verdict)) + ": " + verdict.message);
    tell_why(request, chosen, run);
    estimate(request, chosen, run);
  } else {
    explain_refusal(*bound, request, summary);
  }
  if (request.full_answer && request.limit) {
    PlanRequest same = request;
    if (summary.spill == Bytes()) same.spill = SpillUse::kNever;
    summary.largest_feasible_batch = largest_batch(
        model, compile, same, fits ? chosen.catalog().block_set() : 0, fits ? summary.batch : 0);
  }
  if (request.full_answer && !fits) {
    tell(request, "planning ways out of the limit");
    summary.ways_out = find_ways_out(model, compile, batches, request, summary);
  }
  run.lowered = std::move(chosen.lowered);
  return run;
}

}  // namespace plimsoll::planning
