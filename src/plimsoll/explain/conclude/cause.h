#pragma once

// Why it failed. Rules are tables of functions, tried in order; the first that has evidence
// answers.
//
// A rule names a cause only when lines of the log speak for it, and says how far it believes
// itself. When none does the answer is kUnknown with the usual reasons in their usual order, never
// a guess.

#include <optional>
#include <string>
#include <vector>

#include "explain/detect/case.h"

namespace plimsoll::explain {

struct Diagnosis {
  Cause cause = Cause::kUnknown;
  double confidence = 0;
  std::string sentence;
  std::vector<size_t> evidence;  // offsets in the document
  bool inferred = false;         // a reading of the figures rather than a statement of the log
};

using Rule = std::optional<Diagnosis> (*)(const Case&);

// Statements of the log that leave no choice: file, message, descriptor and kernel limits, …
std::optional<Diagnosis> diagnose_stated(const Case& found);
// Host memory refused or a process killed.
std::optional<Diagnosis> diagnose_host(const Case& found);
// What the refused tensor is: weights, vocabulary, data set, a graph that grows, …
std::optional<Diagnosis> diagnose_tensor(const Case& found);
// What the figures of a device say: BFC pools, PyTorch's and XLA's accounts.
std::optional<Diagnosis> diagnose_device(const Case& found);

Diagnosis diagnose(const Case& found);

// What a process may take of the device by a fraction that it set for itself, in bytes, where it is
// this limit that a request did not fit into rather than the device; else nothing.
std::optional<int64_t> own_limit(const Case& found);
// Where the program's own line stands that keeps the results of steps which had fitted.
std::optional<size_t> line_that_keeps(const Case& found);

// A program on a device that no framework of training speaks for: CUDA by hand, Numba.
bool is_plain_program(const Case& found);

// Reasons to think of where the log does not say, most frequent first.
std::vector<std::string> usual_reasons(const Case& found);

}  // namespace plimsoll::explain
