// Steps and epochs that the program counts: lines in words, Keras's own bars of both generations,
// tqdm's. Bars of other work (downloads, shards that are loaded, files that are converted) are kept
// apart: they say neither that training had begun nor that it went on.

#include <algorithm>
#include <array>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;
constexpr size_t kMostProgress = 20000;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

template <size_t N>
bool contains_any(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return contains(text, word); });
}

void skip_marks(Cursor& cursor) {
  constexpr std::string_view kMarks = " :=[#'\"";
  for (int gap = 0; gap < 4 && kMarks.find(cursor.peek()) != npos; ++gap) {
    cursor.move_to(cursor.at() + 1);
  }
}

// "Epoch 3/10", "epoch: 3", "[Epoch 3]", "Epoch=3"
bool read_epoch(const Document& document, size_t begin, size_t end, Progress& progress) {
  for (size_t at = document.find("epoch", begin, end); at != npos;
       at = document.find("epoch", at + 1, end)) {
    Cursor cursor(document, document.match("epoch", at));
    skip_marks(cursor);
    const std::optional<int64_t> epoch = cursor.integer();
    if (!epoch) continue;
    progress.epoch = epoch;
    cursor.skip_blanks();
    if (cursor.literal("/") || cursor.literal("of ")) {
      cursor.skip_blanks();
      progress.epochs = cursor.integer();
    }
    return true;
  }
  return false;
}

// "step 12", "global_step=12", "iter: 12/40"; in "81ms/step" the word is a unit.
bool read_labelled_step(const Document& document, size_t begin, size_t end, Progress& progress) {
  for (std::string_view label : {"global_step", "iteration", "step", "iter"}) {
    for (size_t at = document.find(label, begin, end); at != npos;
         at = document.find(label, at + 1, end)) {
      if (at > begin && document.text()[at - 1] == '/') continue;
      Cursor cursor(document, document.match(label, at));
      skip_marks(cursor);
      const std::optional<int64_t> step = cursor.integer();
      if (!step) continue;
      progress.step = step;
      if (cursor.literal("/")) progress.steps = cursor.integer();
      return true;
    }
  }
  return false;
}

// Keras: "12/782 [=====>…" of the second generation, "12/782 ━━━━ 1:02 81ms/step" of the third,
// "12/Unknown 3s 81ms/step" where the number of steps is not known, "782/782 - 25s - 81ms/step".
bool read_keras_bar(const Document& document, size_t begin, size_t end, Progress& progress) {
  Cursor cursor(document, begin);
  cursor.skip_blanks();
  if (!is_digit(cursor.peek())) return false;
  const std::optional<int64_t> step = cursor.integer();
  if (!step || !cursor.literal("/")) return false;
  std::optional<int64_t> steps;
  if (!cursor.literal("unknown")) {
    steps = cursor.integer();
    if (!steps) return false;
  }
  cursor.skip_blanks();
  const std::string_view rest =
      std::string_view(document.text()).substr(std::min(cursor.at(), end));
  const bool drawn = rest.starts_with("\u2501") || rest.starts_with("[");
  const bool timed = document.find("s/step", cursor.at(), end) != npos;
  if (!drawn && !timed) return false;
  progress.step = step;
  progress.steps = steps;
  return true;
}

// "| 12/240 [00:10<…" of tqdm, and what others draw in the same way.
bool read_drawn_bar(const Document& document, size_t begin, size_t end, Progress& progress) {
  for (size_t open = document.find(" [", begin, end); open != npos;
       open = document.find(" [", open + 1, end)) {
    size_t start = open;
    const std::string& text = document.text();
    while (start > begin && (is_digit(text[start - 1]) || text[start - 1] == '/')) --start;
    Cursor cursor(document, start);
    const std::optional<int64_t> step = cursor.integer();
    if (!step || !cursor.literal("/")) continue;
    const std::optional<int64_t> steps = cursor.integer();
    if (!steps) continue;
    progress.step = step;
    progress.steps = steps;
    return true;
  }
  return false;
}

// What stands in front of a bar's percentage: "Downloading shards: 100%|███".
std::string description_of(std::string_view line) {
  const size_t percent = line.find("%|");
  if (percent == npos) return "";
  size_t end = percent;
  while (end > 0 && is_digit(line[end - 1])) --end;
  while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == ':')) --end;
  const std::string_view words = line.substr(0, end);
  return std::string(words.substr(std::min(words.find_first_not_of(" ["), words.size())));
}

enum class Work { kTraining, kBare, kOther };

