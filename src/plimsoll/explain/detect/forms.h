#pragma once

// Messages that need no grammar: a phrase that says it, and perhaps a figure after a label.
//
// One line of a table for each form, so that a further program's message is one line more. What
// has fields of its own (allocators' dumps, PyTorch's accounts, kernel reports) has a detector of
// its own instead. A phrase must be telling by itself: it is looked for anywhere in a line.

#include <span>
#include <string_view>

#include "explain/detect/facts.h"

namespace plimsoll::explain {

struct Form {
  std::string_view phrase;  // lower case
  Family family;
  Resource resource;
  std::string_view framework;  // "" where it is nobody's in particular
  std::string_view note;
  std::string_view figure;  // label, lower case; the size stands after it, near the phrase
  std::string_view with;    // must stand near it too, "" for nothing
};

// Drivers, libraries, runtimes, programs, schedulers, daemons: everything with no grammar of its
// own.
std::span<const Form> forms();

// "Killed" and "Bus error" as shells say them in other languages: in a line of their own, or after
// a job's number as in "line 5: 12345 Killed".
std::span<const std::string_view> translated_kills();
std::span<const std::string_view> translated_bus_errors();

}  // namespace plimsoll::explain
