#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "backend/kernel/moments_join.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "backend/reference/ranks/company.h"
#include "base/error.h"
#include "base/format.h"
#include "graph/rank_message.h"

// Sums of ranks, added up in the tree in which lanes are (graph/rank_message.h: in which messages).
//
// Ranks that differ in one bit exchange, from the lowest bit on, so that each of the two then has
// the sum of twice as many. Of what goes in halves, one adds up the first half of what both have
// and the other one the second, and afterwards the way is gone back, so that all have all.

namespace plimsoll::backend::reference {
namespace {

constexpr size_t kMostLevels = 31;

// Calls use(zero of that type).
template <typename Use>
void for_summed(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kFloat32:
      return use(float{});
    case DType::kFloat64:
      return use(double{});
    case DType::kInt32:
      return use(int32_t{});
    default:
      return use(int64_t{});
  }
}

// Adds the bytes `part` of a message up, of which `received` is what the other rank has.
void add_bytes(const Company& company, int width, const graph::RankMessage& message, Span part,
               std::byte* sums, const std::byte* received) {
  for (const graph::SumInMessage& sum : message.sums) {
    const int64_t begin = std::max(part.begin, sum.begin);
    const int64_t end = std::min(part.end, sum.begin + sum.bytes());
    if (begin >= end) continue;
    for_summed(sum.dtype, [&]<typename T>(T) {
      add_received(company, width, reinterpret_cast<T*>(sums + begin),
                   reinterpret_cast<const T*>(received + begin - part.begin),
                   (end - begin) / int64_t{sizeof(T)});
    });
  }
}

template <typename T>
void merge(const Company& company, int width, const graph::SumInMessage& sum, T* moments,
           T* received) {
  const int rank = company.ranks.rank();
  const int64_t channels = sum.count / 2;
  const int64_t here = company.samples_of(run_begin(rank, width), width) * sum.rows;
  const int64_t there = company.samples_of(run_begin(rank ^ width, width), width) * sum.rows;
  if (there == 0) return;
  if (here == 0) {
    std::copy_n(received, sum.count, moments);
    return;
  }
  const bool upper = (rank & width) != 0;
  T* const to = upper ? received : moments;
  const T* const from = upper ? moments : received;
  join_moments<T>({from, from + channels}, static_cast<double>(upper ? here : there),
                  {to, to + channels}, static_cast<double>(upper ? there : here), channels);
  if (upper) std::copy_n(received, sum.count, moments);
}

// Adds up, and merges, a whole message.
void take_whole(const Company& company, int width, const graph::RankMessage& message,
                std::byte* sums, std::byte* received) {
  for (const graph::SumInMessage& sum : message.sums) {
    std::byte* const own = sums + sum.begin;
    std::byte* const others = received + sum.begin;
    if (sum.rows == 0) {
      add_bytes(company, width, message, {sum.begin, sum.begin + sum.bytes()}, sums, others);
    } else if (sum.dtype == DType::kFloat64) {
      merge(company, width, sum, reinterpret_cast<double*>(own), reinterpret_cast<double*>(others));
    } else {
      merge(company, width, sum, reinterpret_cast<float*>(own), reinterpret_cast<float*>(others));
    }
  }
}

// The halves of a part: of the lower rank, and of the other one.
std::array<Span, 2> halves_of(Span part) {
  const int64_t middle = part.begin + (part.end - part.begin) / 2;
  return {Span{part.begin, middle}, Span{middle, part.end}};
}

// The swaps in which a message's sums become those of all ranks. All that it names outlives it.
class SumSwaps final : public Swaps {
 public:
  void start(const Company& company, const graph::RankMessage& message, std::byte* sums,
             std::byte* received) {
    company_.emplace(company);
    message_ = &message;
    sums_ = sums;
    received_ = received;
    width_ = 1;
    under_way_ = false;
    begin_piece(0);
  }

  std::optional<Swap> next() noexcept override { return message_->whole ? whole() : half(); }

 private:
  int rank() const { return company_->ranks.rank(); }
  int count() const { return company_->ranks.count(); }

  std::optional<Swap> whole() {
    if (under_way_) {
      take_whole(*company_, width_, *message_, sums_, received_);
      width_ *= 2;
    }
    under_way_ = true;
    if (width_ == count()) return std::nullopt;
    const Span all{0, message_->bytes};
    return Swap{rank() ^ width_, bytes_of(sums_, all), room_of(received_, all)};
  }

