#pragma once

// Writes a run's checkpoints as it goes, and takes it up again from the last one.
//
// A write that fails (a full disk) is reported and the run goes on: the files written before are
// whole. What a resumed run does not share with the one before (kernel set, blocks, threads) is
// said, since its bits may then differ; what makes it another run (model, optimizer, batch, data)
// is refused.

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/session.h"

namespace plimsoll::train {

struct CheckpointOptions {
  std::string folder;
  CheckpointSchedule schedule;
  int keep = 3;
  bool resume = false;  // without it a folder that holds checkpoints is refused
  bool writes = true;   // false: another rank does, with what this one holds of the state
};

// kConfig: the folder holds a run, and nobody asked to go on with it.
class RunExists final : public Error {
 public:
  RunExists(const std::string& folder, const CheckpointHead& head);
  const Position& position() const { return position_; }
  bool ended_early() const { return ended_early_; }  // by early stopping

 private:
  Position position_;
  bool ended_early_;
};

class Checkpointer {
 public:
  // `say` takes notices for the user, each one sentence or more without an end of line. Finds the
  // checkpoint to resume from. Throws kConfig where the folder holds another run's, kIo.
  Checkpointer(const CheckpointOptions& options, std::function<void(const std::string&)> say);

  // The checkpoint that the run will go on from: its seed, order and threads are the run's.
  const CheckpointHead* found() const { return found_ ? &found_->head : nullptr; }

  // Fills the session's state from it and says what is not the same. Start: nothing was found.
  Position restore(Session& session, int64_t rows, data::Shuffle shuffle);

  // The run goes on in another session: what its checkpoints say of blocks is that one's.
  void go_on_in(const Session& session);

  // Their state is written with every checkpoint and given back by restore. Outlive this.
  void attach(Callbacks& callbacks) { callbacks_ = &callbacks; }

  // After every step and, with `epoch_ended`, every epoch: writes when one is due.
  void pass(Session& session, const Position& position, bool epoch_ended);
  // After the last step: writes unless this position was written. Whether it is on disk.
  bool finish(Session& session, const Position& position);

 private:
  void write(Session& session, const Position& position, bool due);
  bool try_write(Session& session, const Position& position, bool due);

  CheckpointOptions options_;
  std::function<void(const std::string&)> say_;
  CheckpointFolder folder_;
  std::optional<FoundCheckpoint> found_;
  Callbacks* callbacks_ = nullptr;
  CheckpointHead head_;  // but for the position
  std::optional<Position> written_;
  double last_seconds_ = 0;
  int64_t epochs_passed_ = 0;
};

}  // namespace plimsoll::train
