#include "watch/guardian.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "watch/measure/process.h"

namespace plimsoll::watch {

// A process is known by its number and its start, since numbers are used again.
struct Guardian::Board {
  static constexpr size_t kMost = 4096;
  struct Entry {
    std::atomic<int64_t> pid;
    std::atomic<int64_t> started;
  };
  std::atomic<size_t> count;
  Entry entries[kMost];
};

namespace {

// What is known of a process that runs.
struct Life {
  int64_t parent = 0;
  int64_t started = 0;
};

std::optional<Life> read_life(int64_t pid) {
  KernelFile file;
  const auto line = file.read(fmt::format("/proc/{}/stat", pid));
  const std::optional<ProcessStat> stat = line ? parse_process_stat(*line) : std::nullopt;
  return stat ? std::optional<Life>({stat->parent(), stat->started()}) : std::nullopt;
}

std::vector<int64_t> all_processes() {
  std::vector<int64_t> pids;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return pids;
  while (const dirent* entry = ::readdir(folder)) {
    const int64_t pid = std::atoll(entry->d_name);
    if (pid > 1) pids.push_back(pid);
  }
  ::closedir(folder);
  return pids;
}

// `pids` and all that descend from them, again until nobody new is found.
void kill_with_descendants(std::vector<int64_t> pids) {
  constexpr int kMostRounds = 50;
  for (int round = 0; round < kMostRounds; ++round) {
    const size_t before = pids.size();
    for (const int64_t pid : all_processes()) {
      if (std::find(pids.begin(), pids.end(), pid) != pids.end()) continue;
      const std::optional<Life> life = read_life(pid);
      if (!life) continue;
      if (std::find(pids.begin(), pids.end(), life->parent) != pids.end()) pids.push_back(pid);
    }
    for (const int64_t pid : pids) ::kill(static_cast<pid_t>(pid), SIGKILL);
    if (pids.size() == before && round > 0) return;
  }
}

// The watcher's streams, and whatever else it had open, must not stay open here.
void close_all_but(int kept) {
  ::dup2(kept, 0);
  ::close_range(1, ~0U, 0);
}

}  // namespace

void Guardian::post(Group& group) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
  void* shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) board_ = new (shared) Board{};
  pid_ = board_ == nullptr ? -1 : ::fork();
  if (pid_ != 0) {
    ::close(pipe[0]);
    farewell_ = pipe[1];
    return;
  }
  // Beside the terminal's job, so that its signals do not come here.
  ::setsid();
  ::prctl(PR_SET_NAME, "plimsoll-guard");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  close_all_but(pipe[0]);
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(0, &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  if (group.exists()) {
    group.kill();
    group.close();
  }
  std::vector<int64_t> pids;
  const size_t count = std::min(board_->count.load(), Board::kMost);
  for (size_t i = 0; i < count; ++i) {
    const int64_t pid = board_->entries[i].pid.load();
    const std::optional<Life> life = read_life(pid);
    if (pid > 1 && life && life->started == board_->entries[i].started.load()) pids.push_back(pid);
  }
  kill_with_descendants(std::move(pids));
  ::_exit(0);
}

void Guardian::tell(std::span<const int64_t> pids) {
  if (board_ == nullptr) return;
  size_t count = 0;
  for (const int64_t pid : pids) {
    const std::optional<Life> life = read_life(pid);
    if (count == Board::kMost || !life) continue;
    board_->entries[count].pid = pid;
    board_->entries[count].started = life->started;
    ++count;
  }
  board_->count = count;
}

void Guardian::dismiss() {
  if (farewell_ >= 0) {
    const char word = 'q';
    [[maybe_unused]] const ssize_t written = ::write(farewell_, &word, 1);
    ::close(farewell_);
    farewell_ = -1;
  }
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  if (board_ != nullptr) ::munmap(board_, sizeof(Board));
  board_ = nullptr;
}

}  // namespace plimsoll::watch
