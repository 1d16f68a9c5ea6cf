#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "ranks/mpi_functions.h"
#include "ranks/ranks.h"

namespace plimsoll::ranks {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a message
constexpr size_t kWhyRoom = 128;                  // abandon() allocates nothing

// What the library takes beyond what it had after the first exchanges, at all and for each rank
// that is exchanged with: measured 1.2 to 1.4 MiB on 2 and 4 ranks of Open MPI 4.1 by shared
// memory.
constexpr Bytes kTakenLater{3 << 20};
constexpr Bytes kTakenLaterForEach{256 << 10};

// A launcher's variables with the number of processes and with which one this is, and the shim for
// its library.
struct Launcher {
  const char* variable;
  const char* rank;
  const char* shim;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", PLIMSOLL_SHIM_OPENMPI},
    {"PMI_SIZE", "PMI_RANK", PLIMSOLL_SHIM_MPICH}};

const Launcher* find_launcher() {
  for (const Launcher& launcher : kLaunchers) {
    const char* count = std::getenv(launcher.variable);
    if (count != nullptr && std::atoll(count) > 1) return &launcher;
  }
  return nullptr;
}

// A file beside what this code was loaded from: the program, or a module of somebody else's.
std::string beside_this(const char* name) {
  Dl_info info{};
  void* found = nullptr;
  std::string path;
  if (dladdr1(reinterpret_cast<const void*>(&find_launcher), &info, &found, RTLD_DL_LINKMAP) != 0) {
    path = static_cast<const link_map*>(found)->l_name;
  }
  if (path.empty()) {
    std::array<char, 4096> program{};
    const ssize_t length = readlink("/proc/self/exe", program.data(), program.size() - 1);
    path.assign(program.data(), length > 0 ? static_cast<size_t>(length) : 0);
  }
  return path.substr(0, path.rfind('/') + 1) + name;
}

const MpiFunctions& load_shim(const Launcher& launcher) {
  const std::string path = beside_this(launcher.shim);
  // MPI's own plugins look for its symbols among those that are visible to all.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  using Offer = const MpiFunctions* (*)();
  const auto offer = library == nullptr
                         ? nullptr
                         : reinterpret_cast<Offer>(dlsym(library, "plimsoll_mpi_functions"));
  if (offer == nullptr) {
    const char* why = dlerror();
    throw Error(ErrorKind::kBackend,
                fmt::format("{} is set, so this is one of several ranks: expected the MPI library, "
                            "received: {}. Install the library of the launcher, or start one "
                            "process alone.",
                            launcher.variable, why == nullptr ? "none" : why));
  }
  return *offer();
}

// Waits a while between looks at what is not there yet: not for the first 100 us, then for an
// eighth of what was waited so far, 200 us at most.
class BackOff {
 public:
  void wait(double waited_seconds) {
    if (waited_seconds < kFreeSeconds) {
      // Where more ranks than processors wait on one machine, one of them has what is waited for.
      if (++looks_ > kBusyLooks) sched_yield();
      return;
    }
    const double seconds = std::min(kMostSeconds, waited_seconds * kShare);
    const timespec pause{0, static_cast<int64_t>(seconds * 1e9)};
    nanosleep(&pause, nullptr);
  }

 private:
  static constexpr int64_t kBusyLooks = 50;
  static constexpr double kFreeSeconds = 100e-6;
  static constexpr double kShare = 0.125;
  static constexpr double kMostSeconds = 200e-6;
  int64_t looks_ = 0;
};

// Calls `late` where it is not gone in time.
class Watch {
 public:
  // The rank is read here: the library may change the environment while it starts.
  explicit Watch(const JoinOptions& options) : rank_(launched_rank()) {
    if (options.late) thread_ = std::thread([this, &options] { wait(options); });
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void wait(const JoinOptions& options) {
    std::unique_lock lock(mutex_);
    // Launchers may look for hosts and networks for longer than a rank ever waits for another.
    constexpr double kLeastSeconds = 20;
    const double seconds = std::max(options.timeout_seconds, kLeastSeconds);
    const std::chrono::duration<double> time(seconds);
    if (changed_.wait_for(lock, time, [this] { return gone_; })) return;
    options.late(
        fmt::format("rank {}: MPI has not started within {} seconds, for which all ranks are "
                    "needed. See which one has not begun, or has stopped; where one takes long "
                    "to begin, name a longer --rank-timeout.",
                    rank_, seconds));
  }

  int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool gone_ = false;
  std::thread thread_;
};

// Swaps with every rank that sums are exchanged with.
class Trial final : public Swaps {
 public:
  Trial(int rank, int count) : rank_(rank), count_(count) {}
  void restart() { width_ = 1; }
  std::optional<Swap> next() noexcept override {
    while (width_ < count_ && (rank_ ^ width_) >= count_) width_ *= 2;
    if (width_ >= count_) return std::nullopt;
    const Swap swap{rank_ ^ width_, bytes_, room_};
    width_ *= 2;
    return swap;
  }

