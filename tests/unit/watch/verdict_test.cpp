// How a run ended, concluded from counters, signals and output. One rule per test.

#include "watch/verdict.h"

#include <signal.h>

#include "explain/explainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

Ending killed() {
  Ending ending;
  ending.signal = SIGKILL;
  ending.main_pid = 100;
  ending.pids = {100, 101};
  return ending;
}

Ending printed(std::string_view log, int exit_code = 1) {
  Ending ending;
  ending.exit_code = exit_code;
  ending.explanation = explain::explain_text(log);
  return ending;
}

TEST(Verdict, ExitCodeZeroIsDone) {
  const Verdict verdict = conclude(Ending{});
  EXPECT_EQ(verdict.kind, VerdictKind::kDone);
  EXPECT_EQ(verdict.resource, "");
}

TEST(Verdict, AKillAtOurLimitIsTheKernels) {
  Ending ending = killed();
  ending.limit = 2 * kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.group_limit_hits = 7;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kKilledByLimit);
  EXPECT_EQ(verdict.resource, "host_memory");
  EXPECT_THAT(verdict.sentence, HasSubstr("2 GiB"));
  EXPECT_TRUE(is_memory_death(verdict));
}

TEST(Verdict, WithoutLogAndCountOfHitsTheHighestUseTells) {
  Ending ending = killed();
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.group_high_water = kGiB - 4096;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledByLimit);
  ending.group_high_water = kGiB / 2;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledBySystem);
}

TEST(Verdict, AShellThatReports137AtOurLimitIsTheSame) {
  Ending ending;
  ending.exit_code = 137;
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.group_limit_hits = 1;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledByLimit);
}

TEST(Verdict, TheKernelsLogTellsWhoseLimitItWas) {
  Ending ending = killed();
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_name = "plimsoll-watch-7";
  ending.group_oom_kills = 1;
  OomRecord record;
  record.pid = 100;
  record.in_group = true;
  record.group = "/a/plimsoll-watch-7";
  ending.kernel_log = {record};
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledByLimit);
  ending.kernel_log[0].group = "/a";
  ending.group_limit_hits = 3;  // page cache was given back before
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledByContainer);
}

TEST(Verdict, AWorkerKilledAtOurLimitIsNamed) {
  Ending ending = printed("RuntimeError: DataLoader worker (pid(s) 101) exited unexpectedly\n");
  ending.main_pid = 100;
  ending.pids = {100, 101};
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.group_limit_hits = 1;
  OomRecord record;
  record.pid = 101;
  record.name = "python";
  record.in_group = true;
  record.text = "Memory cgroup out of memory: Killed process 101 (python)";
  ending.kernel_log = {record};
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kWorkerKilled);
  EXPECT_THAT(verdict.sentence, HasSubstr("python (process 101)"));
  EXPECT_THAT(verdict.sentence, HasSubstr("exit code 1"));
}

TEST(Verdict, AWorkerKilledUnderACommandThatEndsWellIsStillSaid) {
  Ending ending;
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 2;
  ending.group_limit_hits = 3;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kWorkerKilled);
}

TEST(Verdict, SigkillWithoutAnOomEventIsAKill) {
  Ending ending = killed();
  ending.kernel_holds_limit = true;
  ending.limit = kGiB;
  ending.machine_oom_kills = 3;  // somebody else's
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kKilled);
  EXPECT_EQ(verdict.resource, "");
  EXPECT_THAT(verdict.sentence, HasSubstr("not a shortage of memory"));
  EXPECT_FALSE(is_memory_death(verdict));
}

TEST(Verdict, Exit137WithoutAnOomEventIsAKill) {
  Ending ending;
  ending.exit_code = 137;
  ending.kernel_holds_limit = true;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilled);
}

TEST(Verdict, TheWordKilledInTheOutputProvesNothing) {
  Ending ending = printed("train.sh: line 3: 4711 Killed python train.py\n", 137);
  ending.kernel_holds_limit = true;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilled);
}

