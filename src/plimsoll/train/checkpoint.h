#pragma once

// Checkpoints of a run: where it stands, all of its state, and a folder that keeps the last ones.
//
// A run that is resumed from one continues bit for bit, at any limit that keeps the kernel set's
// blocks: the checkpoint names kernel set, block set, thread count, seed and place in the data, and
// restore says what is no longer the same. A file is complete or absent
// (formats/checkpoint_file.h); a damaged one is passed over for the one before. What a checkpoint
// does not hold: the data, and the best weights of an earlier epoch (best_weights.h).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "data/rows/row_order.h"
#include "formats/checkpoint_file.h"

namespace plimsoll::train {

// Where a run stands: after `batches` batches of epoch `epoch` (from 0) and `steps` steps in all.
struct Position {
  int64_t steps = 0;
  int64_t epoch = 0;
  int64_t batches = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// What decisions at the ends of epochs depend on (callbacks.h).
struct CallbackState {
  std::optional<double> best;  // of the monitored metric
  int64_t best_epoch = 0;      // from 1; 0: none
  int64_t wait = 0;            // epochs since then
  std::optional<double> plateau_best;
  int64_t plateau_wait = 0;
  int64_t cooldown = 0;
  bool stopped = false;  // early
  friend bool operator==(const CallbackState&, const CallbackState&) = default;
};

struct CheckpointHead {
  Position position;
  int64_t batch = 0;
  int64_t rows = 0;  // of the training data
  uint64_t seed = 0;
  data::Shuffle shuffle = data::Shuffle::kFull;
  std::string precision;   // f32 or bf16; empty in files of before there was a choice
  std::string batch_norm;  // "full" or "slice:8"; empty in files of before there was a choice
  std::string program;     // fingerprint of the training program, in hexadecimal
  std::string kernel_set;
  int block_set = 0;
  int parts = 1;  // of kernels' work
  CallbackState callbacks{};
  int64_t lanes = 1;  // of the batch
  friend bool operator==(const CheckpointHead&, const CheckpointHead&) = default;
};

layers::Config to_config(const CheckpointHead& head);
// Throws kModel naming the key.
CheckpointHead parse_checkpoint_head(const layers::Config& config);

struct FoundCheckpoint {
  std::string path;
  CheckpointHead head;
  std::unique_ptr<TensorSource> tensors;
};

// Files `step-000000001234.ckpt` in one folder.
class CheckpointFolder {
 public:
  // Creates the folder where there is none. `keep` ≥ 1 files stay. Throws kIo.
  CheckpointFolder(std::string path, int keep);

  // Then removes the oldest beyond `keep`. Throws kIo; files written before stay as they were.
  void write(const CheckpointHead& head, std::string_view plan, TensorSource& state);
  // The newest that is whole, none where there is none; `damaged` gets what was passed over and
  // why.
  std::optional<FoundCheckpoint> newest(std::vector<std::string>* damaged) const;

 private:
  std::vector<std::string> files() const;  // names by rising step

  std::string path_;
  int keep_;
};

// How often: so many epochs, steps or seconds, whichever comes first; 0: not by that.
struct CheckpointSchedule {
  int64_t epochs = 1;
  int64_t steps = 0;
  double seconds = 600;
  friend bool operator==(const CheckpointSchedule&, const CheckpointSchedule&) = default;
};

// "epoch", "3 epochs", "500steps", "90s", "10min", "2h". Throws kConfig.
CheckpointSchedule parse_schedule(std::string_view text);

}  // namespace plimsoll::train
