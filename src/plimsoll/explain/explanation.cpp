#include "explain/explanation.h"

#include <array>
#include <cstddef>

namespace plimsoll::explain {
namespace {

template <size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, int index) {
  return names[static_cast<size_t>(index)];
}

}  // namespace

std::string_view to_string(Resource resource) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "", "gpu_memory", "host_memory", "shm", "file_descriptors", "disk", "message_size", "other"};
  return name_of(kNames, static_cast<int>(resource));
}

std::string_view to_string(Cause cause) {
  static constexpr std::array<std::string_view, 32> kNames = {"unknown",
                                                              "true_peak",
                                                              "fragmentation",
                                                              "free_exceeds_request",
                                                              "gpu_held_by_other_process",
                                                              "gpu_too_small",
                                                              "memory_limit_too_small",
                                                              "single_tensor_too_large",
                                                              "single_allocation_limit",
                                                              "weights_or_optimizer_state",
                                                              "vocab_softmax_or_one_hot",
                                                              "conv_workspace",
                                                              "dataset_copied_to_device",
                                                              "shuffle_buffer_or_cache",
                                                              "eval_larger_than_train",
                                                              "graph_growth_in_loop",
                                                              "leak_over_time",
                                                              "padding_or_dtype_blowup",
                                                              "preallocation_refused",
                                                              "driver_or_library_init",
                                                              "pinned_host_pool",
                                                              "host_ram_batch_or_dataset",
                                                              "host_ram_container_limit",
                                                              "windows_pagefile",
                                                              "shm_too_small",
                                                              "ambiguous_bus_error",
                                                              "fd_limit",
                                                              "disk_full_or_quota",
                                                              "disk_or_fd_ambiguous",
                                                              "message_size_limit",
                                                              "proto_2gb",
                                                              "not_memory"};
  return name_of(kNames, static_cast<int>(cause));
}

std::string_view to_string(When when) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "unknown",   "building",   "loading",    "first_step", "second_step", "training",
      "new_shape", "validation", "checkpoint", "second_fit", "slowly"};
  return name_of(kNames, static_cast<int>(when));
}

std::string_view to_string(Verdict verdict) {
  static constexpr std::array<std::string_view, 3> kNames = {"no_failure", "warning", "failure"};
  return name_of(kNames, static_cast<int>(verdict));
}

int exit_code(const Explanation& explanation) {
  if (explanation.verdict == Verdict::kNoFailure) return 0;
  if (explanation.verdict == Verdict::kWarning) return 18;
  if (explanation.cause_label == Cause::kNotMemory) return 16;
  switch (explanation.resource) {
    case Resource::kGpuMemory:
      return 10;
    case Resource::kHostMemory:
      return 11;
    case Resource::kShm:
      return 12;
    case Resource::kFileDescriptors:
      return 13;
    case Resource::kDisk:
      return 14;
    case Resource::kMessageSize:
      return 15;
    case Resource::kOther:
      return 16;
    case Resource::kNone:
      break;
  }
  return 17;
}

}  // namespace plimsoll::explain
