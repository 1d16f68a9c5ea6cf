#pragma once

// What ranks print: the first one speaks for all. Another one is heard where it fails, unless the
// first one has failed by then, which ends all.

#include <memory>
#include <string>

#include "ranks/ranks.h"
#include "run/request.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

// --rank-timeout, in seconds.
void add_rank_options(CLI::App& command, double& timeout_seconds);
inline constexpr double kRankTimeout = 60;
// --shard, as it is spelled.
void add_shard_option(CLI::App& command, std::string& stage);
inline constexpr const char* kShardAuto = "auto";

// A command's ranks, from joining to its end; none where it runs alone.
class CommandRanks {
 public:
  // Joins the launcher's ranks; those after the first are silent from here on.
  explicit CommandRanks(double timeout_seconds);
  // Where an exception ends the command, the ranks after the first are heard again.
  ~CommandRanks();
  CommandRanks(const CommandRanks&) = delete;
  CommandRanks& operator=(const CommandRanks&) = delete;

  ranks::JoinedRanks* get() const { return joined_.get(); }
  bool leads() const { return joined_ == nullptr || joined_->rank() == 0; }

  // Says who shares the steps, and what their library takes. Lanes that nobody asked for
  // (`lanes_known`: a checkpoint has them) are as many as ranks.
  void share(run::Settings& settings, bool lanes_known) const;
  // The same where each takes whole batches.
  void take_turns(run::Settings& settings) const;

  // Called at the command's end: where it failed, ends all ranks. Gives the exit code back.
  int end(int code);

 private:
  void speak();

  std::unique_ptr<ranks::JoinedRanks> joined_;
  int error_ = -1;  // where standard error was
};

}  // namespace plimsoll::cli
