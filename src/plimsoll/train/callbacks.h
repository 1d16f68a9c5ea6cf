#pragma once

// What happens at the end of an epoch by its metrics: stop early, lower the learning rate, keep the
// best weights.
//
// The rules are those of Keras's EarlyStopping, ReduceLROnPlateau and
// ModelCheckpoint(save_best_only) with the same names and defaults, but that early stopping gives
// the best weights back unless told not to. Metrics whose names hold "acc" or begin with "auc" are
// better when larger, all others when smaller. Everything that a decision depends on is in
// CallbackState, which checkpoints hold: a resumed run decides as the run would have. Only whole
// epochs count.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/ranks.h"
#include "train/best_weights.h"
#include "train/session.h"

namespace plimsoll::train {

struct EarlyStopping {
  int64_t patience = 0;  // epochs without improvement before the end
  double min_delta = 0;  // less is no improvement
  bool restore_best = true;
  friend bool operator==(const EarlyStopping&, const EarlyStopping&) = default;
};

struct ReduceOnPlateau {
  double factor = 0.1;
  int64_t patience = 10;
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs after a reduction that do not count
  double min_lr = 0;
  friend bool operator==(const ReduceOnPlateau&, const ReduceOnPlateau&) = default;
};

// "patience=5,min_delta=0.001", or "5" for the patience alone; "" is all defaults. Throws kConfig
// with a did-you-mean.
EarlyStopping parse_early_stopping(std::string_view text);
ReduceOnPlateau parse_reduce_on_plateau(std::string_view text);

struct CallbackOptions {
  std::string monitor;  // name of a metric; "": val_loss where there is one, else loss
  std::optional<EarlyStopping> early_stopping;
  std::optional<ReduceOnPlateau> plateau;
  std::string best_path;        // of the best weights' file; "": an unlinked one
  bool writes = true;           // false: another rank writes files
  Ranks* ranks = nullptr;       // that hold the state together; null: nobody else
  std::string spill_directory;  // for that
  // Called when an epoch is better than all before it; may be empty.
  std::function<void(Session&)> on_best;
  // Notices for the user, without an end of line.
  std::function<void(const std::string&)> say;
  bool any() const { return early_stopping || plateau || on_best; }
};

class Callbacks {
 public:
  // `validates`: epochs have metrics of validation, too. Throws kConfig where there is no such
  // metric to monitor, and where a plateau cannot be acted on: the learning rate follows a
  // schedule.
  Callbacks(CallbackOptions options, const Session& session, bool validates);

  // After a whole epoch; true: training ends here.
  bool end_epoch(Session& session, const EpochResult& result);
  // After the last epoch: the best weights, where they are wanted.
  void finish(Session& session);

  const CallbackState& state() const { return state_; }
  void restore(const CallbackState& state) { state_ = state; }

 private:
  void find_monitor(const Session& session, bool validates);
  double monitored(const EpochResult& result) const;
  bool better(double value, double than, double min_delta) const;
  void watch_plateau(Session& session, double value);
  void say(const std::string& text) const;

  CallbackOptions options_;
  std::string monitor_;  // one of the metrics that an epoch has
  bool larger_is_better_ = false;
  CallbackState state_;
  BestWeights best_;
};

}  // namespace plimsoll::train
