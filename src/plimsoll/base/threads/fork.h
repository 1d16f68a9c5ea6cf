#pragma once

// Forks of a process in which threads of ours run.
//
// A forked child has one thread, the one that called fork. Whoever waits there for another thread,
// for a lock that it held, or even destroys a condition that it waited for, waits for ever. So once
// a thread of ours has started, children of the process are told apart: every way in refuses
// (refuse_in_child), and destructors leave alone what is left
// (is_child_without_threads). A fork before the first thread is like any other start, and so is one
// that exec follows.
//
//   Threads    threads that are joined, but in such a child
//   Condition  a condition variable that is destroyed, but in such a child
//
// Not seen are processes that are made without fork's handlers (vfork, a bare clone).

#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll {

// A thread of ours is about to start.
void note_thread();
bool is_child_without_threads() noexcept;
// Throws kConfig in such a child; `what` is the call: "fit".
void refuse_in_child(const char* what);

class Threads {
 public:
  Threads() = default;
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Signals from outside go to the host's threads, never to these. Throws std::system_error where
  // the system gives no thread, std::bad_alloc where there is no memory for it.
  void start(std::function<void()> body);
  void join();
  size_t size() const { return threads_.size(); }
  bool empty() const { return threads_.empty(); }

 private:
  std::vector<std::thread> threads_;
};

class Condition {
 public:
  Condition() { new (&condition_) std::condition_variable; }
  ~Condition() {
    if (!is_child_without_threads()) condition_.~condition_variable();
  }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void notify_all() noexcept { condition_.notify_all(); }
  void wait(std::unique_lock<std::mutex>& lock) { condition_.wait(lock); }
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready&& ready) {
    condition_.wait(lock, std::forward<Ready>(ready));
  }

 private:
  union {
    std::condition_variable condition_;
  };
};

}  // namespace plimsoll
