#pragma once

// The log of a run as it goes: one JSON object per epoch, and one per step where asked for.
//
// The form of the lines is that of records.h. Each line is handed to the system whole and at once,
// so that a killed run leaves whole lines but for the last.

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
  // Goes on with the log of a run that is resumed after `steps` steps and `epochs` whole epochs:
  // what was logged beyond that will happen again, and is cut off. Creates the file where there is
  // none. Throws kIo.
  RunLog(const std::string& path, int64_t steps, int64_t epochs);
  ~RunLog();

  // Allocates nothing.
  void step(int64_t step, double loss);
  void epoch(int64_t epoch, const std::vector<std::pair<std::string, double>>& metrics,
             double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::trace