  std::optional<Swap> half() {
    if (under_way_) take_half();
    if (!back_ && width_ == count()) {
      back_ = true;
      width_ /= 2;
    }
    if (width_ == 0 && !begin_piece(parts_[0].end)) return std::nullopt;
    under_way_ = true;
    const auto [own, other] = own_and_other();
    const int peer = rank() ^ width_;
    if (back_) return Swap{peer, bytes_of(sums_, own), room_of(sums_, other)};
    return Swap{peer, bytes_of(sums_, other), room_of(received_, {0, own.count()})};
  }

  void take_half() {
    if (back_) {
      width_ /= 2;
      --level_;
      return;
    }
    const Span own = own_and_other()[0];
    add_bytes(*company_, width_, *message_, own, sums_, received_);
    parts_[++level_] = {own.begin / message_->unit, own.end / message_->unit};
    width_ *= 2;
  }

  // The bytes of the halves at this width.
  std::array<Span, 2> own_and_other() const {
    const std::array<Span, 2> halves = halves_of(parts_[back_ ? level_ - 1 : level_]);
    const auto bytes_of_half = [&](bool upper) {
      const Span& units = halves[upper ? 1 : 0];
      return Span{units.begin * message_->unit, units.end * message_->unit};
    };
    const bool upper = (rank() & width_) != 0;
    return {bytes_of_half(upper), bytes_of_half(!upper)};
  }

  bool begin_piece(int64_t unit) {
    const int64_t all = message_->bytes / message_->unit;
    parts_[0] = {unit, std::min(all, unit + message_->piece)};
    level_ = 0;
    width_ = 1;
    back_ = false;
    return unit < all;
  }

  std::optional<Company> company_;
  const graph::RankMessage* message_ = nullptr;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
  int width_ = 1;
  bool under_way_ = false;  // a swap has been named, whose bytes come next
  // The piece that goes in halves, in units, and what is left of it at each level.
  std::array<Span, kMostLevels> parts_{};
  size_t level_ = 0;
  bool back_ = false;
};

void exchange(const KernelCall& call, const graph::RankMessage& message, std::byte* sums,
              std::byte* received) {
  SumSwaps swaps;
  swaps.start(Company(*call.step), message, sums, received);
  Ranks& ranks = *call.step->ranks;
  while (const std::optional<Swap> swap = swaps.next()) ranks.swap(swap->peer, swap->out, swap->in);
}

// The message of a node that sums its first operands.
graph::RankMessage message_of(const Problem& problem, const std::vector<int64_t>& rows) {
  constexpr std::array kSummed = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64};
  for (size_t i = 0; i < rows.size(); ++i) {
    const DType dtype = problem.inputs[i].dtype;
    if (std::ranges::find(kSummed, dtype) != kSummed.end()) continue;
    throw Error(ErrorKind::kModel,
                fmt::format("{}: expected a sum of float32, float64, int32 or int64 over ranks, "
                            "received {}. Train in one process.",
                            problem.node.name, to_string(dtype)));
  }
  return graph::rank_message(problem.inputs, rows);
}

graph::RankMessage message_of_one(const Problem& problem) {
  return message_of(problem, {problem.attributes.get_int("rows_per_sample")});
}

graph::RankMessage message_of_bucket(const Problem& problem) {
  return message_of(problem, problem.attributes.get_ints("rows_per_sample"));
}

void copy_operand(const Operand& from, const Operand& to, int64_t bytes) {
  const bool moved = to.data != nullptr && from.data != to.data;
  if (moved) std::memcpy(to.data, from.data, static_cast<size_t>(bytes));
}

void copy_operands(const KernelCall& call, const graph::RankMessage& message) {
  for (size_t i = 0; i < message.sums.size(); ++i) {
    copy_operand(call.inputs[i], call.outputs[i], message.sums[i].bytes());
  }
}

void pack(const KernelCall& call, const graph::RankMessage& message, std::byte* sums) {
  for (size_t i = 0; i < message.sums.size(); ++i) {
    const graph::SumInMessage& sum = message.sums[i];
    std::memcpy(sums + sum.begin, call.inputs[i].data, static_cast<size_t>(sum.bytes()));
  }
}

void unpack(const KernelCall& call, const graph::RankMessage& message, const std::byte* sums) {
  for (size_t i = 0; i < message.sums.size(); ++i) {
    const graph::SumInMessage& sum = message.sums[i];
    if (call.outputs[i].data == nullptr) continue;
    std::memcpy(call.outputs[i].data, sums + sum.begin, static_cast<size_t>(sum.bytes()));
  }
}

std::unique_ptr<Kernel> make_rank_sum(const Problem& problem) {
  return kernel_of([message = message_of_one(problem)](const KernelCall& call) {
    copy_operands(call, message);
    finish_exchange(call);
    if (has_company(call)) exchange(call, message, call.outputs[0].data, call.scratch);
  });
}

