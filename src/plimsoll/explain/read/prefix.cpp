#include "explain/read/prefix.h"

#include <algorithm>
#include <array>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// Whether `line` at `at` looks like `pattern`: '0' any digit, 'a' any letter, else itself in either
// case.
bool looks_like(std::string_view line, size_t at, std::string_view pattern) {
  if (at + pattern.size() > line.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = line[at + i];
    const bool same = pattern[i] == '0'   ? is_digit(c)
                      : pattern[i] == 'a' ? is_alpha(c)
                                          : to_lower(c) == to_lower(pattern[i]);
    if (!same) return false;
  }
  return true;
}

size_t skip_digits(std::string_view line, size_t at) {
  while (at < line.size() && is_digit(line[at])) ++at;
  return at;
}

bool starts_with(std::string_view line, size_t at, std::string_view text) {
  return line.substr(std::min(at, line.size()), text.size()) == text;
}

// "10:11:12", with a fraction and a zone if there are any; `at` if it is none.
size_t time_end(std::string_view line, size_t at) {
  if (!looks_like(line, at, "00:00:00")) return at;
  size_t end = at + 8;
  if (end + 1 < line.size() && (line[end] == '.' || line[end] == ',') && is_digit(line[end + 1])) {
    end = skip_digits(line, end + 1);
  }
  if (looks_like(line, end, "Z")) return end + 1;
  for (std::string_view zone : {"+00:00", "-00:00", "+0000", "-0000"}) {
    if (looks_like(line, end, zone)) return end + zone.size();
  }
  return end;
}

// "May  3 10:11:12", "May 03 10:11:12 2023"; the year may stand after it.
size_t month_stamp_end(std::string_view line, size_t at) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::string_view name = line.substr(std::min(at, line.size()), 3);
  if (std::none_of(kMonths.begin(), kMonths.end(),
                   [name](std::string_view month) { return equals_ignoring_case(name, month); })) {
    return at;
  }
  if (!looks_like(line, at + 3, " 00 ") && !looks_like(line, at + 3, "  0 ")) return at;
  const size_t end = time_end(line, at + 7);
  if (end == at + 7) return at;
  return looks_like(line, end, " 0000") ? end + 5 : end;
}

// End of a date with a time, or of a time alone, at `at`; `at` if none stands there.
size_t stamp_end(std::string_view line, size_t at) {
  if (at >= line.size()) return at;
  for (std::string_view date : {"0000-00-00T", "0000-00-00 ", "0000/00/00 ", "00/00/0000 ",
                                "00/00/00 ", "00-00 ", "aaa, 00 aaa 0000 "}) {
    if (!looks_like(line, at, date)) continue;
    const size_t end = time_end(line, at + date.size());
    return end == at + date.size() ? at : end;
  }
  if (const size_t end = month_stamp_end(line, at); end != at) return end;
  if (looks_like(line, at, "aaa aaa ")) {
    if (const size_t end = month_stamp_end(line, at + 4); end != at + 4) return end;
  }
  return time_end(line, at);
}

// Length of a level's name at `at`, or 0. Outside of a dated line only capitals are one.
size_t level_length(std::string_view line, size_t at, bool dated) {
  static constexpr std::array<std::string_view, 11> kLevels = {
      "critical", "warning", "notice", "error", "fatal", "debug",
      "trace",    "info",    "warn",   "err",   "stderr"};
  for (std::string_view level : kLevels) {
    const std::string_view word = line.substr(std::min(at, line.size()), level.size());
    if (!equals_ignoring_case(word, level)) continue;
    const size_t end = at + level.size();
    if (end < line.size() && is_word(line[end])) continue;
    // "Error: …" is what JavaScript, R and shells' programs print themselves.
    if (word == "Error" && starts_with(line, end, ": ")) continue;
    const bool capitals =
        std::none_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    const bool before_stamp = starts_with(line, end, " ") && stamp_end(line, end + 1) != end + 1;
    // "fatal error: …" after a stamp is a sentence.
    const bool closed = end == line.size() || line[end] != ' ' || starts_with(line, end, " - ") ||
                        line.find_first_not_of(' ', end) == line.find("| ", end);
    if (capitals || before_stamp || (dated && closed)) return level.size();
  }
  return 0;
}

