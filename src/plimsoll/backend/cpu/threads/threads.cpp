#include "backend/cpu/threads/threads.h"

#include <limits>

#include "backend/cpu/threads/team.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::cpu {
namespace {

// Whether this thread runs a part already.
thread_local bool in_part = false;
// How many threads its kernels may run on.
thread_local int most_threads = std::numeric_limits<int>::max();

}  // namespace

ThreadLimit::ThreadLimit(int threads) : before_(most_threads) { most_threads = threads; }
ThreadLimit::~ThreadLimit() { most_threads = before_; }

namespace threads_impl {

void run_parts(int parts, PartFunction function, const void* body) noexcept {
  if (in_part) {
    for (int part = 0; part < parts; ++part) function(body, part);
    return;
  }
  thread_local Team team;
  struct Job {
    PartFunction function;
    const void* body;
  };
  const Job job{function, body};
  const FlushDenormals flush;
  team.run(
      parts, most_threads,
      [](const void* erased, int part) {
        in_part = true;
        const Job& wanted = *static_cast<const Job*>(erased);
        wanted.function(wanted.body, part);
        in_part = false;
      },
      &job);
}

}  // namespace threads_impl
}  // namespace plimsoll::backend::cpu
