#include "planning/saved_plan.h"

#include <utility>

#include "base/error.h"
#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "planning/tuning.h"

namespace plimsoll::planning {

SetAnswer read_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request) {
  constexpr int kMostParts = 1024;  // as --parts has it
  SetAnswer answer;
  const plan::Plan head = plan::parse_head(*request.saved_plan);
  PlanRequest asked = request;
  // Where nobody says otherwise, the plan's.
  if (asked.parts == 0 && head.parts >= 1 && head.parts <= kMostParts) asked.parts = head.parts;
  if (asked.lanes == 0) asked.lanes = head.lanes;
  answer.lowered = lower(model, compile, batches, asked, head.block_set);
  plan::Plan saved = plan::parse(*request.saved_plan, answer.lowered.built.set);
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
                                        ". Make it anew on this machine, or leave out --parts.");
  }
  const plan::Validation verdict = plan::validate(saved, programs, catalog);
  if (!verdict.ok()) throw Error(ErrorKind::kConfig, where + "a valid one: " + verdict.message);
  answer.least_overhead = answer.overhead = overhead_of(answer.lowered, request);
  answer.clone_bytes = clone_bytes_of(programs);
  answer.outcome.smallest = answer.outcome.free_plan = saved.arena_bytes;
  answer.outcome.culprits = plan::find_culprits(saved, programs);
  plan::ProgramFacts facts(programs.programs.front(), catalog);
  const double seconds = plan::estimate_seconds(saved.programs.front(), facts);
  answer.outcome.answer = plan::Fits{std::move(saved), seconds, "as saved"};
  return answer;
}

}  // namespace plimsoll::planning