// Whether the level that begins at `at` is one.
bool is_quiet_level(std::string_view line, size_t at) {
  static constexpr std::array<std::string_view, 5> kQuiet = {"warn", "notice", "debug", "trace",
                                                             "info"};
  return std::any_of(kQuiet.begin(), kQuiet.end(), [&](std::string_view level) {
    return equals_ignoring_case(line.substr(std::min(at, line.size()), level.size()), level);
  });
}

bool is_name(char c) { return is_word(c) || c == '.' || c == '-' || c == '/' || c == ':'; }

// Reads marks one after the other.
class Marks {
 public:
  explicit Marks(std::string_view line) : line_(line) {}

  Prefix read() {
    constexpr int kMost = 10;
    for (int marks = 0; marks < kMost && at_ < line_.size(); ++marks) {
      if (!copied_stream() && !stamp() && !host_and_program() && !bracket() && !level() &&
          !logger_name() && !cluster_name() && !glog()) {
        break;
      }
    }
    return {at_, record_, quiet_};
  }

 private:
  // Steps to `end` and over the separator after it.
  bool take(size_t end) {
    at_ = end;
    separated_ = false;
    // "10:11:12 UTC - name": one blank at most belongs to the mark unless a separator follows.
    for (std::string_view between : {" - ", " | ", ": "}) {
      if (starts_with(line_, at_, between)) {
        at_ += between.size();
        separated_ = true;
        return true;
      }
    }
    size_t blanks = at_;
    while (blanks < line_.size() && line_[blanks] == ' ') ++blanks;
    if (dated_ && blanks < line_.size() && line_[blanks] == '|' &&
        starts_with(line_, blanks, "| ")) {
      at_ = blanks + 2;
      separated_ = true;
    } else if (at_ < line_.size() && line_[at_] == ' ') {
      ++at_;
    }
    return true;
  }

  // What copies a stream: container runtimes, launchers, clusters.
  bool copied_stream();
  bool stamp();
  bool bracket();
  bool level();
  bool logger_name();
  bool host_and_program();
  bool cluster_name();
  bool glog();

  std::string_view line_;
  size_t at_ = 0;
  bool record_ = false;
  bool dated_ = false;      // a stamp was read
  bool levelled_ = false;   // a level was
  bool separated_ = false;  // the last mark ended with " - ", " | " or ": "
  bool zoned_ = false;      // the stamp was one of the kinds that syslog writes
  bool quiet_ = false;      // the level was below that of an error
};

bool Marks::copied_stream() {
  const std::string_view rest = line_.substr(at_);
  for (std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (dated_ && equals_ignoring_case(rest.substr(0, stream.size()), stream)) {
      at_ += stream.size();
      record_ = false;
      return true;
    }
  }
  if (rest.substr(0, 5) == "[rank" || rest.substr(0, 7) == "[Stage-" ||
      rest.substr(0, 5) == "[pod/") {
    const size_t end = rest.find(']');
    if (end == npos || end > 140) return false;
    at_ += end + 1;
    if (starts_with(line_, at_, ":")) ++at_;
    if (starts_with(line_, at_, " ")) ++at_;
    return true;
  }
  // "[1,3]<stderr>:" of mpirun, "3: " of srun
  if (rest.substr(0, 1) == "[") {
    size_t end = skip_digits(rest, 1);
    if (end > 1 && rest.substr(end, 1) == ",") end = skip_digits(rest, end + 1);
    for (std::string_view stream : {"]<stderr>:", "]<stdout>:", "]<stddiag>:"}) {
      if (rest.substr(end, stream.size()) != stream) continue;
      at_ += end + stream.size();
      return true;
    }
    return false;
  }
  if (at_ == 0) {
    size_t blanks = 0;
    while (blanks < 3 && blanks < rest.size() && rest[blanks] == ' ') ++blanks;
    const size_t end = skip_digits(rest, blanks);
    if (end > blanks && end - blanks <= 5 && rest.substr(end, 2) == ": ") {
      at_ = end + 2;
      return true;
    }
  }
  if (rest.substr(0, 1) == "(") {  // "(train pid=489, ip=10.0.0.1) "
    const size_t end = rest.find(") ");
    if (end == npos || end > 120 || rest.substr(0, end).find("pid=") == npos) return false;
    at_ += end + 2;
    return true;
  }
  for (std::string_view stream : {"stderr: ", "stdout: "}) {
    if (rest.substr(0, stream.size()) != stream) continue;
    at_ += stream.size();
    return true;
  }
  if (equals_ignoring_case(rest.substr(0, 4), "E   ")) {  // pytest
    at_ += 4;
    return true;
  }
  return false;
}

