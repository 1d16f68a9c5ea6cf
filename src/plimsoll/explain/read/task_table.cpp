#include "explain/read/task_table.h"

#include <algorithm>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;
constexpr int kMostMisses = 3;  // other lines between the rows
constexpr size_t kMostKept = 4;
constexpr size_t kMostColumns = 24;
constexpr int64_t kPage = 4096;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size() && words.size() < kMostColumns;) {
    const size_t begin = text.find_first_not_of(" \t\r", at);
    if (begin == npos) break;
    const size_t end = std::min(text.find_first_of(" \t\r", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

// What stands after the brackets of the process's number.
std::string_view after_brackets(std::string_view text) {
  const size_t close = text.rfind(']');
  return close == npos ? std::string_view() : text.substr(close + 1);
}

}  // namespace

void TaskTableReader::head(int64_t line, std::string_view text) {
  const std::vector<std::string_view> names = words_of(after_brackets(text));
  const auto resident = std::find(names.begin(), names.end(), "rss");
  if (resident == names.end() || names.back() != "name") return;
  table_ = TaskTable();
  table_.line = line;
  resident_column_ = static_cast<size_t>(resident - names.begin());
  columns_ = names.size();
  misses_left_ = kMostMisses;
}

void TaskTableReader::add(std::string_view text) {
  misses_left_ = add_row(text) ? kMostMisses : misses_left_ - 1;
}

bool TaskTableReader::add_row(std::string_view text) {
  const size_t close = text.rfind(']');
  const size_t open = close == npos ? npos : text.rfind('[', close);
  if (open == npos) return false;
  const std::vector<std::string_view> pid = words_of(text.substr(open + 1, close - open - 1));
  const std::vector<std::string_view> cells = words_of(text.substr(close + 1));
  if (pid.size() != 1 || cells.size() < columns_) return false;
  size_t at = 0;
  const std::optional<int64_t> number = read_integer(pid.front(), at);
  size_t cell_at = 0;
  const std::optional<int64_t> pages = read_integer(cells[resident_column_], cell_at);
  if (!number || !pages || cell_at != cells[resident_column_].size()) return false;
  constexpr int64_t kMostPages = int64_t{1} << 38;
  TaskRow row{std::string(cells[columns_ - 1].substr(0, 64)), *number,
              std::min(*pages, kMostPages) * kPage};
  ++table_.rows;
  std::vector<TaskRow>& kept = table_.largest;
  const auto place = std::find_if(kept.begin(), kept.end(), [&row](const TaskRow& other) {
    return other.resident_bytes < row.resident_bytes;
  });
  kept.insert(place, std::move(row));
  if (kept.size() > kMostKept) kept.pop_back();
  return true;
}

}  // namespace plimsoll::explain
