#include "cli/rank_output.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "cli/exit_code.h"

namespace plimsoll::cli {

namespace {

// Over TCP Open MPI has the receiver of a long message ask for it to be put, one direction after
// the other: a swap of 15 MB takes twice its time on the wire. Sent, both go at once. What a person
// has set stays.
std::unique_ptr<ranks::JoinedRanks> join_ranks(double timeout_seconds) {
  setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
  const auto end = [](const std::string& why) {
    std::fprintf(stderr, "plimsoll: %s\n", why.c_str());
    _exit(exit_code_of(ErrorKind::kBackend));
  };
  return ranks::join({.timeout_seconds = timeout_seconds, .late = end});
}

}  // namespace

CommandRanks::CommandRanks(double timeout_seconds) : joined_(join_ranks(timeout_seconds)) {
  if (leads()) return;
  std::fflush(stderr);
  error_ = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
}

CommandRanks::~CommandRanks() {
  if (std::uncaught_exceptions() > 0) speak();
}

void CommandRanks::speak() {
  if (error_ < 0) return;
  const timespec second{1, 0};
  nanosleep(&second, nullptr);  // the first rank, where it failed too, has spoken
  dup2(error_, STDERR_FILENO);
  close(error_);
  error_ = -1;
  std::fprintf(stderr, "rank %d on %s: ", joined_->rank(), joined_->host().c_str());
}

void CommandRanks::share(run::Settings& settings, bool lanes_known) const {
  if (joined_ == nullptr) {
    if (settings.shard.value_or(0) > 0) {
      std::fprintf(stderr, "--shard %d: there is one process, which holds everything\n",
                   *settings.shard);
    }
    return;
  }
  if (!settings.plan.empty()) {
    throw Error(ErrorKind::kConfig,
                "--plan: expected none where ranks share the steps, received one of a single "
                "process. Leave it out.");
  }
  settings.ranks = joined_.get();
  settings.exchange = joined_->held();
  if (settings.lanes == 0 && !lanes_known) settings.lanes = joined_->count();
  std::string lanes = "the checkpoint's lanes";
  if (settings.lanes > 0) lanes = fmt::format("the batch in {} lanes", settings.lanes);
  std::fprintf(stderr, "%d ranks by %s: %s\n", joined_->count(), joined_->library().c_str(),
               lanes.c_str());
}

void CommandRanks::take_turns(run::Settings& settings) const {
  if (joined_ == nullptr) return;
  settings.ranks = joined_.get();
  settings.exchange = joined_->held();
  std::fprintf(stderr, "%d ranks by %s: each predicts some of the batches\n", joined_->count(),
               joined_->library().c_str());
}

void add_rank_options(CLI::App& command, double& timeout_seconds) {
  command
      .add_option("--rank-timeout", timeout_seconds,
                  "Seconds that a rank under mpirun waits for another one; default 60")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 1e6));
}

void add_shard_option(CLI::App& command, std::string& stage) {
  command
      .add_option(
          "--shard", stage,
          "What each rank holds a part of only: 0 nothing, 1 the optimizer's slots, 2 "
          "gradients that wait for a norm, too, 3 weights, too; default: auto, as little as "
          "fits")
      ->type_name("auto|0|1|2|3");
}

int CommandRanks::end(int code) {
  const bool failed = code != kDone && code != kInterrupted && code != kPassedLimit;
  if (joined_ != nullptr && failed) {
    std::fflush(stderr);
    if (!leads()) {
      speak();
      std::fprintf(stderr, "the command ended with exit code %d\n", code);
    }
    joined_->end_all(code);
  }
  if (code == kPassedLimit && !leads()) {
    speak();
    std::fprintf(stderr, "the process passed its limit (exit code %d)\n", code);
  }
  return code;
}

}  // namespace plimsoll::cli