bool Marks::stamp() {
  const bool open = starts_with(line_, at_, "[") || starts_with(line_, at_, "(");
  const size_t begin = at_ + (open ? 1 : 0);
  size_t end = stamp_end(line_, begin);
  if (end == begin) {
    // "[594646.252242] " of the kernel
    if (!starts_with(line_, at_, "[")) return false;
    size_t number = begin;
    while (number < line_.size() && line_[number] == ' ') ++number;
    const size_t point = skip_digits(line_, number);
    end = point > number && starts_with(line_, point, ".") ? skip_digits(line_, point + 1) : begin;
    if (end < point + 7) return false;
  }
  if (open && !starts_with(line_, end, "]") && !starts_with(line_, end, ")")) return false;
  // TensorFlow's own: "2019-04-01 10:11:12.131415: W tensorflow/…"
  if (!open && starts_with(line_, end, ": ") && looks_like(line_, end + 2, "a ")) return false;
  const bool copied = !open && begin + 10 < line_.size() && to_lower(line_[begin + 10]) == 't';
  if (!open && !copied && end < line_.size() && line_[end] != ' ' && line_[end] != ':')
    return false;
  zoned_ = !open && (copied || is_alpha(line_[begin]));
  dated_ = true;
  record_ = record_ || !copied;
  return take(open ? end + 1 : end);
}

// "gpu-host train[712]: ", "host kernel: " after a stamp of syslog's kinds.
bool Marks::host_and_program() {
  if (!zoned_ || separated_) return false;
  zoned_ = false;
  size_t host = at_;
  while (host < line_.size() && (is_name(line_[host]) && line_[host] != ':')) ++host;
  if (host == at_ || !starts_with(line_, host, " ")) return false;
  size_t program = host + 1;
  if (program >= line_.size() || !is_alpha(line_[program])) return false;
  while (program < line_.size() && is_name(line_[program]) && line_[program] != ':') ++program;
  bool numbered = false;
  if (starts_with(line_, program, "[")) {
    const size_t number = skip_digits(line_, program + 1);
    if (number == program + 1 || !starts_with(line_, number, "]")) return false;
    program = number + 1;
    numbered = true;
  }
  if (!starts_with(line_, program, ": ")) return false;
  // "2024-05-01T10:11:12Z Loading data: " is a sentence.
  if (!numbered && record_ == false && line_.substr(host + 1, program - host - 1) != "kernel") {
    return false;
  }
  at_ = program + 2;
  record_ = true;
  separated_ = true;
  return true;
}

// "[ERROR]", "[rank: 0]", and any name in brackets after a stamp or level.
bool Marks::bracket() {
  if (!starts_with(line_, at_, "[")) return false;
  const size_t end = line_.find(']', at_);
  if (end == npos || end - at_ > 42) return false;
  std::string_view inside = line_.substr(at_ + 1, end - at_ - 1);
  while (!inside.empty() && inside.back() == ' ') inside.remove_suffix(1);
  if (inside.empty()) return false;
  const bool rank = looks_like(inside, 0, "rank: 0") || looks_like(inside, 0, "rank 0");
  const size_t level = level_length(inside, 0, true);
  // "[trainer][ERROR] - ", "[engine.py:430] "; "[LightGBM] [Fatal]" belongs to the message.
  const bool more = starts_with(line_, end + 1, "[") || starts_with(line_, end + 1, " - ") ||
                    inside.find(".py:") != npos;
  const bool name = (dated_ || levelled_) && more && is_alpha(inside[0]) &&
                    std::all_of(inside.begin(), inside.end(), is_name);
  if (!rank && level != inside.size() && !name) return false;
  if (level == inside.size()) {
    levelled_ = true;
    quiet_ = is_quiet_level(inside, 0);
  }
  record_ = record_ || !rank;
  return take(end + 1);
}

