#include "train/shared_state.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "graph/ranks.h"
#include "train/session_streams.h"

namespace plimsoll::train {
namespace {

// What goes in one message.
constexpr int64_t kPieceBytes = 1 << 15;

// Bytes of a variable as its holder has them.
struct Request {
  int64_t variable = -1;  // place among those in parts; −1: nothing more is asked
  int64_t begin = 0;
  int64_t bytes = 0;
};

int64_t bytes_of(const graph::ValueType& type) {
  return tensor_bytes(type.dtype, type.shape, 1).count();
}

const ops::ShardedState* find(const std::vector<ops::ShardedState>& sharded,
                              std::string_view name) {
  const auto found = std::ranges::find(sharded, name, &ops::ShardedState::name);
  return found == sharded.end() ? nullptr : &*found;
}

// The first rank's side.
class GatheredState final : public TensorSource {
 public:
  explicit GatheredState(const StateHolder& holder)
      : executor_(holder.executor), sharded_(holder.sharded), ranks_(*holder.ranks) {
    for (const graph::StateVariable& variable : graph::states_of(holder.set)) {
      const ops::ShardedState* const state = find(sharded_, variable.name);
      const graph::ValueType& type = state != nullptr ? state->whole : variable.type;
      infos_.push_back({variable.name, type.dtype, type.shape.at(1)});
    }
  }
  ~GatheredState() override {
    for (int rank = 1; rank < ranks_.count(); ++rank) ask(rank, {});
  }
  GatheredState(const GatheredState&) = delete;
  GatheredState& operator=(const GatheredState&) = delete;

  std::span<const TensorInfo> tensors() const override { return infos_; }

  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    const ops::ShardedState* const state = find(sharded_, infos_[index].name);
    if (state == nullptr) {
      executor_.read_state(infos_[index].name, byte_begin, destination);
      return;
    }
    const int64_t end = byte_begin + std::ssize(destination);
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      const HeldPart part = held_part(*state, rank, ranks_.count());
      const int64_t first = std::max(byte_begin, part.first);
      const int64_t last = std::min(end, part.first + part.bytes);
      if (first >= last) continue;
      const std::span<std::byte> piece = destination.subspan(
          static_cast<size_t>(first - byte_begin), static_cast<size_t>(last - first));
      read_part(*state, rank, first - part.first, piece);
    }
  }

 private:
  void ask(int rank, const Request& request) {
    ranks_.swap(rank, std::as_bytes(std::span(&request, 1)), {});
  }

  void read_part(const ops::ShardedState& state, int rank, int64_t begin,
                 std::span<std::byte> piece) {
    if (rank == 0) {
      executor_.read_state(state.name, begin, piece);
      return;
    }
    ask(rank, {&state - sharded_.data(), begin, std::ssize(piece)});
    while (!piece.empty()) {
      const auto count = static_cast<size_t>(std::min(kPieceBytes, std::ssize(piece)));
      ranks_.swap(rank, {}, piece.first(count));
      piece = piece.subspan(count);
    }
    ranks_.check();
  }

  exec::Executor& executor_;
  const std::vector<ops::ShardedState>& sharded_;
  Ranks& ranks_;
  std::vector<TensorInfo> infos_;
};

// The others' side, until nothing more is asked.
void answer(const StateHolder& holder) {
  Ranks& ranks = *holder.ranks;
  std::array<std::byte, kPieceBytes> piece{};
  while (true) {
    Request request;
    ranks.swap(0, {}, std::as_writable_bytes(std::span(&request, 1)));
    ranks.check();
    if (request.variable < 0) return;
    const std::string& name = holder.sharded[static_cast<size_t>(request.variable)].name;
    for (int64_t done = 0; done < request.bytes; done += kPieceBytes) {
      const int64_t count = std::min(kPieceBytes, request.bytes - done);
      const std::span<std::byte> out = std::span(piece).first(static_cast<size_t>(count));
      holder.executor.read_state(name, request.begin + done, out);
      ranks.swap(0, out, {});
    }
  }
}

}  // namespace

HeldPart held_part(const ops::ShardedState& state, int rank, int ranks) {
  const int64_t whole = bytes_of(state.whole);
  const int64_t each = bytes_of({state.whole.dtype, graph::part_shape(state.whole.shape, ranks)});
  const int64_t first = std::min(whole, rank * each);
  return {first, std::min(whole - first, each)};
}

void with_whole_state(const StateHolder& holder, bool wanted,
                      const std::function<void(TensorSource&)>& use) {
  if (holder.ranks == nullptr || holder.sharded.empty()) {
    if (!wanted) return;
    StateSource own(holder.executor, holder.set);
    use(own);
    return;
  }
  Ranks& ranks = *holder.ranks;
  const bool first = ranks.rank() == 0;
  const bool done = any_rank(ranks, first && wanted);
  ranks.check();
  if (!done) return;
  if (first) {
    GatheredState all(holder);
    use(all);
  } else {
    answer(holder);
  }
}

}  // namespace plimsoll::train
