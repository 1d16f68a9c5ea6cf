// The frames of Python's tracebacks, each with whether it lies in a library that trains nothing:
// such a library's names say nothing of a phase of training.

#include <algorithm>
#include <array>

#include "explain/detect/facts.h"
#include "explain/detect/package_path.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;
constexpr size_t kMostFrames = 128;
constexpr size_t kMostTracebacks = 256;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

// Installed, and none of those that run a training.
bool is_foreign(std::string_view line) {
  static constexpr std::array<std::string_view, 4> kInstalled = {"site-packages", "dist-packages",
                                                                 "/lib/python", "\\lib\\"};
  static constexpr std::array<std::string_view, 19> kTrainers = {
      "keras",       "tensorflow",   "torch", "lightning", "accelerate", "trainer",   "fastai",
      "ultralytics", "mmengine",     "mmcv",  "timm",      "trl",        "deepspeed", "detectron",
      "swift",       "llamafactory", "flax",  "paddle",    "mxnet"};
  const auto is_in = [line](std::string_view word) { return contains(line, word); };
  const std::string_view package = package_of(line);
  return std::any_of(kInstalled.begin(), kInstalled.end(), is_in) &&
         std::none_of(kTrainers.begin(), kTrainers.end(),
                      [package](std::string_view word) { return contains(package, word); });
}

}  // namespace

void detect_frames(const Document& document, Facts& facts) {
  std::vector<Traceback>& all = facts.context.tracebacks;
  bool open = false;
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    if (contains(line, "traceback (most")) open = false;
    const size_t file = find_ignoring_case(line, "file \"");
    if (file == npos) continue;
    const size_t in = line.find(", in ", file);
    if (in == npos) continue;
    if (!open) {
      if (all.size() >= kMostTracebacks) all.erase(all.begin() + kMostTracebacks / 2);
      all.push_back({document.start(i), document.start(i), {}});
      open = true;
    }
    size_t end = in + 5;
    while (end < line.size() && (is_word(line[end]) || line[end] == '<' || line[end] == '>')) ++end;
    Traceback& traceback = all.back();
    if (traceback.frames.size() >= kMostFrames) traceback.frames.erase(traceback.frames.begin());
    traceback.frames.push_back(
        {std::string(line.substr(in + 5, end - in - 5)), is_foreign(line.substr(file))});
    traceback.end = document.start(i) + line.size();
  }
}

}  // namespace plimsoll::explain
