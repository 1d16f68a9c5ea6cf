#pragma once

// What loggers, schedulers, containers and clusters put in front of a line, told from the line
// itself: time stamps, levels, names, ranks, processes.
//
// A prefix is a chain of such marks; it ends where the first other word stands. Marks that a
// framework's own records begin with ("2019-04-01 10:11:12.131415: W tensorflow/…", "[[Node: …",
// "[1]+  Killed" of a shell) are left, since the readers of messages look at them.

#include <cstddef>
#include <string_view>

namespace plimsoll::explain {

struct Prefix {
  size_t length = 0;
  // A logger wrote a record of its own here. False for what only copies a stream line by line:
  // there a line may be the rest of a wrapped one.
  bool starts_record = false;
  // The logger's level is below that of an error.
  bool is_quiet = false;
};

// Takes a line without control characters and terminal sequences.
Prefix read_prefix(std::string_view line);

}  // namespace plimsoll::explain
