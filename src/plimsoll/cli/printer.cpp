#include "cli/printer.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "report/plan_text.h"

namespace plimsoll::cli {

Printer::Printer(bool quiet) : quiet_(quiet), progress_(stderr) {}

void Printer::notice(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

void Printer::planning(const std::string& what) {
  if (waiting_) {
    waiting_->go_on(what);
  } else {
    waiting_.emplace(what, quiet_);
  }
}

void Printer::planned() { waiting_.reset(); }

void Printer::begin(const report::PlanSummary& plan) {
  if (!quiet_) {
    std::fputs((report::to_head(plan) + "guard: " + plan.guard + "\n\n").c_str(), stderr);
  }
}

report::ProgressView* Printer::progress() { return quiet_ ? nullptr : &progress_; }

void Printer::passed_limit(Bytes measured, Bytes limit) {
  std::fprintf(
      stderr,
      "plimsoll: the process has taken %s (%lld B), above its limit of %s (%lld B). This is "
      "a fault of Plimsoll: the run is finished and ends with exit code %d. Please report "
      "it with the model and this line.\n",
      to_string(measured).c_str(), static_cast<long long>(measured.count()),
      to_string(limit).c_str(), static_cast<long long>(limit.count()), kPassedLimit);
}

}  // namespace plimsoll::cli
