#pragma once

// Threads of our own that run the parts of one kernel at a time.
//
// A host thread has one team; it is the team's first member. The others look for the next job for
// a short time (kPatience) and then sleep, so that a program beside us gets its processor back, and
// a step of many small kernels still finds them awake. A part is claimed by whoever comes first:
// which memory a part reads and writes is fixed by its number alone, so the result does not depend
// on who computed it, and where another program holds a processor the first member does the parts
// that nobody else has begun.
//
//   job published ──▶ parts claimed one by one ──▶ last part done ──▶ next job
//     ticket: generation │ parts │ next part
//
// Why not OpenMP: its threads wait by a setting that is read before main, by default for
// milliseconds (docs/design/0004-threads.md). Not reentrant: parts run no jobs.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace plimsoll::backend::cpu {

class Team {
 public:
  using PartFunction = void (*)(const void* body, int part);

  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Runs function(body, part) for each part below `parts`, at most 65535. Starts threads that it
  // does not have yet; where the system gives none, this thread does their parts.
  void run(int parts, PartFunction function, const void* body) noexcept;
  size_t thread_count() const { return threads_.size() + 1; }

 private:
  static constexpr size_t kLine = 64;

  void grow(size_t others) noexcept;
  void serve();
  // The ticket of another generation than `seen`.
  uint64_t await_job(uint32_t seen);
  void await_done(uint32_t parts);
  // Claims and runs parts of the ticket's job until there are none left.
  void work_on(uint64_t ticket) noexcept;

  alignas(kLine) std::atomic<uint64_t> ticket_{0};
  std::atomic<uint32_t> generation_{0};  // what sleepers wait on; the ticket's, later
  alignas(kLine) std::atomic<uint32_t> done_{0};
  alignas(kLine) PartFunction function_ = nullptr;
  const void* body_ = nullptr;
  std::atomic<bool> stops_{false};
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::backend::cpu
