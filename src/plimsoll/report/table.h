#pragma once

// Plain tables of text, and numbers as people read them.

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::report {

// Columns as wide as their widest cell, two blanks apart; the first column is aligned left, the
// others right unless their header is the last (free text, left). Widths count code points.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "820 ns", "13.5 µs", "1.43 s", "2 min 05 s", "3 h 12 min".
std::string format_seconds(double seconds);
// "1,234,567".
std::string format_count(int64_t count);

}  // namespace plimsoll::report
