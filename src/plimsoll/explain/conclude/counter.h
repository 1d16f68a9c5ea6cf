#pragma once

// What speaks against the cause that a message has as a rule. A cause that the log itself rules out
// is not claimed, however usual it is.

#include <optional>
#include <string>

#include "explain/conclude/cause.h"

namespace plimsoll::explain {

enum class Veto {
  kNone,
  kVersions,   // libraries or driver do not match
  kAssertion,  // a kernel on the device failed a check before
  kFree,       // most of the device was free
};

// Against a shortage of memory after a library's handle that could not be made.
Veto veto_of(const Case& found);
std::optional<Diagnosis> vetoed(const Case& found);

// Who sent SIGKILL, where lines beside it name somebody who has nothing to do with memory: a time
// limit, a probe, a person. Its offset and a name; nothing where the log does not say.
struct Sender {
  size_t at = 0;
  std::string_view name;
};
std::optional<Sender> sender_of_kill(const Case& found);
std::optional<Diagnosis> killed_by_somebody(const Case& found);

// "pthread_create failed for thread 30 of 56", "RLIMIT_NPROC 128 current, 128 max".
struct ThreadCounts {
  std::optional<int64_t> threads, limit, hard_limit;
};
ThreadCounts thread_counts(const Case& found);

// A request that no machine can have meant: a size that overflowed or was never set.
std::optional<Diagnosis> bogus_size(const Case& found);

}  // namespace plimsoll::explain
