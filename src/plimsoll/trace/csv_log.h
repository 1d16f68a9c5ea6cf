#pragma once

// The epochs of a run as a table: one line each, the names of the metrics in the first.
//
// Lines are handed to the system whole, as they come. The columns are those of the first epoch; a
// metric that is not among them later is left out, one that is missing stays empty.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace plimsoll::trace {

class CsvLog {
 public:
  // Creates or empties the file; `epochs` above 0 goes on with the log of a run that is resumed
  // after so many epochs, and cuts off what will happen again. Throws kIo.
  CsvLog(const std::string& path, int64_t epochs);

  void epoch(int64_t epoch, const std::vector<std::pair<std::string, double>>& metrics,
             double seconds);

 private:
  void write(const std::string& line);

  File file_;
  int64_t end_ = 0;
  std::vector<std::string> names_;  // empty: no epoch yet
};

}  // namespace plimsoll::trace
