#pragma once

// What a run tells whoever started it. Nothing is printed by the run itself.

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "report/plan_summary.h"
#include "report/progress.h"
#include "train/session.h"

namespace plimsoll::run {

// Every call comes from the thread that runs, between steps; an exception ends the run. What is
// told is valid during the call.
class Listener {
 public:
  virtual ~Listener() = default;

  // A sentence or more for the user, without an end of line.
  virtual void notice(const std::string& text) { static_cast<void>(text); }
  // What is planned from now on: "planning within 64 MiB".
  virtual void planning(const std::string& what) { static_cast<void>(what); }
  // The search is over, with or without a plan.
  virtual void planned() {}
  // The plan that a fit runs, before the first step.
  virtual void begin(const report::PlanSummary& plan) { static_cast<void>(plan); }
  // Where progress is drawn; null: nowhere.
  virtual report::ProgressView* progress() { return nullptr; }
  // Whether step() is wanted.
  virtual bool wants_steps() const { return false; }
  virtual void step(int64_t step, double loss) {
    static_cast<void>(step);
    static_cast<void>(loss);
  }
  // Between any two steps, of evaluation and prediction too: cheap, or seldom.
  virtual void between_steps() {}
  // Around the validation of an epoch.
  virtual void validation(bool begins) { static_cast<void>(begins); }
  // After the last step, before files are written: a stop ends nothing any more.
  virtual void trained() {}
  virtual void epoch(const train::EpochResult& result) { static_cast<void>(result); }
  // The process has taken more than its limit: a fault of the engine. Once a session.
  virtual void passed_limit(Bytes measured, Bytes limit) {
    static_cast<void>(measured);
    static_cast<void>(limit);
  }
};

}  // namespace plimsoll::run
