#include "train/checkpointer.h"

#include <utility>
#include <vector>

#include "base/accounted.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "plan/tree/text.h"

namespace plimsoll::train {
namespace {

void refuse_other(const std::string& path, const char* what, const std::string& stored,
                  const std::string& here) {
  if (stored == here) return;
  throw Error(ErrorKind::kConfig, path + " is of another run: expected " + what + " " + stored +
                                      ", received " + here +
                                      ". Resume with what the run began with, or name another "
                                      "folder.");
}

std::string difference(const char* what, const std::string& stored, const std::string& here) {
  return stored == here ? "" : std::string(what) + " was " + stored + ", is " + here + "; ";
}

// A backend and its revision, which a kernel set's id begins with: "onednn-3.2/r9" of
// "onednn-3.2/r9/avx512/t2", "reference" of "reference/t1".
std::string backend_of(const std::string& kernel_set) {
  const size_t name = kernel_set.find('/');
  if (name == std::string::npos || name + 2 >= kernel_set.size()) return kernel_set;
  const bool revised =
      kernel_set[name + 1] == 'r' && kernel_set[name + 2] >= '0' && kernel_set[name + 2] <= '9';
  return kernel_set.substr(0, revised ? kernel_set.find('/', name + 1) : name);
}

std::string crossing(const std::string& stored, const std::string& here) {
  const std::string was = backend_of(stored), is = backend_of(here);
  return was == is ? "" : "backend " + was + " wrote it, " + is + " goes on; ";
}

}  // namespace

RunExists::RunExists(const std::string& folder, const CheckpointHead& head)
    : Error(ErrorKind::kConfig,
            fmt::format("{} holds a run already, at step {} after {} epochs: expected an empty "
                        "folder. Resume that run (--resume), or name another folder.",
                        folder, head.position.steps, head.position.epoch)),
      position_(head.position),
      ended_early_(head.callbacks.stopped) {}

Checkpointer::Checkpointer(const CheckpointOptions& options,
                           std::function<void(const std::string&)> say)
    : options_(options),
      say_(std::move(say)),
      folder_(options.folder, options.keep),
      last_seconds_(SteadyClock().seconds()) {
  const MemoryTag tag(MemoryPart::kFiles);
  std::vector<std::string> damaged;
  found_ = folder_.newest(&damaged);
  if (!options_.resume && found_) throw RunExists(options_.folder, found_->head);
  if (!options_.resume && !damaged.empty()) {
    throw Error(ErrorKind::kConfig, options_.folder +
                                        " holds damaged checkpoints of a run: expected an empty "
                                        "folder. Name another one.");
  }
  for (const std::string& why : damaged) say_("passed over: " + why);
  if (options_.resume && !found_) {
    say_("no checkpoint in " + options_.folder + ": the run starts from its beginning");
  }
}

Position Checkpointer::restore(Session& session, int64_t rows, data::Shuffle shuffle) {
  head_ = session.describe(rows, shuffle);
  if (!found_) return {};
  const CheckpointHead& was = found_->head;
  refuse_other(found_->path, "a batch of", std::to_string(was.batch), std::to_string(head_.batch));
  refuse_other(found_->path, "training rows:", std::to_string(was.rows),
               std::to_string(head_.rows));
  if (!was.precision.empty()) {
    refuse_other(found_->path, "--precision", was.precision, head_.precision);
  }
  if (!was.batch_norm.empty()) {
    refuse_other(found_->path, "--batch-norm", was.batch_norm, head_.batch_norm);
  }
  // Gradients that are merged with the update of their weight in one lane are not in several.
  if (was.program != head_.program) {
    refuse_other(found_->path, "--lanes", std::to_string(was.lanes), std::to_string(head_.lanes));
  }
  refuse_other(found_->path, "model, optimizer and loss of fingerprint", was.program,
               head_.program);
  refuse_other(found_->path, "the seed", std::to_string(was.seed), std::to_string(head_.seed));
  refuse_other(found_->path, "--shuffle", std::string(data::to_string(was.shuffle)),
               std::string(data::to_string(head_.shuffle)));
  session.restore(*found_->tensors, was.position.steps);
  if (callbacks_ != nullptr) callbacks_->restore(was.callbacks);
  found_->tensors.reset();
  std::string other =
      crossing(was.kernel_set, head_.kernel_set) +
      difference("the kernel set", was.kernel_set, head_.kernel_set) +
      difference("the block set", std::to_string(was.block_set), std::to_string(head_.block_set)) +
      difference("the number of parts", std::to_string(was.parts), std::to_string(head_.parts)) +
      difference("the number of lanes", std::to_string(was.lanes), std::to_string(head_.lanes));
  if (!other.empty()) other.resize(other.size() - 2);
  say_(fmt::format(
      "resumed from {}, step {}{}", found_->path, was.position.steps,

      other.empty() ? ": continues bit for bit"
                    : ": equal within rounding, not bit for bit what an uninterrupted run gives (" +
                          other + ")"));
  written_ = was.position;
  return was.position;
}

void Checkpointer::go_on_in(const Session& session) {
  head_ = session.describe(head_.rows, head_.shuffle);
}

void Checkpointer::pass(Session& session, const Position& position, bool epoch_ended) {
  const CheckpointSchedule& schedule = options_.schedule;
  if (epoch_ended) ++epochs_passed_;
  const bool due =
      (epoch_ended && schedule.epochs > 0 && epochs_passed_ % schedule.epochs == 0) ||
      (!epoch_ended && schedule.steps > 0 && position.steps % schedule.steps == 0) ||
      (schedule.seconds > 0 && SteadyClock().seconds() - last_seconds_ >= schedule.seconds);
  if (due || !session.sharded().empty()) try_write(session, position, due);
}

bool Checkpointer::finish(Session& session, const Position& position) {
  return try_write(session, position, true);
}

bool Checkpointer::try_write(Session& session, const Position& position, bool due) {
  try {
    write(session, position, due);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    say_(
        fmt::format("no checkpoint at step {}, the run goes on: {}", position.steps, error.what()));
    last_seconds_ = SteadyClock().seconds();
    return false;
  }
}

// Ranks that hold parts of the state all come here; the first one knows whether it is time.
void Checkpointer::write(Session& session, const Position& position, bool due) {
  const MemoryTag tag(MemoryPart::kFiles);
  const bool wanted = due && options_.writes && written_ != position;
  session.with_whole_state(wanted, [&](TensorSource& state) {
    CheckpointHead head = head_;
    head.position = position;
    if (callbacks_ != nullptr) head.callbacks = callbacks_->state();
    folder_.write(head, plan::print(session.plan(), session.programs().set), state);
  });
  if (!wanted) return;
  written_ = position;
  last_seconds_ = SteadyClock().seconds();
}

}  // namespace plimsoll::train
