#include "bench/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "base/accounted.h"
#include "base/cpu.h"
#include "base/process_memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll::bench {
namespace {

using Time = std::chrono::steady_clock;

constexpr int kChains = 12;  // enough to fill two units of a latency of 4 to 6
constexpr int64_t kRounds = 1 << 19;
constexpr int kTries = 30;

// Runs kChains × `rounds` multiply-adds of whole registers; returns something that depends on them.
// One function per instruction set, as a vector type must be known where it is compiled.
#define FMA_LOOP(name, bytes)                                                           \
  float name(int64_t rounds) {                                                          \
    using Vector [[gnu::vector_size(bytes)]] = float;                                   \
    Vector sums[kChains] = {};                                                          \
    for (int k = 0; k < kChains; ++k) sums[k] += float(k);                              \
    Vector factor = {}, term = {};                                                      \
    factor += 0.999F, term += 0.001F;                                                   \
    for (int64_t i = 0; i < rounds; ++i) {                                              \
      _Pragma("GCC unroll 12") for (Vector & sum : sums) { sum = sum * factor + term; } \
    }                                                                                   \
    Vector total = {};                                                                  \
    for (const Vector& sum : sums) total += sum;                                        \
    return total[0];                                                                    \
  }

FMA_LOOP(fma_loop_base, 16)
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] FMA_LOOP(fma_loop_avx2, 32)
    [[gnu::target("avx512f")]] FMA_LOOP(fma_loop_avx512, 64)

    // Pairs of bfloat16, multiplied and added to float32.
    [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] float bf16_loop(int64_t rounds) {
  __m512 sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = _mm512_set1_ps(static_cast<float>(k));
  const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, pair, pair);
  }
  __m512 total = {};
  for (const __m512& sum : sums) total += sum;
  return total[0];
}

// The same in tiles: of 16 rows, 16 columns and 32 numbers, four sums.
[[gnu::target("avx512f,amx-tile,amx-bf16")]] float tile_loop(int64_t rounds) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } config;
  alignas(64) float sums[16 * 16] = {};
  __asm__ volatile("" ::"r"(&config), "r"(sums) : "memory");
  _tile_loadconfig(&config);
  _tile_loadd(0, sums, 64);
  _tile_loadd(1, sums, 64);
  _tile_loadd(2, sums, 64);
  _tile_loadd(3, sums, 64);
  _tile_loadd(4, sums, 64);
  _tile_loadd(5, sums, 64);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[0];
}
#endif
#undef FMA_LOOP

// A loop and the operations that a round of one thread of it makes.
struct Loop {
  float (*run)(int64_t rounds) = nullptr;
  double flops = 0;
};

Loop float_loop(const std::string& isa) {
  constexpr double kFlops = 2.0 * kChains;
#if defined(__x86_64__)
  if (isa.starts_with("avx512")) return {fma_loop_avx512, kFlops * 16};
  if (isa == "avx2") return {fma_loop_avx2, kFlops * 8};
#endif
  return {fma_loop_base, kFlops * 4};
}

// None where the processor has no such instruction, or this program knows none.
Loop bf16_loop_of(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx512_amx") return {tile_loop, 4 * 2.0 * 16 * 16 * 32};
  if (isa == "avx512_bf16") return {bf16_loop, 2.0 * kChains * 32};
#endif
  return {};
}

// Where all threads meet before and after each go; when the last one came.
class Meeting {
 public:
  explicit Meeting(int threads) : barrier_(threads, Arrival{&last_}) {}
  Time::time_point wait() {
    barrier_.arrive_and_wait();
    return last_;
  }
  void leave() { barrier_.arrive_and_drop(); }

 private:
  struct Arrival {
    Time::time_point* last;
    void operator()() noexcept { *last = Time::now(); }
  };
  Time::time_point last_;
  std::barrier<Arrival> barrier_;
};

// The least seconds of several goes of work(thread) on all threads, which live through all of them:
// a thread that has just begun may share a processor with another.
template <typename Work>
double least_seconds(int threads, const Work& work) {
  double least = 0;
  Meeting meeting(threads);
  const auto go = [&](int thread) {
    for (int i = 0; i < kTries; ++i) {
      const Time::time_point begin = meeting.wait();
      work(thread);
      const double seconds = std::chrono::duration<double>(meeting.wait() - begin).count();
      if (thread == 0 && (i == 0 || seconds < least)) least = seconds;
    }
  };
  std::vector<std::jthread> team;
  int begun = 1;
  try {
    for (; begun < threads; ++begun) team.emplace_back([&go, begun] { go(begun); });
  } catch (...) {
    for (; begun <= threads; ++begun) meeting.leave();  // this thread too
    throw;
  }
  go(0);
  return least;
}

