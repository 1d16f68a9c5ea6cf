#include "planning/rates.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "exec/tuning.h"
#include "planning/lowering.h"
#include "planning/memory_model.h"
#include "planning/probes.h"

namespace plimsoll::planning {
namespace {

using backend::KernelTimes;

// The kernels of one network in one precision have so long.
constexpr double kSeconds = 0.5;
// What the largest call's operands take, and more for copying.
constexpr Bytes kRoom = 48_MiB;
constexpr Bytes kDiskSample = 32_MiB;

// Kernels of a probe, and by how many threads; false: there is no room.
bool rate(const layers::Model& model, const PlanRequest& request, layers::Precision precision,
          exec::RateSums& sums, int& threads) {
  constexpr int64_t kBatch = 16;
  layers::BatchSizes batches;
  batches.train = kBatch;
  const Lowered lowered = lower(model, compile_probe(precision), batches, request, 0);
  if (!lowered.backend->computes()) return false;
  const ProcessOverhead overhead =
      process_overhead(lowered.built.set, *lowered.backend, held_beside(request));
  if (arena_within(overhead, request.limit.value_or(guard_without_limit())) < kRoom) return false;
  threads = lowered.backend->catalog().thread_count();
  exec::rate_kernels(lowered.built.set, *lowered.backend, kRoom, kSeconds, sums);
  return true;
}

void rate_disk(const std::string& folder, KernelTimes& times) {
  if (folder.empty() || free_space(folder) < kDiskSample * 4) return;
  backend::DiskSpeed speed = exec::measure_disk(folder, kDiskSample);
  speed.read = backend::rounded_rate(speed.read);
  speed.write = backend::rounded_rate(speed.write);
  std::erase_if(times.disks, [&](const backend::DiskSpeed& disk) { return disk.folder == folder; });
  times.disks.insert(times.disks.begin(), std::move(speed));
}

}  // namespace

bool measure_rates(const RatesRequest& request) {
  PlanRequest plan;
  plan.backend = request.backend;
  plan.parts = request.parts;
  plan.threads = request.threads;
  plan.limit = request.limit;
  const std::string fingerprint =
      times_fingerprint_of(request.backend, request.parts, request.threads);
  const auto known = load_times(request.times.folder, fingerprint);
  KernelTimes times = known ? *known : KernelTimes{};
  exec::RateSums sums;
  int threads = 1;
  for (const auto precision : {layers::Precision::kFloat32, layers::Precision::kBFloat16}) {
    if (!rate(image_probe(), plan, precision, sums, threads)) return false;
    if (!rate(sequence_probe(), plan, precision, sums, threads)) return false;
  }
  times.rates = {};
  exec::set_rates(sums, times);
  times.rated = date_of_today();
  if (times.date.empty()) times.date = times.rated;
  times.streamed = backend::rounded_rate(exec::measure_streaming(kRoom, threads));
  if (times.copied == 0) times.copied = backend::rounded_rate(exec::measure_copying(kRoom));
  std::filesystem::create_directories(request.times.folder);
  const auto keep = [&] {
    write_text_file(times_path(request.times.folder, fingerprint), print_times(times, fingerprint));
  };
  keep();
  // A disk may be so slow that whoever waits gives up: what is measured so far stays.
  try {
    rate_disk(request.spill_folder, times);
    keep();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
  }
  return true;
}

}  // namespace plimsoll::planning
