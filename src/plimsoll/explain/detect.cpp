#include <algorithm>
#include <array>
#include <utility>

#include "explain/cursor.h"
#include "explain/facts.h"
#include "explain/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostSightings = 400;

constexpr std::array<std::string_view, 60> kFamilyNames = {
    "tf_zero_bytes",
    "grpc_message_size",
    "protobuf_2gb",
    "too_many_open_files",
    "disk_full",
    "tf_oom_line",
    "torch_cuda_2x",
    "torch_cuda_1x",
    "torch_hip",
    "torch_xpu",
    "torch_npu",
    "torch_mps",
    "torch_cuda_malloc_async",
    "cuda_malloc_async",
    "torch_cpu",
    "torch_snapshot",
    "jax_buffer_assignment",
    "xla_tpu_hbm",
    "numpy_memoryerror",
    "paddle",
    "other_gpu",
    "itex_alloc",
    "tf_autotune_limit",
    "win_pagefile",
    "shm_bus_error",
    "tf_disguised",
    "tf_pinned_host",
    "tf_bfc_dump",
    "jax_oom_line",
    "torch_thc",
    "torch_cublas",
    "cudnn_init",
    "torch_plain",
    "cuda_context",
    "tf_cufft",
    "nccl",
    "errno12_fork",
    "bad_alloc",
    "other_host",
    "oom_killer",
    "slurm_oom",
    "scheduler_limit",
    "k8s",
    "ray_oom",
    "colab",
    "plimsoll_limit",
    "kernel_resources",
    "process_limit",
    "memoryerror",
    "tf_resource_exhausted",
    "tf_driver_alloc",
    "tf_tensor_list",
    "killed",
    "xla_remat_warning",
    "tf_nonfatal_warning",
    "tf_cpu_warning",
    "memory_series",
    "device_fault",
    "program_error",
    "crash",
};

bool same_event(const Sighting& a, const Sighting& b) {
  return a.family == b.family && a.bytes == b.bytes && a.device == b.device && a.shape == b.shape &&
         a.note == b.note && (a.op == b.op || b.op.empty());
}

}  // namespace

std::string_view to_string(Family family) { return kFamilyNames[static_cast<size_t>(family)]; }

void add_sighting(Facts& facts, Sighting sighting) {
  // Both words of one message, or its line and the one that repeats it.
  constexpr size_t kClose = 60;
  Sighting* again = nullptr;
  int seen = 0;
  for (Sighting& known : facts.sightings) {
    if (!same_event(known, sighting)) continue;
    const size_t distance =
        known.at > sighting.at ? known.at - sighting.at : sighting.at - known.at;
    if (distance < kClose) return;
    again = &known;
    ++seen;
  }
  if (seen > 1) {
    again->at = std::max(again->at, sighting.at);
    return;
  }
  if (facts.sightings.size() < kMostSightings) facts.sightings.push_back(std::move(sighting));
}

void set_size(Sighting& sighting, const Size& size) {
  sighting.bytes = size.bytes;
  sighting.bytes_exact = size.exact;
  sighting.bytes_text = size.exact ? "" : size.text;
}

void set_exact_bytes(Sighting& sighting, std::optional<int64_t> bytes) {
  if (!bytes) return;
  sighting.bytes = bytes;
  sighting.bytes_exact = true;
}

Resource resource_of_device(std::string_view device, std::string_view allocator) {
  static constexpr std::string_view kDevices[] = {"gpu", "dml", "xpu", "tpu", "mps", "npu", "cuda"};
  constexpr size_t npos = std::string_view::npos;
  if (find_ignoring_case(allocator, "host_bfc") != npos) return Resource::kHostMemory;
  for (std::string_view name : kDevices) {
    if (find_ignoring_case(device, name) != npos) return Resource::kGpuMemory;
  }
  if (find_ignoring_case(device, "cpu") != npos) return Resource::kHostMemory;
  if (find_ignoring_case(allocator, "gpu_") != npos) return Resource::kGpuMemory;
  if (find_ignoring_case(allocator, "dmlallocato") != npos) return Resource::kGpuMemory;
  if (find_ignoring_case(allocator, "cpu") != npos) return Resource::kHostMemory;
  return Resource::kNone;
}

Facts detect(const Document& document, Counts counts) {
  Facts facts;
  facts.chunks = counts.chunks;
  facts.series = counts.series;
  facts.headway = std::move(counts.headway);
  detect_context(document, facts);
  detect_counter_evidence(document, facts);
  detect_limits(document, facts);
  detect_tensorflow_files(document, facts);
  detect_tensorflow(document, facts);
  detect_pool(document, facts);
  detect_drivers(document, facts);
  detect_torch(document, facts);
  detect_xla(document, facts);
  detect_host(document, facts);
  detect_kernel(document, facts);
  detect_other_frameworks(document, facts);
  detect_forms(document, facts);
  detect_generic(document, facts);
  // A message that somebody cites is no refusal of this program.
  for (Sighting& sighting : facts.sightings) {
    const bool memory =
        sighting.resource == Resource::kGpuMemory || sighting.resource == Resource::kHostMemory;
    // Nor is what the program itself calls a warning and does without.
    const size_t warning = document.find_back("warning: failed to ", sighting.at + 1, 200);
    const bool warned =
        warning != std::string::npos && warning >= document.record_start(sighting.at);
    const bool advised = document.find_back("if you see ", sighting.at, 60) != std::string::npos;
    if (memory && (warned || advised || document.is_quoted(sighting.at)))
      sighting.survivable = true;
  }
  if (facts.series.grows) {
    Sighting sighting;
    sighting.family = Family::kMemorySeries;
    sighting.resource = Resource::kHostMemory;
    for (size_t i = 0; i < document.line_count(); ++i) {
      if (document.number(i) == facts.series.last_line) sighting.at = document.start(i);
    }
    add_sighting(facts, std::move(sighting));
  }
  detect_endings(document, counts.lines, facts);
  return facts;
}

}  // namespace plimsoll::explain
