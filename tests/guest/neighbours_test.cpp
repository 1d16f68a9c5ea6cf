// Another copy of the vendor's library in the same process: neither sees the other, and the bits
// are those of a process without it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace plimsoll {
namespace {

struct Ended {
  int code = -1;
  std::string output;
};

Ended run(const std::string& command) {
  Ended ended;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> piece;
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), pipe)) {
    ended.output.append(piece.data(), count);
  }
  const int status = ::pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

#ifdef GUEST_PRIVATE

TEST(Neighbours, APrivateCopyGivesTheSameBits) {
  const Ended linked = run(GUEST_LINKED);
  ASSERT_EQ(linked.code, 0);
  ASSERT_GT(linked.output.size(), 1000U);
  const Ended alone = run(GUEST_PRIVATE);
  EXPECT_EQ(alone.code, 0);
  EXPECT_EQ(alone.output, linked.output);
  const Ended beside = run(GUEST_PRIVATE " " GUEST_VENDOR);
  EXPECT_EQ(beside.code, 0);
  EXPECT_EQ(beside.output, linked.output);
}

// What the copy is for: linked as usual, host and library share one.
TEST(Neighbours, LinkedLibrariesAreOne) { EXPECT_EQ(run(GUEST_LINKED " " GUEST_VENDOR).code, 5); }

#else

TEST(Neighbours, WithoutTheVendorsLibraryThereIsNothingToShare) {
  EXPECT_EQ(run(GUEST_LINKED).code, 0);
}

#endif

}  // namespace
}  // namespace plimsoll
