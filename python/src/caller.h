#pragma once

// The engine's listener that is an object of Python's.
//
// Each call takes the interpreter's lock, so what comes often is passed on seldom. What the methods
// do is training/loop.py's; a method that raises ends the call of the engine that told it.

#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.h"
#include "report/plan_summary.h"
#include "run/run.h"

namespace plimsoll::python {

namespace nb = nanobind;

// Calls the methods of a Python object (training/loop.py says which). Steps are told of only so
// often: what a step costs beside them is a look at the clock. The first one whose loss is infinite
// or no number is always told of.
class Caller final : public run::Listener {
 public:
  static constexpr double kEverySeconds = 0.05;

  // `every_step`: whether each step is told; `every_test`: and each of a validation.
  Caller(nb::object listener, bool every_step, bool every_test = false)
      : listener_(std::move(listener)), every_step_(every_step), every_test_(every_test) {}

  void notice(const std::string& text) override { call("notice", text); }
  void begin(const report::PlanSummary& plan) override { call("begin", report::to_json(plan)); }
  bool wants_steps() const override { return true; }
  void step(int64_t step, double loss) override {
    const double now = clock_.seconds();
    const bool first_of_none = !std::isfinite(loss) && !told_not_finite_;
    if (!every_step_ && now < next_ && !first_of_none) return;
    told_not_finite_ = told_not_finite_ || first_of_none;
    next_ = now + kEverySeconds;
    const nb::gil_scoped_acquire lock;
    listener_.attr("step")(step, loss);
  }
  void between_steps() override {
    if (validates_ && every_test_) call("test_step", ++tests_);
    const double now = clock_.seconds();
    if (now < next_look_) return;
    next_look_ = now + kEverySeconds;
    look_for_signals();
  }
  void planning(const std::string&) override { look_for_signals(); }
  void validation(bool begins) override {
    validates_ = begins;
    tests_ = 0;
    call("validation", begins);
  }
  void passed_limit(Bytes measured, Bytes limit) override {
    call("passed_limit", measured.count(), limit.count());
  }

 private:
  template <typename... Arguments>
  void call(const char* method, const Arguments&... arguments) {
    const nb::gil_scoped_acquire lock;
    listener_.attr(method)(arguments...);
  }

  nb::object listener_;
  bool every_step_;
  bool every_test_;
  bool validates_ = false;
  int64_t tests_ = 0;
  // Ctrl-C, as an exception.
  static void look_for_signals() {
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

  SteadyClock clock_;
  double next_ = 0;
  bool told_not_finite_ = false;
  double next_look_ = 0;
};

}  // namespace plimsoll::python