double flops_per_second(const Loop& loop, int threads) {
  if (loop.run == nullptr) return 0;
  volatile float kept = 0;
  const double seconds = least_seconds(threads, [&](int thread) {
    const float result = loop.run(kRounds);
    if (thread == 0) kept = result;
  });
  return loop.flops * static_cast<double>(kRounds) * threads / seconds;
}

// Memory of the process for as long as the object lives.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // Empty where there was no memory.
  std::span<float> numbers() const {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<float*>(data_), bytes_ / sizeof(float)};
  }

 private:
  size_t bytes_;
  void* data_;
};

// Reading two thirds of the numbers and writing the last: bytes moved in a second.
double triad(std::span<float> numbers, int threads) {
  const size_t third = numbers.size() / 3;
  float* out = numbers.data();
  const float* a = out + third;
  const float* b = a + third;
  const double seconds = least_seconds(threads, [&](int thread) {
    const size_t begin = third * static_cast<size_t>(thread) / static_cast<size_t>(threads);
    const size_t end = third * static_cast<size_t>(thread + 1) / static_cast<size_t>(threads);
    for (size_t i = begin; i < end; ++i) out[i] = a[i] + 0.5F * b[i];
  });
  return static_cast<double>(3 * third * sizeof(float)) / seconds;
}

// Reading alone.
double sums(std::span<float> numbers, int threads) {
  volatile float kept = 0;
  const double seconds = least_seconds(threads, [&](int thread) {
    const auto parts = static_cast<size_t>(threads);
    const size_t begin = numbers.size() * static_cast<size_t>(thread) / parts / 64 * 64;
    const size_t end = numbers.size() * static_cast<size_t>(thread + 1) / parts / 64 * 64;
    float total[64] = {};
    for (size_t i = begin; i < end; i += 64) {
      for (size_t k = 0; k < 64; ++k) total[k] += numbers[i + k];
    }
    if (thread == 0) kept = total[0] + total[63];
  });
  return static_cast<double>(numbers.size_bytes()) / seconds;
}

double bytes_per_second(Bytes last_cache, int threads, std::optional<Bytes> room) {
  constexpr int64_t kLeast = 64 << 20;
  constexpr int64_t kMost = 384 << 20;
  // These have a part of a larger cache, which many processors share.
  const int64_t cache = std::min(last_cache.count(), kMost / 2);
  int64_t bytes = std::clamp(4 * cache, kLeast, kMost);
  if (room && room->count() < bytes) bytes = room->count();
  if (bytes < 2 * cache || bytes < kLeast / 2) return 0;
  const MemoryTag tag(MemoryPart::kArena);  // the run's is given back, and `room` knows the limit
  const Pages pages(static_cast<size_t>(bytes));
  if (pages.numbers().empty()) return 0;
  std::ranges::fill(pages.numbers(), 1.0F);
  return std::max(triad(pages.numbers(), threads), sums(pages.numbers(), threads));
}

}  // namespace

report::MachineSpeed measure_machine(int threads, std::optional<Bytes> room) {
  const CpuInfo cpu = read_cpu_info();
  report::MachineSpeed speed;
  speed.isa = cpu.isa;
  speed.threads = threads > 0 ? threads : cpu.default_threads;
  speed.flops_per_second = flops_per_second(float_loop(cpu.isa), speed.threads);
  speed.bf16_flops_per_second = flops_per_second(bf16_loop_of(cpu.isa), speed.threads);
  const Bytes last_cache = std::max(cpu.l3_bytes, cpu.l2_bytes);
  speed.bytes_per_second = bytes_per_second(last_cache, speed.threads, room);
  return speed;
}

Bytes room_within(std::optional<Bytes> limit) {
  const Bytes most = limit.value_or(Bytes(memory_available_to_process().count() / 5 * 4));
  const Bytes used = read_process_memory().now();
  return most > used ? most - used : Bytes(0);
}

}  // namespace plimsoll::bench