// "ERROR ", "ERROR:root:", "ERROR - "
bool Marks::level() {
  const size_t length = level_length(line_, at_, dated_);
  if (length == 0) return false;
  const size_t end = at_ + length;
  const bool quiet = is_quiet_level(line_, at_);
  if (starts_with(line_, end, ":") && !starts_with(line_, end, ": ")) {
    size_t name = end + 1;
    while (name < line_.size() && (is_word(line_[name]) || line_[name] == '.')) ++name;
    if (name == end + 1 || !starts_with(line_, name, ":")) return false;
    at_ = name + 1;
    if (starts_with(line_, at_, " ")) ++at_;
    record_ = true;
    levelled_ = true;
    quiet_ = quiet;
    return true;
  }
  const bool before_stamp = starts_with(line_, end, " ") && stamp_end(line_, end + 1) != end + 1;
  if (!dated_ && !before_stamp && !starts_with(line_, end, ": ")) return false;
  levelled_ = true;
  quiet_ = quiet;
  record_ = true;
  return take(end);
}

// "root - ", "train:fit:77 - " among other separated marks.
bool Marks::logger_name() {
  if (!dated_ || (!separated_ && !levelled_)) return false;
  size_t end = at_;
  while (end < line_.size() && (is_name(line_[end]) || line_[end] == '<' || line_[end] == '>'))
    ++end;
  if (end == at_ || end - at_ > 60 || !is_word(line_[at_]) || is_digit(line_[at_])) return false;
  if (!starts_with(line_, end, " - ") && !starts_with(line_, end, " | ")) return false;
  return take(end);
}

// "worker-0  | " of Compose, "trainer-5c9f4b-x2x7z main " of stern.
bool Marks::cluster_name() {
  if (at_ != 0 || line_.empty() || !is_alpha(line_[0])) return false;
  size_t end = 0;
  while (end < line_.size() && (is_word(line_[end]) || line_[end] == '-' || line_[end] == '.'))
    ++end;
  const std::string_view name = line_.substr(0, end);
  size_t bar = end;
  while (bar < line_.size() && line_[bar] == ' ' && bar < 40) ++bar;
  const bool numbered = std::any_of(name.begin(), name.end(), is_digit);
  if (bar > end && numbered && starts_with(line_, bar, "| ")) {
    at_ = bar + 2;
    return true;
  }
  // Kubernetes makes the last five characters of a pod's name without vowels.
  const size_t dash = name.rfind('-');
  if (dash == npos || dash == 0 || name.size() - dash != 6 || !starts_with(line_, end, " ")) {
    return false;
  }
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  if (name.find_first_not_of(kAlphabet, dash + 1) != npos) return false;
  size_t container = end + 1;
  while (container < line_.size() && (is_word(line_[container]) || line_[container] == '-')) {
    ++container;
  }
  if (container == end + 1 || !starts_with(line_, container, " ")) return false;
  at_ = container + 1;
  return true;
}

// "E0501 10:11:12.123456   140 train.py:33] " of Python; those of C++ files stay.
bool Marks::glog() {
  if (!looks_like(line_, at_, "a0000 00:00:00") ||
      std::string_view("IWEFiwef").find(line_[at_]) == npos) {
    return false;
  }
  const size_t end = line_.find("] ", at_);
  if (end == npos || end - at_ > 120) return false;
  if (line_.substr(at_, end - at_).find(".py:") == npos) return false;
  quiet_ = to_lower(line_[at_]) == 'i' || to_lower(line_[at_]) == 'w';
  at_ = end + 2;
  record_ = true;
  return true;
}

}  // namespace

Prefix read_prefix(std::string_view line) { return Marks(line).read(); }

}  // namespace plimsoll::explain
