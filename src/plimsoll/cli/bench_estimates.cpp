#include "cli/bench_estimates.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include "base/error.h"
#include "cli/exit_code.h"
#include "report/estimates.h"

namespace plimsoll::cli {
namespace {

struct Told {
  int code = kDone;
  std::vector<report::KernelEstimate> estimates;
};

std::string read_all(int from) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t count = ::read(from, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece.data(), static_cast<size_t>(count));
  }
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(to, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

Told ask_child(const std::string& name,
               const std::function<report::Profile(const std::string&)>& profile, bool& is_child) {
  std::array<int, 2> pipe{};
  std::fflush(nullptr);
  if (::pipe(pipe.data()) != 0) {
    throw Error(ErrorKind::kIo, "bench: cannot make a pipe for " + name + ".");
  }
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorKind::kIo, "bench: cannot start a process for " + name + ".");
  if (child == 0) {
    is_child = true;
    ::close(pipe[0]);
    write_all(pipe[1], report::print_estimates(report::kernel_estimates(profile(name))));
    ::close(pipe[1]);
    return {};
  }
  ::close(pipe[1]);
  Told told;
  told.estimates = report::parse_estimates(read_all(pipe[0]));
  ::close(pipe[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  told.code = WIFEXITED(status) ? WEXITSTATUS(status) : kFileFailure;
  if (!WIFEXITED(status)) {
    std::fprintf(stderr, "plimsoll: bench: %s: ended by signal %d\n", name.c_str(),
                 WTERMSIG(status));
  }
  return told;
}

void show(const std::string& name, const std::vector<report::KernelEstimate>& estimates,
          bool json) {
  const std::vector<report::EstimateError> errors = report::estimate_errors(estimates);
  const std::string text = json ? report::to_json(name, errors) : report::to_text(name, errors);
  std::printf("%s\n", text.c_str());
}

}  // namespace

int run_estimates(const std::vector<std::string>& names, bool json,
                  const std::function<report::Profile(const std::string&)>& profile,
                  bool& is_child) {
  int code = kDone;
  std::vector<report::KernelEstimate> all;
  for (const std::string& name : names) {
    Told told = ask_child(name, profile, is_child);
    if (is_child) return told.code;
    code = std::max(code, told.code);
    if (told.code != kDone) continue;
    show(name, told.estimates, json);
    std::ranges::move(told.estimates, std::back_inserter(all));
  }
  if (names.size() > 1 && !all.empty()) show("all", all, json);
  return code;
}

}  // namespace plimsoll::cli
