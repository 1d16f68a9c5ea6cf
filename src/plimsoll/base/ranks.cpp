#include "base/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/threads/denormals.h"

namespace plimsoll {

namespace {

// How long the helper rests between two looks: a look takes some microseconds of a processor on
// which this rank or another one computes.
constexpr std::chrono::microseconds kRest{200};

}  // namespace

// Time until the helper has left counts as waited, its additions too.
std::unique_lock<std::mutex> Ranks::enter() noexcept {
  std::unique_lock held(mutex_, std::try_to_lock);
  if (held.owns_lock()) return held;
  const SteadyClock clock;
  const double start = clock.seconds();
  held.lock();
  waited_seconds_ += clock.seconds() - start;
  return held;
}

void Ranks::swap(int peer, std::span<const std::byte> out, std::span<std::byte> in) noexcept {
  const auto held = enter();
  finish_all();
  begin_swap({peer, out, in});
  wait();
}

uint32_t Ranks::begin(Swaps& swaps) noexcept {
  const auto held = enter();
  finish_all();
  set_open(&swaps);
  begin_next();
  if (open_ != nullptr) changed_.notify_all();
  return ++begun_;
}

void Ranks::go_on() noexcept {
  if (!is_under_way()) return;
  const std::unique_lock held(mutex_, std::try_to_lock);
  if (held.owns_lock()) advance();  // who else is in here looks after it
}

void Ranks::finish(uint32_t number) noexcept {
  const auto held = enter();
  if (number == begun_) finish_all();
}

void Ranks::abandon() noexcept {
  const auto held = lock();
  set_open(nullptr);
  fail_all();
}

bool Ranks::start_helper() noexcept {
  try {
    helper_.start([this] { help(); });
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Ranks::stop_helper() noexcept {
  if (is_child_without_threads()) return;
  {
    const auto held = lock();
    stops_ = true;
  }
  changed_.notify_all();
  helper_.join();
}

void Ranks::help() noexcept {
  const FlushDenormals flush;
  auto held = lock();
  while (!stops_) {
    if (open_ == nullptr) {
      changed_.wait(held);
      continue;
    }
    advance();
    held.unlock();
    std::this_thread::sleep_for(kRest);
    held.lock();
  }
}

void Ranks::finish_all() noexcept {
  while (open_ != nullptr) {
    wait();
    begin_next();
  }
}

void Ranks::advance() noexcept {
  while (open_ != nullptr && is_swapped(false)) begin_next();
}

void Ranks::begin_next() noexcept {
  if (const std::optional<Swap> next = open_->next()) {
    begin_swap(*next);
  } else {
    set_open(nullptr);
  }
}

void Ranks::set_open(Swaps* swaps) noexcept {
  open_ = swaps;
  under_way_.store(swaps != nullptr, std::memory_order_release);
}

void Ranks::wait() noexcept {
  const SteadyClock clock;
  const double start = clock.seconds();
  is_swapped(true);
  waited_seconds_ += clock.seconds() - start;
}

bool any_rank(Ranks& ranks, bool flag) {
  for (int width = 1; width < ranks.count(); width *= 2) {
    const std::byte own{static_cast<unsigned char>(flag ? 1 : 0)};
    std::byte other{};
    ranks.swap(ranks.rank() ^ width, {&own, 1}, {&other, 1});
    flag = flag || other != std::byte{0};
  }
  return flag;
}

int64_t most_on(Ranks& ranks, int64_t own) {
  for (int width = 1; width < ranks.count(); width *= 2) {
    int64_t other = 0;
    ranks.swap(ranks.rank() ^ width, std::as_bytes(std::span(&own, 1)),
               std::as_writable_bytes(std::span(&other, 1)));
    ranks.check();
    own = std::max(own, other);
  }
  return own;
}

bool equal_on(Ranks& ranks, int64_t own) { return most_on(ranks, own) == -most_on(ranks, -own); }

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int count_alike(Ranks& ranks, uint64_t own) {
  std::vector<uint64_t> all = {own};
  for (int width = 1; width < ranks.count(); width *= 2) {
    std::vector<uint64_t> others(all.size());
    ranks.swap(ranks.rank() ^ width, std::as_bytes(std::span(all)),
               std::as_writable_bytes(std::span(others)));
    ranks.check();
    all.insert(all.end(), others.begin(), others.end());
  }
  return static_cast<int>(std::ranges::count(all, own));
}

// Half of the ranks are as far from that one as the other half: ranks that have the bytes send them
// across the largest distance first.
void share_from(Ranks& ranks, int from, std::span<std::byte> bytes) {
  for (int width = ranks.count() / 2; width > 0; width /= 2) {
    const int place = (ranks.rank() ^ from) % (2 * width);
    if (place == 0) ranks.swap(ranks.rank() ^ width, bytes, {});
    if (place == width) ranks.swap(ranks.rank() ^ width, {}, bytes);
  }
  ranks.check();
}

std::string text_of(Ranks& ranks, int rank, const std::string& own) {
  std::array<char, 4096> text{};
  std::copy_n(own.data(), std::min(own.size(), text.size() - 1), text.data());
  share_from(ranks, rank, std::as_writable_bytes(std::span(text)));
  text.back() = 0;
  return text.data();
}

void expect_equal_on(Ranks& ranks, const std::string& what, const std::string& own) {
  constexpr size_t kMost = 256;
  std::array<char, kMost> text{};
  std::copy_n(own.data(), std::min(own.size(), kMost - 1), text.data());
  for (int width = 1; width < ranks.count(); width *= 2) {
    std::array<char, kMost> other{};
    const int peer = ranks.rank() ^ width;
    ranks.swap(peer, std::as_bytes(std::span(text)), std::as_writable_bytes(std::span(other)));
    ranks.check();
    other.back() = 0;
    if (text == other) continue;
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: expected the same on all ranks, received {} on rank {} and {} on "
                            "rank {}. Start all with one command and the same files.",
                            what, text.data(), ranks.rank(), other.data(), peer));
  }
}

}  // namespace plimsoll
