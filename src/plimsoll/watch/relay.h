#pragma once

// Passes what the command prints on to where it would have gone, without changing or delaying it.
//
// Each of the two streams goes through a pipe, or through a pseudo-terminal where the watcher's own
// stream is a terminal, so that the command still sees a terminal. A slow reader slows the command,
// as it would without the watcher, but never the watcher: writes go in pieces that cannot block.
// When the reader goes away the command sees that too.

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::watch {

class Relay {
 public:
  // `target`: descriptor of the watcher's stream.
  explicit Relay(int target);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  // What the command's stream becomes; closed here once the command has it.
  int inlet() const { return inlet_; }
  void close_inlet();

  int source() const { return source_; }
  int target() const { return target_; }
  bool wants_read() const { return source_ >= 0 && pending_.empty(); }
  bool wants_write() const { return !pending_.empty(); }
  bool is_open() const { return source_ >= 0; }
  bool is_terminal() const { return terminal_; }
  // Whether what was passed on last ended a line.
  bool at_line_start() const { return at_line_start_; }

  // Reads a block that is there; empty at the end. Valid until the next call.
  std::string_view read();
  void write();
  // Tells the command's terminal the size of the watcher's.
  void copy_window_size() const;

 private:
  bool open_terminal();
  void close_source();

  int target_;
  int source_ = -1;
  int inlet_ = -1;
  bool terminal_ = false;
  bool bounded_ = true;  // writes of more than a pipe's atomic size may block
  bool at_line_start_ = true;
  std::string block_;
  std::string_view pending_;
};

}  // namespace plimsoll::watch
