#include "planning/tuning.h"

#include <algorithm>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "exec/tuning.h"
#include "planning/lowering.h"

namespace plimsoll::planning {
namespace {

using backend::KernelTimes;

// Large enough to leave a disk's own memory aside for the most part, and written in a moment.
constexpr Bytes kDiskSample = 64_MiB;

// Where a spill file would be; empty: nowhere.
std::string spill_folder(const PlanRequest& request) {
  if (request.spill == SpillUse::kNever) return "";
  try {
    return choose_spill_folder(request.spill_directory);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo || request.spill == SpillUse::kAlways) throw;
    return "";
  }
}

// What one kernel's operands may take.
Bytes find_room(const Lowered& lowered, const PlanRequest& request) {
  const ProcessOverhead overhead =
      process_overhead(lowered.built.set, *lowered.backend, held_beside(request));
  const Bytes limit = request.limit.value_or(guard_without_limit());
  const Bytes most = arena_within(overhead, limit);
  const auto bound = [&](bool spill) {
    return plan::lower_bound(lowered.built.set, lowered.backend->catalog(), nullptr, spill);
  };
  const Bytes arena = bound(false);
  return arena <= most ? arena : min(bound(request.spill != SpillUse::kNever), most);
}

void measure_disk(const PlanRequest& request, KernelTimes& times) {
  const std::string folder = spill_folder(request);
  if (folder.empty()) return;
  const Bytes most = request.spill_limit.value_or(Bytes(free_space(folder).count() / 2));
  if (most < kDiskSample) return;
  if (request.tell) request.tell("timing the disk of spill files");
  const backend::DiskSpeed speed = exec::measure_disk(folder, kDiskSample);
  std::erase_if(times.disks, [&](const backend::DiskSpeed& disk) { return disk.folder == folder; });
  times.disks.insert(times.disks.begin(), speed);
}

// `known`: what was measured before, which stays where it is not measured again.
KernelTimes measure(const Lowered& lowered, const PlanRequest& request, KernelTimes known) {
  // Room for this model's own.
  if (known.seconds.entries().size() > backend::KeyedNumbers::kMost / 2) {
    known.seconds = {};
    known.factors = {};
  }
  known.date = date_of_today();
  const Bytes room = find_room(lowered, request);
  if (room <= Bytes()) return known;  // the limit is refused in a moment
  exec::time_kernels(lowered.built.set, *lowered.backend, {room, request.tell}, known);
  known.copied = exec::measure_copying(room);
  measure_disk(request, known);
  return known;
}

// A damaged file is its owner's: nothing is measured over it.
bool lacks_rates(const TimesOptions& times, const std::string& fingerprint) {
  return times.known ? times.known->rated.empty() : !has_times(times.folder, fingerprint);
}

}  // namespace

TimesOptions find_times(const layers::Model& model, const layers::CompileOptions& compile,
                        const layers::BatchSizes& batches, const PlanRequest& request) {
  TimesOptions times = request.times;
  if (times.known || (times.folder.empty() && !times.tune)) return times;
  const std::string fingerprint =
      times_fingerprint_of(request.backend, request.parts, request.threads);
  times.known = load_times(times.folder, fingerprint);
  if (times.measure_rates && lacks_rates(times, fingerprint)) {
    times.note = (*times.measure_rates)();
    if (times.note.empty()) times.known = load_times(times.folder, fingerprint);
  }
  if (!times.tune) return times;
  times.tune = false;
  {
    const Lowered lowered = lower(model, compile, batches, request, 0);
    if (!lowered.backend->computes()) return times;
    const KernelTimes known = times.known ? *times.known : KernelTimes{};
    times.known = std::make_shared<const KernelTimes>(measure(lowered, request, known));
  }
  give_back_free_heap();
  if (has_calls(times)) save_times(times.folder, fingerprint, *times.known);
  return times;
}

std::unique_ptr<graph::KernelCatalog> timed_catalog(const backend::Backend& backend,
                                                    const PlanRequest& request) {
  if (!request.times.known) return nullptr;
  return backend::make_timed_catalog(backend.catalog(), request.times.known, spill_folder(request));
}

bool has_calls(const TimesOptions& times) {
  return times.known && !times.known->seconds.entries().empty();
}

std::string describe(const TimesOptions& times) {
  if (has_calls(times)) return "measured here on " + times.known->date;
  if (times.known && !times.known->rated.empty()) {
    return "rates measured here on " + times.known->rated;
  }
  return times.note.empty() ? "of the model" : "of the model: " + times.note;
}

}  // namespace plimsoll::planning
