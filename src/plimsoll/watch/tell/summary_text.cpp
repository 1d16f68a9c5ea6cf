#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"
#include "base/format.h"
#include "report/table.h"
#include "watch/output.h"
#include "watch/tell/summary.h"

namespace plimsoll::watch {
namespace {

std::string size(int64_t bytes) { return to_string(Bytes(bytes)); }
std::string size(double bytes) { return to_string(Bytes(std::llround(bytes))); }

std::string percent(double part) { return fmt::format("{} %", std::lround(100 * part)); }

std::string growth_line(const Growth& growth) {
  switch (growth.form) {
    case CurveForm::kTooShort:
      return "not judged: it rises, but without counted steps so short a run is no leak's proof";
    case CurveForm::kNoGrowth:
      return "no growth: memory stays at " + size(growth.level_bytes);
    case CurveForm::kPlateau:
      return "no growth: a plateau at " + size(growth.level_bytes);
    case CurveForm::kWarmUp:
      return "no growth: after warming up it stays at " + size(growth.level_bytes);
    case CurveForm::kSawtooth:
      return "no growth: it rises and falls by " + size(growth.swing_bytes) +
             " and comes back to the same floor";
    case CurveForm::kSpike:
      return "no growth: one peak of " + size(growth.swing_bytes) + " above the usual " +
             size(growth.level_bytes);
    case CurveForm::kAllocatorCreep:
      return "slowing: it still rises by " + size(growth.bytes_per_minute) +
             " a minute, ever more slowly, as an allocator's pools do";
    case CurveForm::kGrowth:
      break;
  }
  std::string text = "GROWS by " + size(growth.bytes_per_minute) + " a minute";
  if (growth.bytes_per_step > 0) text += ", " + size(growth.bytes_per_step) + " a step";
  if (growth.bytes_per_epoch > 0) text += ", " + size(growth.bytes_per_epoch) + " an epoch";
  if (growth.bytes_per_fit > 0) text += ", " + size(growth.bytes_per_fit) + " a fit";
  return text + ", and does not slow down: something is kept";
}

std::string bound_line(const Bound& bound) {
  std::string text;
  switch (bound.by) {
    case BoundBy::kUnknown:
      text = "not clear";
      break;
    case BoundBy::kCompute:
      text = "computing";
      break;
    case BoundBy::kReading:
      text = "reading data";
      break;
    case BoundBy::kDecoding:
      text = "decoding or preparing data, in worker processes";
      break;
    case BoundBy::kGpu:
      text = "the GPU";
      break;
    case BoundBy::kSwapping:
      text = "swapping";
      break;
    case BoundBy::kWaiting:
      text = "waiting";
      break;
  }
  for (size_t i = 0; i < bound.evidence.size(); ++i) {
    text += (i == 0 ? " (" : "; ") + bound.evidence[i];
  }
  return bound.evidence.empty() ? text : text + ")";
}

std::string peak_line(const Run& run) {
  const Peak& peak = run.peak;
  std::string text = fmt::format("{} held at {} (highest of {} samples)", size(peak.held_bytes),
                                 report::format_seconds(peak.seconds), run.own.samples);
  if (peak.group_bytes) {
    text += "; " + size(*peak.group_bytes) +
            " with page cache (the kernel's high-water mark of the group)";
  } else if (peak.process_bytes) {
    text += "; the largest process, " + peak.process_name + ", reached " +
            size(*peak.process_bytes) + " resident (the kernel's high-water mark)";
  }
  if (peak.gpu_bytes) text += "; GPU " + size(*peak.gpu_bytes);
  return text;
}

// A label of fixed width, then text.
void line(std::string& out, const char* label, const std::string& text) {
  out += fmt::format("  {:<9} {}\n", label, text);
}

void add_captures(const Run& run, std::string& out) {
  for (const Capture& capture : run.captures) {
    if (capture.mappings.empty()) continue;
    std::string text = "at " + report::format_seconds(capture.seconds) + ", largest mappings of " +
                       capture.processes.front().name + ":";
    for (size_t i = 0; i < capture.mappings.size() && i < 3; ++i) {
      text += (i == 0 ? " " : ", ") + size(capture.mappings[i].resident) + " " +
              capture.mappings[i].name;
    }
    line(out, "then", text);
    for (size_t i = 0; i < capture.stack.size() && i < 6; ++i) line(out, "", capture.stack[i]);
  }
}

}  // namespace

std::string to_text(const Run& run) {
  std::string out = run.verdict.sentence + "\n";
  for (size_t i = 0; i < run.verdict.advice.size(); ++i) {
    line(out, i == 0 ? "next" : "", run.verdict.advice[i]);
  }
  for (size_t i = 0; i < run.verdict.not_worth.size(); ++i) {
    line(out, i == 0 ? "not worth" : "", run.verdict.not_worth[i]);
  }
  for (const std::string& evidence : run.verdict.evidence) line(out, "because", evidence);
  if (run.verdict.kind != VerdictKind::kNotStarted) {
    line(out, "peak", peak_line(run));
    if (!run.peak.printed.empty()) line(out, "printed", "then: " + run.peak.printed);
    if (run.growth.form != CurveForm::kTooShort) {
      line(out, "growth",
           growth_line(run.growth) + " (confidence " + percent(run.growth.confidence) + ")");
    } else if (run.growth.rise_bytes > 0) {
      line(out, "growth",
           is_memory_death(run.verdict)
               ? "not judged: memory rose by " + size(run.growth.rise_bytes) +
                     " before the end, over too short a time to tell a leak from a need"
               : growth_line(run.growth));
    }
    if (dominate(run.copies, run.peak.held_bytes)) {
      line(out, "copies", describe(run.copies, run.peak.held_bytes));
    }
    if (!run.bound.evidence.empty()) line(out, "bound by", bound_line(run.bound));
    line(out, "time", report::format_seconds(run.seconds) + "; guard: " + run.guard);
  }
  add_captures(run, out);
  if (run.survivors > 0) {
    line(out, "left", fmt::format("{} processes outlive the command", run.survivors));
  }
  return out;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (std::string word : words) {
    // This is a program on the command line; its lines stay apart.
    std::replace(word.begin(), word.end(), '\n', ' ');
    const std::string clean = clean_line(word, 4096);
    const bool plain =
        !clean.empty() && clean.find_first_of(" \"'\\$`*?[]{}()<>|&;~#!") == std::string::npos;
    if (!line.empty()) line += ' ';
    if (plain) {
      line += clean;
      continue;
    }
    line += '\'';
    for (const char c : clean) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace plimsoll::watch
