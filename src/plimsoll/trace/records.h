#pragma once

// What is recorded of a run: plain events, and their form as lines of JSON.
//
//   {"step": 17, "loss": 0.502}
//   {"epoch": 1, "loss": 0.431, "accuracy": 0.843, "val_loss": 0.39, "seconds": 3.1}
//
// The first key tells the event. Later versions may add keys, so unknown keys of known events are
// skipped; an unknown event is an error. Numbers read back as the same double; a number that is not
// finite is null, and reads back as NaN.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll::trace {

struct StepEvent {
  int64_t step = 0;
  double loss = 0;
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

struct EpochEvent {
  int64_t epoch = 0;
  std::vector<std::pair<std::string, double>> metrics;  // loss first; validation's with "val_"
  double seconds = 0;
  friend bool operator==(const EpochEvent&, const EpochEvent&) = default;
};

using Event = std::variant<StepEvent, EpochEvent>;

// One line, its end included. The metric names "epoch" and "seconds" are taken: such a metric gets
// an underscore after it.
std::string to_line(const Event& event);
// Throws kData with the text where it is no event.
Event parse_line(std::string_view line);

}  // namespace plimsoll::trace
