// A host that forks while threads of ours run: the child is refused and ends, the parent goes on.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "api/plimsoll.h"
#include "base/threads/fork.h"
#include "exec/spill_queue.h"
#include "guest/small_training.h"

#if defined(__SANITIZE_ADDRESS__)
// What threads held on their stacks has nobody to free it in a forked child. The sanitizer's
// library looks this function up, so it must not be hidden.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

namespace plimsoll {
namespace {

using test::SmallTraining;

constexpr unsigned kPatience = 60;  // seconds, after which a child that hangs is killed

// What `body` does in a forked child, told by its exit code; it ends as programs do, with the
// destructors of static and thread-local objects.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatience);
    std::exit(body());  // NOLINT(concurrency-mt-unsafe): one thread is left
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0: refused with a message that says what to do.
int refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool clear = error.kind() == ErrorKind::kConfig &&
                       text.find("forked") != std::string::npos &&
                       text.find("Fork before the first call") != std::string::npos;
    return clear ? 0 : 2;
  }
  return 1;
}

TEST(Fork, EveryCallIsRefusedInTheChildAndTheParentGoesOn) {
  SmallTraining alone;
  alone.fit(2);
  alone.fit(2);
  SmallTraining host;
  host.fit(2);
  const Dataset data = host.dataset();
  EXPECT_EQ(in_child([&] { return refused([&] { host.fit(2); }); }), 0);
  EXPECT_EQ(in_child([&] { return refused([&] { host.model().evaluate(data); }); }), 0);
  EXPECT_EQ(in_child([&] { return refused([&] { host.model().predict(data); }); }), 0);
  EXPECT_EQ(in_child([&] { return refused([&] { host.model().plan(); }); }), 0);
  EXPECT_EQ(in_child([&] { return refused([&] { host.weights(); }); }), 0);
  EXPECT_EQ(in_child([&] { return refused([&] { SmallTraining().fit(1); }); }), 0);
  // A grandchild too.
  EXPECT_EQ(in_child([&] { return in_child([&] { return refused([&] { host.fit(2); }); }); }), 0);
  host.fit(2);
  EXPECT_EQ(host.weights(), alone.weights());
}

TEST(Fork, AChildThatEndsAModelDoesNotHang) {
  auto host = std::make_unique<SmallTraining>();
  host->fit(1);
  EXPECT_EQ(in_child([&] {
              host.reset();
              return 0;
            }),
            0);
}

// Fits with a fork after the second step; the child leaves by a refusal, or not at all.
void fit_and_fork(SmallTraining& host, FitOptions options) {
  pid_t child = -1;
  options.on_step = [&](int64_t step, double) {
    if (step != 2) return;
    child = ::fork();
    if (child == 0) ::alarm(kPatience);
  };
  if (const int code = refused([&] { host.fit(options); }); child == 0) {
    std::exit(code);  // NOLINT(concurrency-mt-unsafe): one thread is left
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Fork, BetweenTwoStepsTheChildLeavesFit) {
  SmallTraining alone;
  alone.fit(2);
  SmallTraining host;
  fit_and_fork(host, SmallTraining::options(2));
  EXPECT_EQ(host.weights(), alone.weights());
}

TEST(Fork, WithASpillFile) {
  SmallTraining host;
  FitOptions options = SmallTraining::options(1);
  options.spill = Spill::kAlways;
  fit_and_fork(host, options);
}

TEST(Fork, AQueueWhoseThreadsWaitIsLeftAlone) {
  auto queue = std::make_unique<exec::SpillQueue>(
      "/var/tmp", exec::SpillQueue::Shape{.bytes = 1_MiB, .buffer = exec::kSpillBuffer, .rank = 1});
  EXPECT_EQ(in_child([&] {
              queue->abandon();
              queue.reset();
              return is_child_without_threads() ? 0 : 1;
            }),
            0);
}

// In a process of its own, in which nothing ran before.
TEST(Fork, BeforeTheFirstCallTheChildMayTrain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const int code = in_child([] { return SmallTraining().fit(1).steps == 3 ? 0 : 1; });
        SmallTraining().fit(1);
        std::exit(code);  // NOLINT(concurrency-mt-unsafe)
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plimsoll