std::unique_ptr<Kernel> make_rank_sums(const Problem& problem) {
  return kernel_of([message = message_of_bucket(problem)](const KernelCall& call) {
    finish_exchange(call);
    if (!has_company(call)) return copy_operands(call, message);
    pack(call, message, call.scratch);
    exchange(call, message, call.scratch, call.scratch + message.bytes);
    unpack(call, message, call.scratch);
  });
}

// Begins a message's swaps, which go on while others compute (base/ranks.h).
class BeginSum final : public Kernel {
 public:
  explicit BeginSum(graph::RankMessage message) : message_(std::move(message)) {}

  void run(const KernelCall& call) const noexcept override {
    copy_operands(call, message_);
    const size_t sums = message_.sums.size();
    std::byte* const room = call.outputs[sums].data;
    uint32_t number = 0;
    if (has_company(call) && sums > 1) {
      pack(call, message_, room);
      swaps_.start(Company(*call.step), message_, room, room + message_.bytes);
    } else if (has_company(call)) {
      swaps_.start(Company(*call.step), message_, call.outputs[0].data, room);
    }
    if (has_company(call)) {
      number = call.step->ranks->begin(swaps_);
    } else {
      std::memset(room, 0, static_cast<size_t>(message_.room_bytes()));
    }
    std::memcpy(call.outputs[sums + 1].data, &number, sizeof(number));
  }

 private:
  graph::RankMessage message_;
  mutable SumSwaps swaps_;
};

std::unique_ptr<Kernel> make_rank_sum_begin(const Problem& problem) {
  return std::make_unique<BeginSum>(message_of_bucket(problem));
}

std::unique_ptr<Kernel> make_rank_sum_end(const Problem& problem) {
  return kernel_of([message = message_of_bucket(problem)](const KernelCall& call) {
    const size_t sums = message.sums.size();
    uint32_t number = 0;
    std::memcpy(&number, call.inputs[sums + 1].data, sizeof(number));
    if (has_company(call)) call.step->ranks->finish(number);
    if (has_company(call) && sums > 1) {
      unpack(call, message, call.inputs[sums].data);
    } else {
      copy_operands(call, message);
    }
  });
}

Bytes sum_scratch(const Problem& problem) { return Bytes(message_of_one(problem).room_bytes()); }

Bytes bucket_scratch(const Problem& problem) {
  return Bytes(message_of_bucket(problem).room_bytes());
}

// Samples of ranks that differ in one bit, from the lowest bit on, put one after the other.
void gather_ranks(const Company& company, std::byte* all, int64_t sample_bytes) {
  const int rank = company.ranks.rank();
  const auto place_of = [&](int first, int width) {
    const int64_t begin = company.samples_of(0, first);
    return std::span(all + begin * sample_bytes,
                     static_cast<size_t>(company.samples_of(first, width) * sample_bytes));
  };
  for (int width = 1; width < company.ranks.count(); width *= 2) {
    const int peer = rank ^ width;
    company.ranks.swap(peer, place_of(run_begin(rank, width), width),
                       place_of(run_begin(peer, width), width));
  }
}

std::unique_ptr<Kernel> make_rank_gather(const Problem& problem) {
  const int64_t samples = problem.attributes.get_int("samples");
  const graph::ValueType& x = problem.inputs[0];
  const int64_t sample_bytes = (element_bytes(x.dtype) * x.shape.elements_per_sample()).count();
  return kernel_of([=, batch = problem.batch](const KernelCall& call) {
    finish_exchange(call);
    std::byte* const all = call.outputs[0].data;
    const bool shared = has_company(call);
    const int64_t first = shared ? call.step->first_sample : 0;
    const int64_t own = std::min(batch, samples - first);
    std::memcpy(all + first * sample_bytes, call.inputs[0].data,
                static_cast<size_t>(own * sample_bytes));
    // Alone, what nobody sent is 0.
    if (!shared) {
      std::memset(all + own * sample_bytes, 0, static_cast<size_t>((samples - own) * sample_bytes));
      return;
    }
    gather_ranks(Company(*call.step), all, sample_bytes);
  });
}

constexpr KernelEntry kEntries[] = {
    {"rank_gather", make_rank_gather, nullptr, true, true},
    {"rank_sum", make_rank_sum, sum_scratch},
    {"rank_sum_begin", make_rank_sum_begin},
    {"rank_sum_end", make_rank_sum_end},
    {"rank_sums", make_rank_sums, bucket_scratch},
};

}  // namespace

std::span<const KernelEntry> rank_sum_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
