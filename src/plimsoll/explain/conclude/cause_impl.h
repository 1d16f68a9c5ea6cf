#pragma once

// Shared by the rules.

#include "explain/conclude/cause.h"

namespace plimsoll::explain {

// Where the limit that a process set for itself is what ran out (own_limit).
std::optional<Diagnosis> diagnose_own_limit(const Case& found);
// Memory that grows with the work done: figures that the program printed, or a line of its own that
// keeps each result.
std::optional<Diagnosis> growth_on_device(const Case& found);
// Memory figures that the program printed say so themselves: their first and last line are quoted.
void quote_series(const Case& found, const SeriesTrend& series, Diagnosis& result);
std::optional<Diagnosis> diagnose_torch(const Case& found);
std::optional<Diagnosis> diagnose_pool(const Case& found);
std::optional<Diagnosis> diagnose_xla(const Case& found);
// All that the process that failed takes of the device, its context included, where the message
// says so: in a sentence of its own, or, inside a container, by an entry of the list of processes.
std::optional<int64_t> taken_by_process(const Finding& main);
// Servers of language models that name the reason themselves.
std::optional<Diagnosis> diagnose_server(const Case& found);

// A conclusion drawn from figures, with the failure's own line as its first evidence.
inline Diagnosis reading(const Case& found, Cause cause, double confidence, std::string sentence) {
  return {cause, confidence, std::move(sentence), {found.main.at}, true};
}

// What is free inside an allocator's pool, and its largest piece, from whatever the dump holds.
struct PoolSpace {
  std::optional<int64_t> free;
  std::optional<int64_t> largest;
};
PoolSpace pool_space(const Pool& pool);

}  // namespace plimsoll::explain
