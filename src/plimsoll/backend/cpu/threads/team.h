#pragma once

// Threads of our own that run the parts of one kernel at a time.
//
// A host thread has one team; it is the team's first member. The others look for the next job for
// a short time (kPatience) and then sleep, so that a program beside us gets its processor back, and
// a step of many small kernels still finds them awake. Member i claims part i first, so that a part
// of an array stays in the cache of one processor from kernel to kernel; whoever has done his own
// claims what others have not begun, so that where another program holds a processor the first
// member does its parts too. Which memory a part reads and writes is fixed by its number alone: the
// result does not depend on who computed it.
//
//   job opened ──▶ each claims his own part ──▶ and what is left ──▶ last part done ──▶ next job
//     open: a bit for each part that nobody has claimed
//
// Why not OpenMP: its threads wait by a setting that is read before main, by default for
// milliseconds (docs/design/0004-threads.md). Not reentrant: parts run no jobs.

#include <array>
#include <atomic>
#include <cstdint>

#include "base/threads/fork.h"

namespace plimsoll::backend::cpu {

class Team {
 public:
  using PartFunction = void (*)(const void* body, int part);

  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Runs function(body, part) for each part below `parts`, on at most `threads`; both at least 1.
  // Starts threads that it does not have yet; where the system gives none, this thread does their
  // parts.
  void run(int parts, int threads, PartFunction function, const void* body) noexcept;
  size_t thread_count() const { return threads_.size() + 1; }

 private:
  static constexpr size_t kLine = 64;
  static constexpr int kWordParts = 32;
  static constexpr int kWords = 32;

  void grow(size_t others) noexcept;
  void serve(int member);
  // The generation of a job other than `seen`.
  uint32_t await_job(uint32_t seen);
  void await_done();
  // A part that nobody had claimed, the member's own if it is one; -1: there is none for it.
  int claim(int member) noexcept;
  // Claims and runs parts until there are none left, its own first.
  void work_on(int member) noexcept;

  alignas(kLine) std::atomic<uint32_t> generation_{0};  // of the job; what sleepers wait on
  std::atomic<int> parts_{0};
  std::atomic<int> members_{0};  // who may claim parts of this job: those below
  PartFunction function_ = nullptr;
  const void* body_ = nullptr;
  int first_part_ = 0;  // what part 0 of this job is to the caller
  std::atomic<bool> stops_{false};
  // A bit for each part that nobody has claimed, and above them the generation of the job that they
  // are of: who has looked at an earlier one claims nothing of this.
  alignas(kLine) std::array<std::atomic<uint64_t>, kWords> open_{};
  alignas(kLine) std::atomic<int> left_{0};  // parts that are not done
  Threads threads_;
};

}  // namespace plimsoll::backend::cpu
