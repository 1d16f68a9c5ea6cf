#pragma once

// The progress of long work: one line that is redrawn on a terminal, quiet lines elsewhere.
//
//   epoch 1/5  412/938  ████████░░░░░░░░░░  12.1k samples/s  ETA 3.2 s  loss 0.4312  accuracy
//   0.8431  58.1/64.0 MiB
//
// On a terminal the line is drawn at most ten times a second and becomes a plain line when the
// epoch ends; elsewhere only that plain line is printed.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::report {

struct ProgressState {
  int64_t epoch = 1;
  int64_t epoch_count = 1;
  int64_t step = 0;        // within the epoch
  int64_t step_count = 0;  // of the epoch
  int64_t samples = 0;     // within the epoch
  double seconds = 0;      // since the epoch began
  std::vector<std::pair<std::string, double>> metrics;
  Bytes memory;  // process memory, highest so far
  Bytes limit;   // zero: none
};

// One line without its end; `width` columns at most (0: no bound), metrics dropped from the right.
std::string progress_line(const ProgressState& state, int width);

// Printed, the sign of a NaN would look like a meaning.
double without_sign_of_nan(double value);

// Who looks at the progress of a run, and how often.
class ProgressView {
 public:
  virtual ~ProgressView() = default;
  // Whether update() is wanted now (`now` in seconds): what it shows costs reading the metrics.
  virtual bool wants_update(double now) const = 0;
  virtual void update(const ProgressState& state, double now) = 0;
  // The epoch has ended.
  virtual void finish(const ProgressState& state) = 0;
};

// Draws it on a stream: at most ten times a second on a terminal, where the line is redrawn.
class Progress final : public ProgressView {
 public:
  explicit Progress(std::FILE* stream);
  bool wants_update(double now) const override;
  void update(const ProgressState& state, double now) override;
  void finish(const ProgressState& state) override;

 private:
  std::FILE* stream_;
  bool terminal_;
  double last_drawn_ = -1;
};

}  // namespace plimsoll::report
