#pragma once

// Work whose end nobody can tell: says on standard error what takes so long, from the moment on
// when it does.
//
// On a terminal one line with the seconds is redrawn and vanishes at the end; elsewhere a line is
// printed every ten seconds, and one at the end; nothing where it does not take so long.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace plimsoll::report {

class Waiting {
 public:
  // `what` is done until the object dies: "searching for a plan within 64 MiB". `quiet`: prints
  // nothing.
  Waiting(std::string what, bool quiet);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // What is done from now on, in place of what was, or what has been found.
  void go_on(std::string what);

 private:
  void tell();
  void draw(std::unique_lock<std::mutex>& lock);
  long long seconds_passed() const;

  std::string what_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace plimsoll::report
