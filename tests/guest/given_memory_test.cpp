// A host that holds memory of its own: the limit is for what is left, the prediction for our share.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "api/plimsoll.h"
#include "guest/small_training.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::SmallTraining;

constexpr Bytes kHosts = 300_MiB;
constexpr Bytes kShare = 80_MiB;
constexpr int64_t kUnits = 4096;  // 25 MiB of weights, gradients and slots

// What the host holds, for good.
void hold(Bytes bytes) {
  void* const memory =
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, bytes.size());
}

// Runs the body in a process in which nothing of ours ran before.
#define IN_NEW_PROCESS(body) EXPECT_EXIT(std::exit(body), testing::ExitedWithCode(0), "")

class GivenMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's own memory is not predicted";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

// A copy that is written by one call, by its path.
std::string write_at_once(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream in(from, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::ofstream out;
  out.rdbuf()->pubsetbuf(nullptr, 0);
  out.open(to, std::ios::binary);
  out.write(bytes.data(), std::ssize(bytes));
  return to.string();
}

// 0: the limit holds and the prediction is true of our share.
int keeps_promises(const MemoryUse& memory, Bytes given) {
  const Bytes predicted = memory.predicted_process - given;
  const Bytes measured = memory.measured_process - given;
  std::fprintf(stderr, "share: predicted %s, measured %s\n", to_string(predicted).c_str(),
               to_string(measured).c_str());
  if (memory.passed_limit || memory.measured_process > *memory.limit) return 1;
  if (measured > predicted) return 2;
  const Bytes slack = Bytes(predicted.count() / 50) + 7_MiB;
  return predicted - measured <= slack ? 0 : 3;
}

int train_beside(Bytes hosts) {
  hold(hosts);
  SmallTraining host(kUnits);
  const Bytes given = held_by_process();
  FitOptions options = SmallTraining::options(3);
  options.given = given;
  options.memory = given + kShare;
  return keeps_promises(host.fit(options).memory, given);
}

TEST_F(GivenMemory, TheLimitIsForWhatIsLeft) { IN_NEW_PROCESS(train_beside(kHosts)); }

// What the host has given back before does not count as ours.
int train_after_a_peak() {
  void* const memory =
      ::mmap(nullptr, kHosts.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kHosts.size());
  ::munmap(memory, kHosts.size());
  return train_beside(64_MiB);
}

TEST_F(GivenMemory, AnEarlierPeakIsTheHosts) { IN_NEW_PROCESS(train_after_a_peak()); }

// The page cache holds files that were just written in pieces of up to 2 MiB, and a fault maps one
// of them as a whole, unless the mapping is cut.
TEST_F(GivenMemory, OfFilesJustWritten) {
  const test::TemporaryFolder folder;
  const std::string program = write_at_once("/proc/self/exe", folder / "program");
#ifdef GUEST_VENDOR
  write_at_once(GUEST_VENDOR, folder / "libdnnl.so.3");
#endif
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string command = "LD_LIBRARY_PATH='" + folder.path() + "' '" + program +
                              "' --gtest_filter=GivenMemory.TheLimitIsForWhatIsLeft 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(GivenMemory, WhatIsLeftMayBeTooLittle) {
  SmallTraining host;
  FitOptions options = SmallTraining::options(1);
  options.given = 1_GiB;
  options.memory = 1_GiB + 8_MiB;
  try {
    host.fit(options);
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBudget);
  }
}

// The same plan and the same bits for a share, whatever stands beside it.
TEST_F(GivenMemory, ChangesNoPlanOfTheShare) {
  const auto answer = [](Bytes given) {
    RunOptions options = {.batch = 16, .memory = given + kShare, .given = given, .threads = 2};
    options.times = "none";
    return SmallTraining(kUnits).model().plan(options);
  };
  const PlanAnswer one = answer(100_MiB);
  const PlanAnswer other = answer(700_MiB);
  ASSERT_TRUE(one.fits());
  EXPECT_EQ(one.plan, other.plan);
  EXPECT_EQ(other.predicted_process - one.predicted_process, 600_MiB);
  EXPECT_EQ(other.smallest_same_bits - one.smallest_same_bits, 600_MiB);
  EXPECT_NE(other.text.find("held before"), std::string::npos) << other.text;
}

}  // namespace
}  // namespace plimsoll
