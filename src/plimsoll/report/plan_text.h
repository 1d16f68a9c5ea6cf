#pragma once

// What `plimsoll plan` answers, as people read it, and what a run says before its first step.
//
// The first line says whether it fits, and by how much. Where it does not, what would do comes
// next, the cheapest first; tables are last. Figures are rounded, one unit a column: exact bytes
// are in the JSON form.

#include <functional>
#include <string>

#include "report/plan_summary.h"

namespace plimsoll::report {

// How whoever asked gives an option: a command line, or a field's name. None: the latter.
using Spelling = std::function<std::string(const OptionChange&)>;

// "fits: 58.1 of 64.0 MiB (5.9 MiB to spare)", where others have a part of the limit "(5.9 MiB to
// spare beside the reserve of 64.0 MiB)", or
// "does not fit: needs 71.3 MiB, 7.3 MiB above the limit of 64.0 MiB".
std::string answer_sentence(const PlanSummary& summary);
// The same in one line with the reason, for errors.
std::string refusal_sentence(const PlanSummary& summary);
// Where bf16 is asked of a processor that multiplies no bfloat16; empty otherwise.
std::string precision_note(const PlanSummary& summary);
// "impossible below 31.0 MiB (proved): …", or that no plan was found; empty where it fits.
std::string why_refused(const PlanSummary& summary);
// "once", "twice", "3 times": what a block set does to the usual blocks.
std::string times_halved(int block_set);
// "1.5x".
std::string format_factor(double factor);

// For a plan that fits: answer, model, data and what is to be known of the result. No tables.
std::string to_head(const PlanSummary& summary);
// For one that does not: answer, remedies and why.
std::string to_refusal(const PlanSummary& summary, const Spelling& spell);
// Either, and the tables; the frontier's only where `with_frontier`.
std::string to_text(const PlanSummary& summary, bool with_frontier, const Spelling& spell = {});

}  // namespace plimsoll::report
