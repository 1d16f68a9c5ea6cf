#pragma once

// Plans that were written by hand, in tests/golden/hand_plans.
//
// A file starts with lines of its own, the rest is the plan's text:
//
//   graph NAME [PROGRAM=BATCH …]   the programs, beside it; batches other than the graph's
//   operators toy                  the operators and kernels of tests/toys
//   base FILE                      another file's plan, changed:
//   - LINE                           taken out, and what follows it with + put there
//   shift %N %M BYTES                an offset moved to that of %M and so many bytes more
//   scratch NODE BYTES               so many bytes less scratch
//   expect VERDICT                 what the validator says of it
//   poison                         running it is noticed, too
//
// The plan's kernel set is named as the reference backend spells it; another backend runs with the
// same caps. `block` lines in the text go before the backend's own blocks.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel/kernel.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::property {

struct HandPlan {
  graph::ProgramSet programs;
  plan::Plan plan;  // complete
  std::unique_ptr<backend::Backend> backend;
  std::string expected = "valid";
  bool poisoned = false;
};

// Names of the files of valid plans, and of wrong ones, in name order.
std::vector<std::string> hand_plan_names(bool wrong);
// Throws what parsing throws.
HandPlan load_hand_plan(const std::string& name, std::string_view backend);

}  // namespace plimsoll::property
