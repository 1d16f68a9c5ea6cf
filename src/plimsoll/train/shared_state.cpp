#include "train/shared_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "graph/ranks.h"

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

// What goes before each piece.
struct Status {
  int64_t failed = 0;  // the piece does not come, nor any more of what was asked for
  std::array<char, 248> why{};
};

Status failure(const std::string& why) {
  Status status{.failed = 1};
  std::copy_n(why.data(), std::min(why.size(), status.why.size() - 1), status.why.data());
  return status;
}

int64_t bytes_of(const graph::ValueType& type) {
  return tensor_bytes(type.dtype, type.shape, 1).count();
}

const ops::ShardedState* find(const std::vector<ops::ShardedState>& sharded,
                              std::string_view name) {
  const auto found = std::ranges::find(sharded, name, &ops::ShardedState::name);
  return found == sharded.end() ? nullptr : &*found;
}

// The place of that tensor among those that are held.
size_t place_of(TensorSource& held, const std::string& name) {
  const auto infos = held.tensors();
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  PLIMSOLL_CHECK(found != infos.end(), name + " is held in parts and not at all");
  return static_cast<size_t>(found - infos.begin());
}

// The first rank's side.
class GatheredState final : public TensorSource {
 public:
  GatheredState(const StateHolder& holder, TensorSource& held)
      : held_(held), sharded_(holder.sharded), ranks_(*holder.ranks) {
    for (const TensorInfo& info : held_.tensors()) {
      infos_.push_back(info);
      const ops::ShardedState* const state = find(sharded_, info.name);
      if (state != nullptr) infos_.back().shape = state->whole.shape.at(1);
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
      held_.read(index, byte_begin, destination);
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
      if (rank == 0) {
        held_.read(index, first - part.first, piece);
      } else {
        receive_part(*state, rank, first - part.first, piece);
      }
    }
  }

 private:
  void ask(int rank, const Request& request) {
    ranks_.swap(rank, std::as_bytes(std::span(&request, 1)), {});
  }

  void receive_part(const ops::ShardedState& state, int rank, int64_t begin,
                    std::span<std::byte> part) {
    ask(rank, {&state - sharded_.data(), begin, std::ssize(part)});
    while (!part.empty()) {
      Status status;
      ranks_.swap(rank, {}, std::as_writable_bytes(std::span(&status, 1)));
      ranks_.check();
      if (status.failed != 0) {
        status.why.back() = 0;
        throw Error(ErrorKind::kIo, fmt::format("rank {}: {}", rank, status.why.data()));
      }
      const auto count = static_cast<size_t>(std::min(kPieceBytes, std::ssize(part)));
      ranks_.swap(rank, {}, part.first(count));
      ranks_.check();
      part = part.subspan(count);
    }
  }

  TensorSource& held_;
  const std::vector<ops::ShardedState>& sharded_;
  Ranks& ranks_;
  std::vector<TensorInfo> infos_;
};

// Reads what is sent next; what went wrong with it goes to the first rank, whose file it is.
Status read_piece(TensorSource& held, size_t place, int64_t begin, std::span<std::byte> piece) {
  try {
    held.read(place, begin, piece);
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    return failure(error.message());
  }
}

// Throws where what was received is no request: the ranks are out of step.
void check(const Request& request, const StateHolder& holder) {
  bool sound = request.variable < std::ssize(holder.sharded);
  if (sound) {
    const int64_t held = held_part(holder.sharded[static_cast<size_t>(request.variable)],
                                   holder.ranks->rank(), holder.ranks->count())
                             .bytes;
    sound = 0 <= request.begin && request.begin <= held && 0 <= request.bytes &&
            request.bytes <= held - request.begin;
  }
  if (sound) return;
  throw Error(
      ErrorKind::kBackend,
      fmt::format("ranks: expected to be asked for part of the state, received {} bytes from "
                  "{} of variable {} of {}. Start all ranks with one command and the same "
                  "files.",
                  request.bytes, request.begin, request.variable, holder.sharded.size()));
}

// The others' side, until nothing more is asked.
void answer(const StateHolder& holder, TensorSource& held) {
  Ranks& ranks = *holder.ranks;
  std::array<std::byte, kPieceBytes> room{};
  while (true) {
    Request request;
    ranks.swap(0, {}, std::as_writable_bytes(std::span(&request, 1)));
    ranks.check();
    if (request.variable < 0) return;
    check(request, holder);
    const size_t place = place_of(held, holder.sharded[static_cast<size_t>(request.variable)].name);
    for (int64_t done = 0; done < request.bytes; done += kPieceBytes) {
      const int64_t count = std::min(kPieceBytes, request.bytes - done);
      const std::span<std::byte> piece = std::span(room).first(static_cast<size_t>(count));
      const Status status = read_piece(held, place, request.begin + done, piece);
      ranks.swap(0, std::as_bytes(std::span(&status, 1)), {});
      if (status.failed != 0) break;
      ranks.swap(0, piece, {});
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
    use(*holder.held());
    return;
  }
  Ranks& ranks = *holder.ranks;
  const bool first = ranks.rank() == 0;
  const bool done = any_rank(ranks, first && wanted);
  ranks.check();
  if (!done) return;
  const std::unique_ptr<TensorSource> held = holder.held();
  if (first) {
    GatheredState all(holder, *held);
    use(all);
  } else {
    answer(holder, *held);
  }
}

}  // namespace plimsoll::train
