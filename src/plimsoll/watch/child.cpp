#include "watch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/file.h"

extern char** environ;  // NOLINT(readability-identifier-naming): the system's

namespace plimsoll::watch {
namespace {

std::vector<std::string> environment_of(const ChildSetup& setup) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  for (const auto& [name, value] : setup.environment) {
    std::erase_if(entries, [&, prefix = name + "="](const std::string& entry) {
      return entry.starts_with(prefix);
    });
    entries.push_back(name + "=" + value);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// In the child: nothing here allocates.
[[noreturn]] void become(const ChildSetup& setup, char* const* words, char* const* environment,
                         int report, pid_t watcher) {
  // A watcher that is killed takes the command with it; one that was gone before this line, too.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != watcher) ::_exit(127);
  if (setup.group_entrance >= 0) {
    // Refused only when the group vanished; the command then runs outside, and the watcher's
    // samples of the group stay empty.
    [[maybe_unused]] const ssize_t entered = ::write(setup.group_entrance, "0", 1);
  }
  if (setup.output >= 0) ::dup2(setup.output, STDOUT_FILENO);
  if (setup.error >= 0) ::dup2(setup.error, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(words[0], words, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildStart start_child(const ChildSetup& setup) {
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) throw_io("pipe", "make", errno);
  std::vector<std::string> command = setup.command;
  std::vector<std::string> environment = environment_of(setup);
  const std::vector<char*> words = pointers(command);
  const std::vector<char*> entries = pointers(environment);
  ChildStart start;
  const pid_t watcher = ::getpid();
  start.pid = ::fork();
  if (start.pid == 0) become(setup, words.data(), entries.data(), report[1], watcher);
  const int fork_error = errno;
  ::close(report[1]);
  if (start.pid < 0) {
    ::close(report[0]);
    throw_io(setup.command.front(), "start a process for", fork_error);
  }
  // The pipe closes without a word when exec succeeds.
  ssize_t got = 0;
  do {
    got = ::read(report[0], &start.error, sizeof start.error);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof start.error) start.error = 0;
  ::close(report[0]);
  return start;
}

}  // namespace plimsoll::watch
