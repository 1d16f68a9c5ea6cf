#include "explain/conclude/counter.h"

#include <algorithm>

#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

bool is_handle(const Case& found) {
  return found.main.family == Family::kCudnnInit || found.main.family == Family::kTorchCublas;
}

// A tenth of the device and a GiB are more than any library's handle takes.
bool has_room(const CounterEvidence& counter) {
  return counter.device_free && counter.device_total && *counter.device_free >= kGiB &&
         *counter.device_free >= *counter.device_total / 10;
}

// "…: Possibly insufficient driver version: 470.182.3" without what the logger put in front.
std::string statement_at(const Document& document, size_t at) {
  const std::string quote = document.quote(at);
  const size_t logged = quote.rfind("] ");
  return logged == std::string::npos ? quote : quote.substr(logged + 2);
}

std::string free_words(const CounterEvidence& counter) {
  return size_words(counter.device_free) + " of the device's " + size_words(counter.device_total) +
         " were free";
}

}  // namespace

Veto veto_of(const Case& found) {
  if (!is_handle(found)) return Veto::kNone;
  const CounterEvidence& counter = found.facts.context.counter;
  if (counter.assertion_at && *counter.assertion_at < found.main.at) return Veto::kAssertion;
  if (counter.versions_at) return Veto::kVersions;
  return has_room(counter) ? Veto::kFree : Veto::kNone;
}

std::optional<Diagnosis> vetoed(const Case& found) {
  const CounterEvidence& counter = found.facts.context.counter;
  Diagnosis result{Cause::kNotMemory, 0.85, "", {found.main.at}, false};
  switch (veto_of(found)) {
    case Veto::kNone:
      return std::nullopt;
    case Veto::kAssertion:
      result.sentence =
          "A kernel on the device failed a check before this (often an index outside of its table: "
          "a label or token id that is too large). After that every call to the device fails, "
          "whatever its message says.";
      result.evidence.insert(result.evidence.begin(), *counter.assertion_at);
      return result;
    case Veto::kVersions: {
      std::string said = statement_at(found.document, *counter.versions_at);
      while (!said.empty() && said.back() == '.') said.pop_back();
      result.sentence =
          "A CUDA library could not make its handle because its version, or the driver's, does not "
          "match what the framework was built for; the log says so: " +
          said + ".";
      if (has_room(counter)) result.sentence += " " + free_words(counter) + ".";
      result.evidence.insert(result.evidence.begin(), *counter.versions_at);
      break;
    }
    case Veto::kFree:
      result.sentence = "A CUDA library could not make its handle although " + free_words(counter) +
                        ": the log rules a shortage of memory out. A driver or library of another "
                        "version than the framework was built for is the usual reason.";
      break;
  }
  if (counter.free_at) result.evidence.push_back(*counter.free_at);
  return result;
}

std::optional<Sender> sender_of_kill(const Case& found) {
  if (found.main.family != Family::kKilled) return std::nullopt;
  struct Phrase {
    std::string_view text;
    std::string_view name;
  };
  static constexpr Phrase kPhrases[] = {
      {"worker timeout", "a server's time limit for its workers"},
      {"hard time limit", "a queue's time limit"},
      {"timelimitexceeded", "a queue's time limit"},
      {"execution took longer than", "the job's time limit"},
      {"exceeded the maximum execution time", "the job's time limit"},
      {"failed liveness probe", "a liveness probe that failed"},
      {"liveness probe failed", "a liveness probe that failed"},
      {"docker stop", "docker stop, whose grace period was over"},
      {"docker kill", "docker kill"},
      {"sending signal kill", "the timeout command"},
      {"os.kill(", "the program itself"},
      {"kill -9 ", "a kill -9 by hand"},
      {"kill -kill ", "a kill by hand"},
      {"pkill -9", "a pkill by hand"},
      {"due to preemption", "the scheduler, for a job of higher rank"},
  };
  constexpr size_t kReach = 1500;
  const size_t from = found.main.at > kReach ? found.main.at - kReach : 0;
  for (const Phrase& phrase : kPhrases) {
    const size_t at = found.document.find(phrase.text, from, found.main.at + kReach);
    // A frame of a traceback only shows a launcher that cleans up.
    const bool is_frame = at != std::string::npos &&
                          found.document.find_back("file \"", at, 200) != std::string::npos;
    if (at != std::string::npos && !is_frame) return Sender{at, phrase.name};
  }
  return std::nullopt;
}

std::optional<Diagnosis> killed_by_somebody(const Case& found) {
  const std::optional<Sender> sender = sender_of_kill(found);
  if (!sender) return std::nullopt;
  return Diagnosis{Cause::kNotMemory,
                   0.85,
                   "The process got SIGKILL, and the log names the sender: " +
                       std::string(sender->name) + ". Nothing in it speaks of memory.",
                   {sender->at, found.main.at},
                   false};
}

ThreadCounts thread_counts(const Case& found) {
  const Document& document = found.document;
  ThreadCounts counts;
  constexpr std::string_view kFailed = "failed for thread ";
  if (const size_t at = document.find(kFailed); at != std::string::npos) {
    Cursor cursor(document, document.match(kFailed, at));
    cursor.integer();
    if (cursor.literal(" of ")) counts.threads = cursor.integer();
  }
  constexpr std::string_view kLimit = "rlimit_nproc ";
  if (const size_t at = document.find(kLimit); at != std::string::npos) {
    Cursor cursor(document, document.match(kLimit, at));
    counts.limit = cursor.integer();
    if (cursor.literal(" current, ")) counts.hard_limit = cursor.integer();
  }
  return counts;
}

std::optional<Diagnosis> bogus_size(const Case& found) {
  if (found.main.bogus_size.empty()) return std::nullopt;
  std::string sentence = "The size is no real one: " + found.main.bogus_size;
  if (!found.main.negative_size.empty()) {
    sentence += ", which is " + found.main.negative_size +
                " read without its sign. A product of dimensions overflowed, or a dimension is "
                "negative.";
  } else {
    sentence +=
        ", more than any machine can address. It was never computed, or from a value that had not "
        "been set: look for the failure before it, and at the shapes that went in.";
  }
  return Diagnosis{Cause::kSingleTensorTooLarge, 0.8, sentence, {found.main.at}, true};
}

}  // namespace plimsoll::explain
