#include "trace/csv_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

namespace plimsoll::trace {
namespace {

constexpr int64_t kMaxOldBytes = 64 << 20;
constexpr std::string_view kFirst = "epoch";
constexpr std::string_view kLast = "seconds";

std::string number_text(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

CsvLog::CsvLog(const std::string& path, int64_t epochs)
    : file_(epochs > 0 ? File::open_or_create(path) : File::create(path)) {
  if (epochs <= 0) return;
  std::string text(static_cast<size_t>(std::min(file_.size(), kMaxOldBytes)), '\0');
  text.resize(file_.read_some_at(0, std::as_writable_bytes(std::span(text))));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut short by a kill
    const std::vector<std::string> words = split(std::string_view(text).substr(begin, end - begin));
    if (begin == 0) {
      if (words.size() < 2 || words.front() != kFirst || words.back() != kLast) break;
      names_.assign(words.begin() + 1, words.end() - 1);
    } else {
      int64_t epoch = 0;
      const std::string& word = words.front();
      const auto read = std::from_chars(word.data(), word.data() + word.size(), epoch);
      if (read.ec != std::errc() || epoch > epochs) break;
    }
    begin = end + 1;
    end_ = static_cast<int64_t>(begin);
  }
  file_.resize(end_);
}

void CsvLog::write(const std::string& line) {
  file_.write_at(end_, std::as_bytes(std::span(line)));
  end_ += static_cast<int64_t>(line.size());
}

void CsvLog::epoch(int64_t epoch, const std::vector<std::pair<std::string, double>>& metrics,
                   double seconds) {
  if (names_.empty()) {
    std::string header(kFirst);
    for (const auto& [name, value] : metrics) {
      names_.push_back(name);
      header += "," + name;
    }
    write(header + "," + std::string(kLast) + "\n");
  }
  std::string line = std::to_string(epoch);
  for (const std::string& name : names_) {
    const auto found = std::find_if(metrics.begin(), metrics.end(),
                                    [&](const auto& metric) { return metric.first == name; });
    line += "," + (found == metrics.end() ? "" : number_text(found->second));
  }
  write(line + "," + number_text(seconds) + "\n");
}

}  // namespace plimsoll::trace
