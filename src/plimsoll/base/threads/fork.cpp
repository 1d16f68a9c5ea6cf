#include "base/threads/fork.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

std::atomic<bool> started{false};
std::atomic<bool> lost{false};

void enter_child() { lost.store(started.load()); }

class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    // Faults are the thread's own.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      sigdelset(&all, fault);
    }
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void note_thread() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, enter_child);
  static_cast<void>(registered);
  started = true;
}

bool is_child_without_threads() noexcept { return lost.load(std::memory_order_relaxed); }

void refuse_in_child(const char* what) {
  if (!is_child_without_threads()) return;
  throw Error(
      ErrorKind::kConfig,
      "[" + std::string(what) +
          "] expected the process in which Plimsoll started its threads, received a call in "
          "one that was forked from it, where they do not run. Fork before the first call, "
          "or start the process anew (multiprocessing: the start method \"spawn\").");
}

void Threads::start(std::function<void()> body) {
  note_thread();
  const NoSignals masked;
  threads_.emplace_back(std::move(body));
}

void Threads::join() {
  if (is_child_without_threads()) {
    // Nobody is there to be joined, and a thread that was not joined may not be destroyed.
    static auto& left = *new std::vector<std::vector<std::thread>>;
    left.push_back(std::move(threads_));
    threads_.clear();
    return;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace plimsoll
