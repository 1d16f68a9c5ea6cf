#pragma once

// The log of a run as JSON lines: one object per epoch, and one per step where asked for.
//
//   {"epoch": 1, "loss": 0.431, "accuracy": 0.843, "val_loss": 0.39, "seconds": 3.1}
//   {"step": 17, "loss": 0.502}
//
// Lines are written whole and flushed by line, so that a killed run leaves whole lines. Numbers keep
// enough digits to read back the same double; a number that is not finite is written as null.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::trace {

class RunLog {
 public:
  // Creates or truncates the file. Throws kIo.
  explicit RunLog(const std::string& path);
  ~RunLog();

  void step(int64_t step, double loss);
  void epoch(int64_t epoch, const std::vector<std::pair<std::string, double>>& metrics,
             double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::trace
