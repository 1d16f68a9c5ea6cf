#pragma once

// The table of tasks in the kernel's report of an oom kill: who held how much at that moment.
//
// Its rows hold no word that a sieve could look for, so they are read as they stream by, after the
// head of the table. Columns are those of the head, which differ between kernels. Of any number of
// rows only the largest stay.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

struct TaskRow {
  std::string name;
  int64_t pid = 0;
  int64_t resident_bytes = 0;  // pages of files and shared memory included
  bool operator==(const TaskRow&) const = default;
};

struct TaskTable {
  std::vector<TaskRow> largest;  // first the one that holds most
  int64_t rows = 0;
  int64_t line = 0;  // of the head
};

class TaskTableReader {
 public:
  // A line with the names of the columns; begins a new table.
  void head(int64_t line, std::string_view text);
  bool waits() const { return misses_left_ > 0; }
  // A line after it, a row or not.
  void add(std::string_view text);
  const TaskTable& table() const { return table_; }

 private:
  bool add_row(std::string_view text);

  TaskTable table_;
  size_t resident_column_ = 0;
  size_t columns_ = 0;
  int misses_left_ = 0;
};

}  // namespace plimsoll::explain
