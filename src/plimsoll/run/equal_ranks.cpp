#include "run/equal_ranks.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/shape.h"

namespace plimsoll::run {
namespace {

uint64_t hash_tensor(TensorSource& source, size_t index, uint64_t hash) {
  std::array<std::byte, 1 << 14> piece;
  const TensorInfo& info = source.tensors()[index];
  hash = hash_text(info.name, hash);
  const int64_t bytes = tensor_bytes(info.dtype, fixed_shape(info.shape), 1).count();
  for (int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    const auto count = static_cast<size_t>(std::min(std::ssize(piece), bytes - at));
    const std::span<std::byte> part = std::span(piece).first(count);
    source.read(index, at, part);
    hash = hash_text({reinterpret_cast<const char*>(part.data()), part.size()}, hash);
  }
  return hash;
}

}  // namespace

void expect_equal_runs(Ranks& ranks, const SharedRun& run) {
  const train::CheckpointHead& head = run.head;
  const auto expect = [&](const char* what, const std::string& own) {
    expect_equal_on(ranks, what, own);
  };
  expect("the model, optimizer and loss", head.program);
  expect("the model's layers", run.programs);
  expect("the kernel set", head.kernel_set);
  expect("the block set (smaller blocks, where less memory is left)",
         std::to_string(head.block_set));
  expect("the number of parts", std::to_string(head.parts));
  expect("the number of lanes", std::to_string(head.lanes));
  expect("the stage of sharding (--shard)", std::to_string(run.shard));
  expect("what is written (--checkpoint, --keep-best)", run.files);
  expect("the batch", std::to_string(head.batch));
  expect("the seed", std::to_string(head.seed));
  expect("the order of samples", std::string(data::to_string(head.shuffle)));
  expect("the number of samples", std::to_string(head.rows));
  expect("the number of samples to evaluate on", std::to_string(run.evaluated));
  expect("the number of epochs", std::to_string(run.epochs));
  expect("the number of steps", std::to_string(run.steps));
}

void expect_equal_state(Ranks& ranks, train::Session& session, TensorSource* from, int64_t steps) {
  expect_equal_on(ranks, "the step that is resumed", std::to_string(steps));
  const auto in_parts = [&](const TensorInfo& info) {
    const auto is_it = [&](const ops::ShardedState& part) { return part.name == info.name; };
    return std::ranges::any_of(session.sharded(), is_it);
  };
  const std::unique_ptr<TensorSource> held = session.state();
  uint64_t hash = 0;
  for (size_t i = 0; i < held->tensors().size(); ++i) {
    if (!in_parts(held->tensors()[i])) hash = hash_tensor(*held, i, hash);
  }
  for (size_t i = 0; from != nullptr && i < from->tensors().size(); ++i) {
    if (in_parts(from->tensors()[i])) hash = hash_tensor(*from, i, hash);
  }
  expect_equal_on(ranks, "weights and state of the optimizer", to_hex(hash));
}

}  // namespace plimsoll::run
