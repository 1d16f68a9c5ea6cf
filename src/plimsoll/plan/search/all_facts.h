#pragma once

// The facts of all programs of a set, gathered once for a whole search: bounds, candidates and the
// plans made of them ask the same questions.
//
// They refer to programs and catalog, which outlive them.

#include <memory>
#include <string>
#include <vector>

#include "plan/facts/program_facts.h"
#include "plan/search/planner.h"
#include "plan/search/search.h"

namespace plimsoll::plan {

class AllFacts {
 public:
  AllFacts(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
           const graph::KernelCatalog* choice = nullptr);

  // One per program, in their order.
  const std::vector<std::unique_ptr<ProgramFacts>>& all() const { return all_; }
  ProgramFacts& of(size_t program) const { return *all_[program]; }
  // By the times of another catalog (PlanOptions::choice); null: plans are chosen by these.
  ProgramFacts* choice_of(size_t program) const {
    return choice_.empty() ? nullptr : choice_[program].get();
  }
  // Those that the search of the candidate went by.
  ProgramFacts& searched_by(size_t program, const Candidate& candidate) const {
    return candidate.by_choice ? *choice_of(program) : of(program);
  }

 private:
  std::vector<std::shared_ptr<const void>> remembered_;  // by the catalog, while this lives
  std::vector<std::unique_ptr<ProgramFacts>> all_;
  std::vector<std::unique_ptr<ProgramFacts>> choice_;
};

struct LowerBound {
  Bytes bytes;
  std::string proof;
};

// See lower_bound() in planner.h.
LowerBound find_lower_bound(const graph::ProgramSet& programs, const AllFacts& facts, bool spill);

}  // namespace plimsoll::plan