 private:
  int rank_;
  int count_;
  int width_ = 1;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{1} << 22);
  std::vector<std::byte> room_ = std::vector<std::byte>(bytes_.size());
};

class MpiRanks final : public JoinedRanks {
 public:
  MpiRanks(const MpiFunctions& mpi, const JoinOptions& options) : mpi_(mpi), options_(options) {
    const Bytes before = read_process_memory().now();
    int other_threads = 0;
    const int code = start(other_threads);
    if (code != 0) {
      throw Error(ErrorKind::kBackend,
                  fmt::format("MPI: expected to join the other ranks, received error {}.", code));
    }
    why_.reserve(kWhyRoom);
    warm_up(other_threads != 0 && start_helper());
    held_ = read_process_memory().now() - before + kTakenLater;
    for (int width = 1; width < count_; width *= 2) held_ += kTakenLaterForEach;
  }
  ~MpiRanks() override {
    stop_helper();
    if (is_child_without_threads()) return;
    // The library waits for all ranks when it ends: where one fails it is left, and its launcher
    // ends the others when this process ends.
    if (why_.empty() && std::uncaught_exceptions() == exceptions_) mpi_.finish();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const noexcept override { return rank_; }
  int count() const noexcept override { return count_; }
  std::string host() const override {
    const auto held = lock();
    return mpi_.host();
  }
  std::string library() const override {
    const auto held = lock();
    // "Open MPI v4.1.4, package: …", "MPICH Version:\t4.0.2\n…".
    std::string text = mpi_.version();
    text = text.substr(0, text.find_first_of(",\n"));
    constexpr std::string_view kVersion = " Version:\t";
    const size_t version = text.find(kVersion);
    if (version != std::string::npos) text.replace(version, kVersion.size(), " ");
    return text;
  }
  Bytes held() const override { return held_; }
  Sent sent() const noexcept override {
    const auto held = lock();
    return sent_;
  }

  void check() const override {
    const auto held = lock();
    if (why_.empty()) return;
    const char* const advice =
        late_ ? " Where one plans or writes for long, name a longer --rank-timeout." : "";
    throw Error(ErrorKind::kBackend, fmt::format("ranks: {}.{}", why_, advice));
  }

  void end_all(int code) override {
    const auto held = lock();
    mpi_.end_all(code);
  }

 private:
  int start(int& other_threads) {
    const Watch watch(options_);
    return mpi_.start(&rank_, &count_, &other_threads);
  }

  template <typename T>
  static std::span<T> piece(std::span<T> bytes, size_t at) {
    return at >= bytes.size() ? std::span<T>()
                              : bytes.subspan(at, std::min<size_t>(kMostBytes, bytes.size() - at));
  }

  void begin_swap(const Swap& swap) noexcept override {
    swap_ = swap;
    at_ = 0;
    begin_piece();
  }

  bool is_swapped(bool wait) noexcept override {
    double start = wait ? clock_.seconds() : 0;  // of the piece
    BackOff back_off;
    while (why_.empty()) {
      if (is_piece_swapped()) {
        at_ += kMostBytes;
        if (at_ >= std::max(swap_.out.size(), swap_.in.size())) return true;
        begin_piece();
        back_off = BackOff();
        if (wait) start = clock_.seconds();
        continue;
      }
      if (!wait) return !why_.empty();
      const double waited = clock_.seconds() - start;
      back_off.wait(waited);
      if (waited > options_.timeout_seconds) {
        late_ = true;
        why_ = fmt::format("rank {} has not answered for {} seconds", swap_.peer,
                           options_.timeout_seconds);
      }
    }
    return true;
  }

  // The receiver's piece is there before anything is sent for it, so that no library keeps what
  // nobody waits for.
  void begin_piece() noexcept {
    if (!why_.empty()) return;
    const std::span<std::byte> room = piece(swap_.in, at_);
    const std::span<const std::byte> bytes = piece(swap_.out, at_);
    requests_ = {};
    if (!room.empty()) {
      requests_[0] = mpi_.receive(room.data(), static_cast<int>(room.size()), swap_.peer);
    }
    if (!bytes.empty()) {
      requests_[1] = mpi_.send(bytes.data(), static_cast<int>(bytes.size()), swap_.peer);
      sent_.count(bytes.size());
    }
    const bool begun =
        (room.empty() || requests_[0] != nullptr) && (bytes.empty() || requests_[1] != nullptr);
    if (!begun) fail();
  }

  bool is_piece_swapped() noexcept {
    bool open = false;
    for (void*& request : requests_) {
      if (request == nullptr) continue;
      const int state = mpi_.poll(request);
      if (state != 0) request = nullptr;
      if (state != 0 && state != 1) fail();
      open |= state == 0;
    }
    return !open;
  }

  void fail() noexcept {
    if (why_.empty()) why_ = fmt::format("the exchange with rank {} failed", swap_.peer);
  }

  void fail_all() noexcept override {
    if (why_.empty()) why_ = "this rank has left an exchange";
  }

  // A message of some size to and from every rank that sums are exchanged with, twice: by
  // this thread, then by the helper as far as it comes, so that what the library takes for each is
  // there when memory is read.
  void warm_up(bool helped) {
    Trial trial(rank_, count_);
    while (const std::optional<Swap> next = trial.next()) swap(next->peer, next->out, next->in);
    trial.restart();
    const uint32_t number = begin(trial);
    const std::chrono::milliseconds rest(1);
    for (int looks = 0; helped && looks < 100 && is_under_way(); ++looks) {
      std::this_thread::sleep_for(rest);
    }
    finish(number);
  }

  const MpiFunctions& mpi_;
  JoinOptions options_;
  int rank_ = 0;
  int count_ = 1;
  Bytes held_;
  Sent sent_;
  Swap swap_;                        // on its way, or the last one that was
  size_t at_ = 0;                    // its piece
  std::array<void*, 2> requests_{};  // of that: what is received, what is sent
  int exceptions_ = std::uncaught_exceptions();
  std::string why_;    // what failed; empty: nothing did
  bool late_ = false;  // that another rank did not answer in time
  SteadyClock clock_;
};

}  // namespace

int launched_rank() {
  const Launcher* launcher = find_launcher();
  const char* rank = launcher == nullptr ? nullptr : std::getenv(launcher->rank);
  return rank == nullptr ? 0 : std::atoi(rank);
}

std::unique_ptr<JoinedRanks> join(const JoinOptions& options) {
  const Launcher* launcher = find_launcher();
  if (launcher == nullptr) return nullptr;
  auto joined = std::make_unique<MpiRanks>(load_shim(*launcher), options);
  const int64_t launched = std::atoll(std::getenv(launcher->variable));
  if (joined->count() != launched) {
    throw Error(ErrorKind::kBackend,
                fmt::format("{} says that {} ranks were started: expected to join them, received "
                            "{} from {}. Start them with the mpirun of that library.",
                            launcher->variable, launched, joined->count(), joined->library()));
  }
  if (!std::has_single_bit(static_cast<unsigned>(joined->count()))) {
    throw Error(ErrorKind::kConfig,
                fmt::format("ranks: expected a power of two, received {}. Start {} or {}.",
                            joined->count(), std::bit_floor(static_cast<unsigned>(joined->count())),
                            std::bit_ceil(static_cast<unsigned>(joined->count()))));
  }
  joined->check();
  return joined;
}

}  // namespace plimsoll::ranks
