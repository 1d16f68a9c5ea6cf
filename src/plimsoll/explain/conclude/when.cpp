#include <algorithm>

#include "base/format.h"
#include "explain/conclude/conclude.h"
#include "explain/conclude/phase.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// Frames of PyTorch's optimizers and of TensorFlow's slots.
bool makes_slots(const Case& found) {
  if (found.traceback == nullptr) return false;
  const std::vector<Frame>& frames = found.traceback->frames;
  return std::any_of(frames.begin(), frames.end(), [](const Frame& frame) {
    return frame.name == "_init_group" || frame.name == "_init_state" ||
           find_ignoring_case(frame.name, "create_slots") != npos;
  });
}

std::string position_words(const Progress& progress) {
  std::string words;
  if (progress.step) {
    words = fmt::format("step {}", *progress.step);
    if (progress.steps) words += fmt::format(" of {}", *progress.steps);
  }
  if (progress.epoch) {
    words += fmt::format("{}{}", words.empty() ? "epoch " : " in epoch ", *progress.epoch);
    if (progress.epochs) words += fmt::format(" of {}", *progress.epochs);
  }
  return fmt::format("{} (line {})", words, progress.line);
}

void set(Explanation& explanation, When when, std::string text) {
  explanation.when = when;
  explanation.when_text = std::move(text);
}

// From the place in the program, whatever the step.
bool told_by_place(const Case& found, Explanation& explanation) {
  const size_t end = found.document.record_end(found.main.at) + 1500;
  const bool writes =
      found.main.family == Family::kDiskFull &&
      (find_ignoring_case(found.main.op_type, "save") != npos ||
       find_ignoring_case(found.main.path, "tempstate") != npos || found.main.note == "writer");
  const size_t saving = line_that_saves(found);
  if (writes || saves(found)) {
    set(explanation, When::kCheckpoint, "while a checkpoint was written");
  } else if (saving != npos) {
    set(explanation, When::kCheckpoint,
        fmt::format("while a checkpoint was written, which line {} begins",
                    found.document.number_at(saving)));
    explanation.evidence.push_back(
        {found.document.number_at(saving), found.document.quote(saving)});
  } else if (explanation.cause_label == Cause::kEvalLargerThanTrain || validates(found) ||
             found.document.find("__inference_test_function", found.main.at, end) != npos) {
    set(explanation, When::kValidation, "in validation, after training steps");
  } else if (loads(found)) {
    set(explanation, When::kLoading, "while weights or data were loaded");
  } else if (found.main.family == Family::kCudaContext || found.main.family == Family::kCudnnInit) {
    set(explanation, When::kBuilding, "while a library was set up, before its first work");
  } else if (is_first_use(found)) {
    set(explanation, When::kBuilding, "at the first use of the device that the log shows");
  } else if (makes_slots(found)) {
    set(explanation, When::kFirstStep, "in the first optimizer step, when its slots are made");
  } else {
    return false;
  }
  return true;
}

bool told_by_progress(const Case& found, Explanation& explanation) {
  const Progress* last = last_progress(found);
  if (last == nullptr) return false;
  const std::string where = position_words(*last);
  const std::vector<Progress>& all = found.facts.context.progress;
  const bool in_epochs = std::any_of(
      all.begin(), all.end(), [](const Progress& progress) { return progress.epoch.has_value(); });
  if (found.main.family >= Family::kDeviceFault) {  // no memory that a step may need more of
    set(explanation, last->validation ? When::kValidation : When::kTraining, "after " + where);
  } else if (last->validation) {
    set(explanation, When::kValidation, "in validation, after " + where);
  } else if (found.facts.context.first_epoch_restarts >= 2) {
    set(explanation, When::kSecondFit,
        "in a further training within the same process, after " + where);
  } else if (in_epochs && last->step && last->steps && *last->step + 1 >= *last->steps &&
             *last->steps > 2) {
    set(explanation, When::kNewShape,
        "at the end of an epoch, where a short last batch or validation brings a new shape: " +
            where);
  } else if (last->step.value_or(0) == 1 && last->epoch.value_or(1) <= 1) {
    set(explanation, When::kSecondStep,
        "after the first step, whose results may still have been alive: " + where);
  } else if (last->step.value_or(0) > 1 || last->epoch.value_or(0) > 1) {
    set(explanation, When::kTraining,
        "after " + where + ": earlier steps fitted, so something was larger or had grown");
  } else {
    set(explanation, When::kFirstStep, "before the first step was done: " + where);
  }
  return true;
}

// How far the program came after what it survived.
std::string farthest(const Case& found) {
  const int64_t line = found.document.number_at(found.main.at);
  const std::vector<Progress>& progress = found.facts.context.progress;
  if (!progress.empty() && progress.back().line > line) return position_words(progress.back());
  const std::vector<FurtherProgress>& further_progress = found.facts.further_progress;
  if (further_progress.empty()) return "further work";
  std::string_view text = further_progress.back().text;
  constexpr size_t kLongest = 100;
  size_t length = std::min(text.size(), kLongest);
  // Never half a character at the end.
  while (length < text.size() && (static_cast<uint8_t>(text[length]) & 0xc0) == 0x80) --length;
  return fmt::format("\"{}\" (line {})", text.substr(0, length), further_progress.back().line);
}

}  // namespace

void tell_when(const Case& found, Explanation& explanation) {
  if (explanation.cause_label == Cause::kLeakOverTime) {
    set(explanation, When::kSlowly, "slowly: the same work had fitted many times");
    return;
  }
  if (found.survived) {
    set(explanation, When::kTraining, "the program went on after it, to " + farthest(found));
    return;
  }
  if (told_by_place(found, explanation)) return;
  if (const Task* task = task_under_way(found)) {
    explanation.when_text = fmt::format("at {} of {} of \"{}\" (line {})", task->step, task->steps,
                                        task->name, task->line);
    return;
  }
  if (told_by_progress(found, explanation)) return;
  if (explanation.cause_label == Cause::kWeightsOrOptimizer) {
    set(explanation, When::kBuilding, "while weights or optimizer slots were made");
  } else if (explanation.cause_label == Cause::kDatasetCopiedToDevice) {
    set(explanation, When::kLoading, "before the first step, while the input was handed over");
  }
}

}  // namespace plimsoll::explain