// What a bar counts, by its own words.
Work work_of(std::string_view line, std::string_view description) {
  static constexpr std::array<std::string_view, 8> kTraining = {"train", "epoch", "step", "iter",
                                                                "fit",   "batch", "loss", "optimi"};
  static constexpr std::array<std::string_view, 34> kOther = {
      "load",  "fetch",  "cach",      "token", "map",   "filter", "process", "extract", "generat",
      "read",  "build",  "encod",     "pack",  "shard", "file",   "sav",     "convert", "quantiz",
      "merg",  "resolv", "import",    "index", "scan",  "verif",  "check",   "collect", "copy",
      "creat", "decod",  "transform", "split", "pars",  "prepar", "analy"};
  const bool has_loss = contains(line, "loss=") || contains(line, "loss:");
  if (has_loss || contains_any(description, kTraining)) return Work::kTraining;
  const bool named = std::any_of(description.begin(), description.end(), is_alpha);
  if (!named) return Work::kBare;
  const bool validates = contains(description, "valid") || contains(description, "eval");
  return !validates && contains_any(description, kOther) ? Work::kOther : Work::kTraining;
}

// "Validation: 40%", "Evaluating": words of the log, not parts of a function's name.
bool speaks_of_validation(std::string_view line) {
  static constexpr std::array<std::string_view, 6> kWords = {
      "validation", "validating", "validate", "evaluation", "evaluating", "evaluate"};
  for (std::string_view word : kWords) {
    for (size_t at = find_ignoring_case(line, word); at != npos;
         at = find_ignoring_case(line, word, at + 1)) {
      const size_t end = at + word.size();
      const bool starts = at == 0 || !(is_word(line[at - 1]) || line[at - 1] == '.');
      const bool ends = end == line.size() || !(is_word(line[end]) || line[end] == '(');
      if (starts && ends) return true;
    }
  }
  return false;
}

// "batch 8", "[batch 8/100]" at the beginning of a line; elsewhere it may be a size.
bool read_batch(const Document& document, size_t begin, size_t end, Progress& progress) {
  Cursor cursor(document, begin);
  cursor.skip_blanks();
  cursor.literal("[");
  if (!cursor.literal("batch")) return false;
  skip_marks(cursor);
  const std::optional<int64_t> step = cursor.integer();
  if (!step || cursor.at() > end || is_word(cursor.peek())) return false;
  progress.step = step;
  if (cursor.literal("/")) progress.steps = cursor.integer();
  return true;
}

class ProgressReader {
 public:
  ProgressReader(const Document& document, Context& context)
      : document_(document), context_(context) {}

  void read(size_t index);

 private:
  void add(Progress progress, bool epoch, bool step);

  const Document& document_;
  Context& context_;
};

void ProgressReader::read(size_t index) {
  const std::string_view line = document_.line(index);
  if (line.find("File \"") != npos || line.find(".cc:") != npos) return;
  Progress progress;
  progress.line = document_.number(index);
  const size_t begin = document_.start(index);
  const size_t end = begin + line.size();
  const bool epoch = read_epoch(document_, begin, end, progress);
  bool step = read_keras_bar(document_, begin, end, progress) ||
              read_labelled_step(document_, begin, end, progress) ||
              read_batch(document_, begin, end, progress);
  if (!step && read_drawn_bar(document_, begin, end, progress)) {
    const std::string description = description_of(line);
    const Work work = epoch ? Work::kTraining : work_of(line, description);
    if (work == Work::kOther) {
      if (context_.tasks.size() < kMostProgress) {
        context_.tasks.push_back({description, *progress.step, *progress.steps, progress.line});
      }
      return;
    }
    progress.is_bare_bar = work == Work::kBare;
    step = true;
  }
  if (!epoch && !step) return;
  progress.validation = speaks_of_validation(line);
  add(progress, epoch, step);
}

void ProgressReader::add(Progress progress, bool epoch, bool step) {
  if (context_.progress.size() >= kMostProgress) return;
  if (!epoch && !context_.progress.empty()) {
    // "Epoch 4/10" stands in a line of its own; the bars below it belong to it.
    progress.epoch = context_.progress.back().epoch;
    progress.epochs = context_.progress.back().epochs;
  }
  if (progress.epoch == 1 && progress.epochs && !step) ++context_.first_epoch_restarts;
  context_.progress.push_back(progress);
}

}  // namespace

void detect_progress(const Document& document, Facts& facts) {
  ProgressReader reader(document, facts.context);
  for (size_t i = 0; i < document.line_count(); ++i) reader.read(i);
}

}  // namespace plimsoll::explain
