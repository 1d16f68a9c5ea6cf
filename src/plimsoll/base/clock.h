#pragma once

// Time as something that can be replaced in tests.
//
// A clock measures and reports; no decision that changes a result may read one.

#include <chrono>

namespace plimsoll {

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary start; never falls.
  virtual std::chrono::nanoseconds now() const = 0;
  double seconds() const { return std::chrono::duration<double>(now()).count(); }
};

class SteadyClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};

// Stands still until a test moves it.
class FakeClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return now_; }
  void advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  std::chrono::nanoseconds now_{0};
};

}  // namespace plimsoll
