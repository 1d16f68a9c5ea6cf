#include "explain/conclude/phase.h"

#include <algorithm>
#include <array>
#include <span>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// "_save_checkpoint", "validationStep": lower case, without empty ones.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const bool capital = name[i] >= 'A' && name[i] <= 'Z';
    const bool before_small = i > 0 && name[i - 1] >= 'a' && name[i - 1] <= 'z';
    if (!is_alpha(name[i]) || (capital && before_small)) close();
    if (is_alpha(name[i])) word += to_lower(name[i]);
  }
  close();
  return words;
}

bool holds(std::span<const std::string_view> set, std::string_view word) {
  return std::find(set.begin(), set.end(), word) != set.end();
}

bool has_any(const std::vector<std::string>& words, std::span<const std::string_view> set) {
  return std::any_of(words.begin(), words.end(),
                     [set](const std::string& word) { return holds(set, word); });
}

// "validate", "run_validation", "evaluation_loop", "test_step"; not "validate_arguments".
bool names_validation(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "validate", "validation", "validating", "val", "valid",
      "evaluate", "evaluation", "evaluating", "eval"};
  static constexpr std::array<std::string_view, 31> kBeside = {
      "run",   "do",      "call",  "step",    "steps",   "epoch",   "epochs", "loop",
      "one",   "on",      "end",   "batch",   "batches", "dataset", "data",   "set",
      "model", "full",    "local", "inner",   "impl",    "all",     "per",    "at",
      "test",  "metrics", "loss",  "forward", "the",     "net",     "network"};
  static constexpr std::array<std::string_view, 3> kStep = {"step", "epoch", "function"};
  const std::vector<std::string> words = words_of(name);
  if (words.size() == 2 && words[0] == "test" && holds(kStep, words[1])) return true;
  return has_any(words, kWords) &&
         std::all_of(words.begin(), words.end(), [](const std::string& word) {
           return holds(kWords, word) || holds(kBeside, word);
         });
}

bool names_saving(std::string_view name) {
  static constexpr std::array<std::string_view, 2> kSave = {"save", "saving"};
  static constexpr std::array<std::string_view, 5> kOther = {"load", "restore", "read", "resume",
                                                             "for"};
  const std::vector<std::string> words = words_of(name);
  return has_any(words, kSave) && !has_any(words, kOther);
}

template <typename Says>
bool any_own_frame(const Case& found, Says says) {
  if (found.traceback == nullptr) return false;
  const std::vector<Frame>& frames = found.traceback->frames;
  return std::any_of(frames.begin(), frames.end(),
                     [&](const Frame& frame) { return !frame.is_foreign && says(frame.name); });
}

}  // namespace

bool is_first_use(const Case& found) {
  const bool plain = found.main.family == Family::kTorchPlain && found.framework == "pytorch" &&
                     found.main.resource == Resource::kGpuMemory && found.main.note.empty();
  if (!plain || last_progress(found) != nullptr) return false;
  if (found.traceback == nullptr) return false;
  const std::vector<Frame>& frames = found.traceback->frames;
  const bool starts = std::any_of(frames.begin(), frames.end(), [](const Frame& frame) {
    return frame.name == "_lazy_init" || frame.name == "_cuda_init";
  });
  // The program's first lines: nothing but the module's own frame is open.
  const std::string code = found.code_text();
  const bool moves = find_ignoring_case(code, "cuda") != npos;
  return starts || (moves && frames.size() == 1 && frames.front().name == "<module>");
}

bool validates(const Case& found) { return any_own_frame(found, names_validation); }

bool infers(const Case& found) {
  if (found.framework == "vllm") return true;
  static constexpr std::array<std::string_view, 6> kInference = {
      "predict", "generate", "inference", "infer", "predict_step", "profile_run"};
  static constexpr std::array<std::string_view, 5> kTraining = {"fit", "train", "backward",
                                                                "training_step", "train_step"};
  const auto has = [&](std::span<const std::string_view> names) {
    return found.traceback != nullptr &&
           std::any_of(found.traceback->frames.begin(), found.traceback->frames.end(),
                       [names](const Frame& frame) { return holds(names, frame.name); });
  };
  if (has(kTraining)) return false;
  // The call stands in the line below its frame; TensorFlow names the function that it made of it.
  constexpr size_t kBefore = 4000;
  constexpr size_t kAfter = 1500;
  const Document& document = found.document;
  const size_t at = found.main.at;
  return has(kInference) || document.find_back(".predict(", at, kBefore) != npos ||
         document.find_back(".generate(", at, kBefore) != npos ||
         document.find("__inference_one_step_on_data", at, at + kAfter) != npos ||
         document.find("__inference_predict_function", at, at + kAfter) != npos;
}

bool saves(const Case& found) { return any_own_frame(found, names_saving); }

bool loads(const Case& found) {
  if (found.traceback == nullptr) return false;
  static constexpr std::array<std::string_view, 6> kNames = {"load_state_dict", "from_pretrained",
                                                             "load_weights",    "load_model",
                                                             "load_checkpoint", "load_torch_file"};
  const std::vector<Frame>& frames = found.traceback->frames;
  return std::any_of(frames.begin(), frames.end(), [](const Frame& frame) {
    return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
      return find_ignoring_case(frame.name, name) != npos;
    });
  });
}

size_t line_that_saves(const Case& found) {
  constexpr size_t kReach = 40;
  static constexpr std::array<std::string_view, 5> kWhat = {"checkpoint", "model", "weights",
                                                            "state", "optimizer"};
  const Document& document = found.document;
  const size_t last = document.line_index(found.main.at);
  const Progress* progress = last_progress(found);
  for (size_t i = last + 1; i-- > (last > kReach ? last - kReach : 0);) {
    if (document.start(i) >= found.main.at) continue;
    if (progress != nullptr && document.number(i) < progress->line) break;
    const std::string_view line = document.line(i);
    const size_t saving = find_ignoring_case(line, "saving ");
    if (saving == npos) continue;
    const std::string_view rest = line.substr(saving);
    const bool named = std::any_of(kWhat.begin(), kWhat.end(), [rest](std::string_view word) {
      return find_ignoring_case(rest, word) != npos;
    });
    if (named) return document.start(i);
  }
  return npos;
}

const Task* task_under_way(const Case& found) {
  const int64_t line = found.document.number_at(found.main.at);
  const Task* last = nullptr;
  for (const Task& task : found.facts.context.tasks) {
    if (task.line <= line) last = &task;
  }
  if (last == nullptr || last->step >= last->steps) return nullptr;
  const Progress* progress = last_progress(found);
  return progress != nullptr && progress->line > last->line ? nullptr : last;
}

const Progress* last_progress(const Case& found) {
  const int64_t line = found.document.number_at(found.main.at);
  const Progress* last = nullptr;
  for (const Progress& progress : found.facts.context.progress) {
    if (progress.line <= line) last = &progress;
  }
  if (last == nullptr) return nullptr;
  const bool finished = last->steps && last->step && *last->step >= *last->steps;
  return last->is_bare_bar && finished && !last->epoch ? nullptr : last;
}

}  // namespace plimsoll::explain
