#include "watch/marks.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace plimsoll::watch {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr size_t kMostLine = 512;
constexpr int64_t kMostNumber = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Place of `word` (lower case) in any case, not inside a longer word on its left.
size_t find_word(std::string_view line, std::string_view word) {
  for (size_t at = 0; at + word.size() <= line.size(); ++at) {
    if (at > 0 && is_letter(line[at - 1])) continue;
    size_t i = 0;
    while (i < word.size() && std::tolower(static_cast<unsigned char>(line[at + i])) == word[i]) {
      ++i;
    }
    if (i == word.size()) return at;
  }
  return kNone;
}

struct Number {
  int64_t value = 0;
  size_t end = 0;
};

std::optional<Number> number_at(std::string_view line, size_t at) {
  Number number;
  const auto [end, error] =
      std::from_chars(line.data() + at, line.data() + line.size(), number.value);
  if (error != std::errc() || number.value < 0 || number.value > kMostNumber) return std::nullopt;
  number.end = static_cast<size_t>(end - line.data());
  return number;
}

// The number after a word: "Epoch 3", "epoch: 3", "epoch=3", "[Epoch #3", "Epoch [3/5]".
std::optional<int64_t> number_after(std::string_view line, std::string_view word) {
  const size_t at = find_word(line, word);
  if (at == kNone) return std::nullopt;
  size_t place = at + word.size();
  const size_t last = std::min(line.size(), place + 4);
  while (place < last && std::string_view(" :=#[(\t").find(line[place]) != kNone) ++place;
  if (place == at + word.size() || place >= line.size() || !is_digit(line[place])) {
    return std::nullopt;
  }
  const std::optional<Number> number = number_at(line, place);
  return number ? std::optional<int64_t>(number->value) : std::nullopt;
}

// " - 1s - 5ms/step - loss: 0.6": what Keras prints with verbose=2 after "100/100", once a pass.
bool is_whole_pass(std::string_view after) {
  if (!after.starts_with(" - ") || after.size() < 5 || !is_digit(after[3])) return false;
  size_t at = 3;
  while (at < after.size() && (is_digit(after[at]) || after[at] == '.')) ++at;
  const std::string_view unit = after.substr(at);
  return unit.starts_with("s -") || unit.starts_with("ms -") || unit == "s" || unit == "ms";
}

}  // namespace

void ProgressMarks::read(std::string_view line) {
  line = line.substr(0, kMostLine);
  if (line.empty()) return;
  read_epoch(line);
  if (form_ != StepForm::kWord && read_bar(line)) return;
  if (form_ != StepForm::kBar) read_word(line);
}

void ProgressMarks::read_epoch(std::string_view line) {
  const std::optional<int64_t> epoch = number_after(line, "epoch");
  if (!epoch || *epoch == last_epoch_) return;
  if (*epoch < last_epoch_ || last_epoch_ < 0) ++fits_;
  last_epoch_ = *epoch;
  ++epochs_;
}

// "12/63 " at the beginning, or after a bar: "|####   | 12/938 [00:03".
bool ProgressMarks::read_bar(std::string_view line) {
  const size_t bar = line.rfind('|');
  size_t at = bar == kNone ? 0 : bar + 1;
  while (at < line.size() && line[at] == ' ') ++at;
  if (at >= line.size() || !is_digit(line[at])) return false;
  const std::optional<Number> done = number_at(line, at);
  if (!done || done->end + 1 >= line.size() || line[done->end] != '/') return false;
  if (!is_digit(line[done->end + 1])) return false;
  const std::optional<Number> all = number_at(line, done->end + 1);
  const std::string_view after = all ? line.substr(all->end) : std::string_view();
  if (!all || done->value > all->value) return false;
  if (all->value < 2 && !is_whole_pass(after)) return false;
  if (!after.empty() && after.front() != ' ' && after.front() != '[') return false;
  // A pass in one line begins anew, whatever the one before it said.
  if (is_whole_pass(after)) {
    form_ = StepForm::kBar;
    last_step_ = 0;
  }
  count_steps(StepForm::kBar, done->value);
  end_bar(after, done->value, all->value);
  return true;
}

// Keras's own end of an epoch that it gave no name to. A bar that has ended is drawn again.
void ProgressMarks::end_bar(std::string_view after, int64_t done, int64_t all) {
  const bool whole = is_whole_pass(after);
  const bool redrawn = bar_ended_ && !whole;
  bar_ended_ = done == all;
  if (!bar_ended_ || redrawn || last_epoch_ >= 0) return;
  if (!whole && after.find("/step") == kNone) return;
  if (after.find(": ") == kNone) return;  // predict's have no loss
  if (unnamed_steps_ == 0) unnamed_steps_ = all;
  if (all != unnamed_steps_) return;
  ++epochs_;
  ++fits_;
}

void ProgressMarks::read_word(std::string_view line) {
  for (const std::string_view word :
       {"global_step", "global step", "step", "steps", "iteration", "iter", "batch"}) {
    const std::optional<int64_t> value = number_after(line, word);
    if (!value) continue;
    count_steps(StepForm::kWord, *value);
    return;
  }
}

void ProgressMarks::count_steps(StepForm form, int64_t value) {
  if (form_ == StepForm::kUnknown) {
    // Where the count stood before is not known: this is the first that is seen.
    form_ = form;
    steps_ = 1;
  } else {
    steps_ += value >= last_step_ ? value - last_step_ : value;
  }
  last_step_ = value;
}

}  // namespace plimsoll::watch