TEST(Verdict, WithoutAGroupTheContainersCounterTells) {
  Ending ending = killed();
  ending.container_oom_kills = 1;
  ending.container_limit = 4 * kGiB;
  ending.container_folder = "/sys/fs/cgroup";
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kKilledByContainer);
  EXPECT_THAT(verdict.sentence, HasSubstr("4 GiB"));
}

TEST(Verdict, WithoutAGroupTheMachinesCounterTells) {
  Ending ending = killed();
  ending.machine_oom_kills = 1;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledBySystem);
}

TEST(Verdict, AKernelLogThatNamesAnotherVictimClearsTheMachine) {
  Ending ending = killed();
  ending.machine_oom_kills = 1;
  ending.kernel_log_readable = true;
  OomRecord record;
  record.pid = 999;
  ending.kernel_log = {record};
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilled);
}

TEST(Verdict, AGlobalOomRecordOfTheTreeIsTheSystems) {
  Ending ending = killed();
  ending.kernel_holds_limit = true;
  ending.limit = 64 * kGiB;
  ending.group_oom_kills = 1;
  OomRecord record;
  record.pid = 100;
  ending.kernel_log_readable = true;
  ending.kernel_log = {record};
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledBySystem);
}

TEST(Verdict, AGroupWithoutALimitOfItsOwnDiesOfTheContainers) {
  Ending ending = killed();
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.container_limit = kGiB;
  ending.container_limit_hits = 5;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kKilledByContainer);
}

TEST(Verdict, WhatWeStoppedIsOurs) {
  Ending ending;
  ending.signal = SIGTERM;
  ending.stopped_for_limit = true;
  ending.limit = kGiB;
  ending.peak_held = kGiB + 1;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kStoppedAtLimit);
}

TEST(Verdict, AForwardedSignalIsAnInterruption) {
  Ending ending;
  ending.signal = SIGTERM;
  ending.forwarded_signal = SIGTERM;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kInterrupted);
  ending.signal = 0;
  ending.exit_code = 130;
  ending.forwarded_signal = SIGINT;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kInterrupted);
}

struct Said {
  const char* log;
  VerdictKind kind;
  const char* resource;
};

TEST(Verdict, WhatTheProgramPrintsNamesTheResource) {
  const Said cases[] = {
      {"MemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data "
       "type float64",
       VerdictKind::kOutOfMemory, "host_memory"},
      {"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
       VerdictKind::kOutOfMemory, "host_memory"},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
       "capacity of 10.00 GiB of which 1.00 GiB is free.",
       VerdictKind::kOutOfDeviceMemory, "gpu_memory"},
      {"OSError: [Errno 24] Too many open files: 'x'", VerdictKind::kDescriptors,
       "file_descriptors"},
      {"OSError: [Errno 28] No space left on device: '/data/ck'", VerdictKind::kDiskFull, "disk"},
      {"RuntimeError: unable to write to file </torch_4711_1>: No space left on device (28)",
       VerdictKind::kSharedMemoryFull, "shm"},
  };
  for (const Said& said : cases) {
    SCOPED_TRACE(said.log);
    const Verdict verdict = conclude(printed(said.log));
    EXPECT_EQ(verdict.kind, said.kind);
    EXPECT_EQ(verdict.resource, said.resource);
    EXPECT_FALSE(verdict.evidence.empty());
  }
}

TEST(Verdict, AnAddressSpaceLimitIsQuoted) {
  Ending ending = printed(
      "MemoryError: Unable to allocate 7.45 GiB for an array with shape "
      "(1000000000,) and data type float64");
  ending.address_space_limit = 4 * kGiB;
  const Verdict verdict = conclude(ending);
  ASSERT_FALSE(verdict.evidence.empty());
  EXPECT_THAT(verdict.evidence.back(), HasSubstr("RLIMIT_AS, ulimit -v) of 4 GiB"));
}

