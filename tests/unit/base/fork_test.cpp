#include "base/threads/fork.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

namespace plimsoll {
namespace {

sigset_t blocked_here() {
  sigset_t set;
  sigemptyset(&set);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return set;
}

TEST(Threads, SignalsFromOutsideAreTheHosts) {
  sigset_t inside;
  sigemptyset(&inside);
  Threads threads;
  threads.start([&inside] { inside = blocked_here(); });
  threads.join();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
    const sigset_t here = blocked_here();
    EXPECT_EQ(sigismember(&here, signal), 0) << signal;
  }
  // A fault is the thread's own: who wants a trace of it gets one.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_EQ(sigismember(&inside, fault), 0) << fault;
  }
}

}  // namespace
}  // namespace plimsoll
