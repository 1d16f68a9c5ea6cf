#pragma once

// What a run tells, for somebody who reads standard error.

#include <optional>
#include <string>

#include "report/progress.h"
#include "report/waiting.h"
#include "run/listener.h"

namespace plimsoll::cli {

class Printer : public run::Listener {
 public:
  // `quiet`: notices alone, no progress.
  explicit Printer(bool quiet);

  void notice(const std::string& text) override;
  void planning(const std::string& what) override;
  void planned() override;
  void begin(const report::PlanSummary& plan) override;
  report::ProgressView* progress() override;
  void passed_limit(Bytes measured, Bytes limit) override;

 private:
  bool quiet_;
  std::optional<report::Waiting> waiting_;
  report::Progress progress_;
};

}  // namespace plimsoll::cli