TEST(Verdict, ARefusalAtTheAddressSpaceLimitIsConcludedFromWhatWasHeld) {
  Ending ending =
      printed("Traceback (most recent call last):\n  File \"a.py\", line 3\nMemoryError\n");
  ending.address_space_limit = 600 << 20;
  ending.address_space_used = 590 << 20;
  ending.peak_held = 551 << 20;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_THAT(verdict.sentence, HasSubstr("551 MiB"));
  EXPECT_THAT(verdict.sentence, HasSubstr("600 MiB"));
  EXPECT_THAT(verdict.sentence, HasSubstr("ulimit -v"));
  ASSERT_FALSE(verdict.advice.empty());
  EXPECT_THAT(verdict.advice.front(), HasSubstr("ulimit -v"));
  EXPECT_THAT(verdict.advice, Not(Contains(HasSubstr("plimsoll watch"))));
}

TEST(Verdict, OneRequestBeyondTheAddressSpaceLimitIsToldFromAFullOne) {
  Ending ending =
      printed("Traceback (most recent call last):\n  File \"a.py\", line 3\nMemoryError\n");
  ending.address_space_limit = 8 * kGiB;
  ending.address_space_used = kGiB / 2;
  ending.peak_held = 40 << 20;
  EXPECT_THAT(conclude(ending).sentence, HasSubstr("one request"));
}

TEST(Verdict, ASigkillMayHaveBeenTheProgramsOwn) {
  const Verdict verdict = conclude(killed());
  EXPECT_EQ(verdict.kind, VerdictKind::kKilled);
  EXPECT_THAT(verdict.sentence, Not(HasSubstr("from outside")));
  EXPECT_THAT(verdict.sentence, HasSubstr("not a shortage of memory"));
  EXPECT_THAT(verdict.advice, Contains(HasSubstr("the program itself")));
}

TEST(Verdict, ALeakOfARunThatEndedWellIsAdvisedOn) {
  Ending ending;
  ending.leak_per_step = 4 << 20;
  ending.leaked = 320 << 20;
  ending.peak_held = 400 << 20;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kDone);
  EXPECT_THAT(verdict.sentence, HasSubstr("4 MiB a step"));
  ASSERT_FALSE(verdict.advice.empty());
  EXPECT_THAT(verdict.advice.front(), HasSubstr("every step keeps"));
}

TEST(Verdict, WarningsOfARunThatEndedWellAreNoFailure) {
  const Ending ending = printed("Allocation of 1000000000 exceeds 10% of free system memory.\n", 0);
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kDone);
}

TEST(Verdict, OfALeakAtTheLimitAdvisesNoLargerLimit) {
  Ending ending = killed();
  ending.limit = kGiB;
  ending.kernel_holds_limit = true;
  ending.group_oom_kills = 1;
  ending.group_limit_hits = 1;
  EXPECT_THAT(conclude(ending).advice, Contains(HasSubstr("Give it more")));
  ending.leak_per_step = 2 << 20;
  ending.leaked = 512 << 20;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kKilledByLimit);
  EXPECT_THAT(verdict.evidence, Contains(HasSubstr("2 MiB a step, 512 MiB in all")));
  EXPECT_THAT(verdict.advice, Not(Contains(HasSubstr("Give it more"))));
  EXPECT_THAT(verdict.advice, Contains(HasSubstr("what every step keeps")));
  ending.signal = 0;
  ending.group_oom_kills = 0;
  EXPECT_THAT(conclude(ending).advice, Not(Contains(HasSubstr("Give it more"))));
}

TEST(Verdict, ACrashNearTheAddressSpaceLimitIsSuspected) {
  Ending ending;
  ending.signal = SIGSEGV;
  ending.address_space_limit = 2 * kGiB;
  ending.address_space_used = kGiB;
  EXPECT_TRUE(conclude(ending).evidence.empty());
  ending.address_space_used = 2 * kGiB - kGiB / 16;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kSignal);
  EXPECT_EQ(verdict.resource, "");
  EXPECT_THAT(verdict.evidence, Contains(HasSubstr("RLIMIT_AS")));
  EXPECT_THAT(verdict.advice, Contains(HasSubstr("ulimit -v unlimited")));
}

TEST(Verdict, SharedMemoryThatOneObjectOverfillsIsNotMeasuredFull) {
  Ending ending =
      printed("RuntimeError: unable to write to file </torch_1_2_0>: No space left on device (28)");
  ending.shm_size = 64 << 20;
  ending.shm_used = 1 << 20;
  EXPECT_THAT(conclude(ending).evidence, Not(Contains(HasSubstr("measured"))));
  ending.shm_used = 60 << 20;
  EXPECT_THAT(conclude(ending).evidence, Contains(HasSubstr("measured")));
}

TEST(Verdict, ABusErrorWithFullSharedMemoryIsThat) {
  Ending ending;
  ending.signal = SIGBUS;
  ending.shm_used = 63 << 20;
  ending.shm_size = 64 << 20;
  EXPECT_EQ(conclude(ending).kind, VerdictKind::kSharedMemoryFull);
  ending.shm_used = 1 << 20;
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kSignal);
  EXPECT_THAT(verdict.sentence, HasSubstr("SIGBUS"));
}

TEST(Verdict, AnExitCodeOfItsOwnIsAFailureWithoutAResource) {
  const Verdict verdict = conclude(printed("ValueError: shapes do not match\n", 3));
  EXPECT_EQ(verdict.kind, VerdictKind::kFailed);
  EXPECT_EQ(verdict.resource, "");
  EXPECT_THAT(verdict.sentence, HasSubstr("exit code 3"));
  EXPECT_THAT(verdict.sentence, Not(HasSubstr("memory")));
}

TEST(Verdict, AnExceptionThatWasPrintedIsNamedWithItsPlace) {
  const Verdict verdict = conclude(printed(
      "step 1 loss 0.5\nTraceback (most recent call last):\n  File \"train.py\", line 12, in "
      "<module>\n    fit(x)\n  File \"train.py\", line 7, in fit\n    raise "
      "ValueError(\"no labels\")\nValueError: no labels\n"));
  EXPECT_EQ(verdict.kind, VerdictKind::kFailed);
  EXPECT_EQ(verdict.resource, "");
  EXPECT_THAT(verdict.sentence, HasSubstr("exit code 1 after it printed: ValueError: no labels."));
  EXPECT_THAT(verdict.evidence, Contains("line 7 of the output: ValueError: no labels"));
  EXPECT_THAT(verdict.evidence,
              Contains(HasSubstr("line 5 of the output: File \"train.py\", line 7")));
  EXPECT_FALSE(verdict.advice.empty());
}

TEST(Verdict, AnExceptionThatWasCaughtIsNotWhatEndedIt) {
  const Verdict verdict = conclude(printed("WARNING:root:ValueError: bad sample, skipping\n"));
  EXPECT_EQ(verdict.kind, VerdictKind::kFailed);
  EXPECT_THAT(verdict.sentence, Not(HasSubstr("ValueError")));
}

TEST(Verdict, AnExceptionThatTellsOfAnotherProcessClaimsNothingOfIt) {
  const Verdict verdict = conclude(
      printed("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py\n"));
  EXPECT_EQ(verdict.kind, VerdictKind::kFailed);
  EXPECT_THAT(verdict.sentence, HasSubstr("another process ended"));
}

TEST(Verdict, ACommandThatIsNotThereWasNotStarted) {
  Ending ending;
  ending.start_error = ENOENT;
  ending.start_path = "pyhton";
  const Verdict verdict = conclude(ending);
  EXPECT_EQ(verdict.kind, VerdictKind::kNotStarted);
  EXPECT_THAT(verdict.sentence, HasSubstr("pyhton"));
}

}  // namespace
}  // namespace plimsoll::watch
