#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/format.h"
#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostFindings = 400;

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

bool same_event(const Finding& a, const Finding& b) {
  return a.family == b.family && a.bytes == b.bytes && a.device == b.device && a.shape == b.shape &&
         a.note == b.note && (a.op == b.op || b.op.empty());
}

// Of the family that has most findings the one in the middle goes.
void make_room(std::vector<Finding>& findings) {
  std::array<size_t, kFamilyNames.size()> counts{};
  for (const Finding& finding : findings) ++counts[static_cast<size_t>(finding.family)];
  const auto most = std::max_element(counts.begin(), counts.end());
  const auto family = static_cast<Family>(most - counts.begin());
  size_t before = *most / 2;
  const auto in_middle = std::find_if(
      findings.begin(), findings.end(),
      [&](const Finding& finding) { return finding.family == family && before-- == 0; });
  const auto next = std::find_if(findings.erase(in_middle), findings.end(),
                                 [family](const Finding& it) { return it.family == family; });
  if (next != findings.end()) next->after_gap = true;
}

// The longest run of digits near `at` that no int64 count of bytes of a real request has.
std::string long_number_near(const Document& document, size_t at) {
  constexpr size_t kBefore = 200;
  constexpr size_t kAfter = 600;
  constexpr size_t kShortest = 16;
  const std::string& text = document.text();
  const size_t end = std::min(text.size(), at + kAfter);
  std::string best;
  for (size_t i = at > kBefore ? at - kBefore : 0; i < end;) {
    std::string digits;
    for (; i < end && (is_digit(text[i]) || (!digits.empty() && text[i] == kSoftBreak)); ++i) {
      if (text[i] != kSoftBreak) digits += text[i];
    }
    if (digits.size() >= kShortest && digits.size() > best.size()) best = digits;
    if (digits.empty()) ++i;
  }
  return best;
}

// "limit 9007199254740988kB" is how a kernel says that there is none.
void drop_unlimited(Amounts& amounts) {
  for (std::optional<int64_t> Amounts::*field :
       {&Amounts::in_use, &Amounts::held, &Amounts::free, &Amounts::limit, &Amounts::capacity,
        &Amounts::others, &Amounts::pool_free, &Amounts::largest_free, &Amounts::program}) {
    constexpr int64_t kNoLimit = int64_t{1} << 53;
    if (amounts.*field && *(amounts.*field) >= kNoLimit) (amounts.*field).reset();
  }
}

// Nothing is reckoned with such a size, and it is never called exact when it was cut.
void set_bogus_size(const Document& document, Finding& finding) {
  constexpr int64_t kLargestReal = int64_t{1} << 50;
  if (!finding.bytes || *finding.bytes < kLargestReal) return;
  const bool was_cut = *finding.bytes >= kLargestNumber;
  const std::string digits = long_number_near(document, finding.at);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool counted =
      !digits.empty() && error == std::errc() && value >= static_cast<uint64_t>(kLargestReal);
  if (counted && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    finding.bogus_bytes = static_cast<int64_t>(value);
  } else if (counted) {
    finding.negative_size = std::to_string(static_cast<int64_t>(value));
  } else if (!was_cut) {
    finding.bogus_bytes = finding.bytes;
  }
  finding.bogus_size = !digits.empty()               ? digits + " bytes"
                       : !finding.bytes_text.empty() ? finding.bytes_text
                                                     : fmt::format("{} bytes", *finding.bytes);
  finding.bytes_text = finding.bogus_size;
  finding.bytes.reset();
  finding.bytes_exact = false;
}

}  // namespace

std::string_view to_string(Family family) { return kFamilyNames[static_cast<size_t>(family)]; }

void add_finding(Facts& facts, Finding finding) {
  facts.read.emplace(finding.at,
                     Reading{finding.family, finding.resource, finding.bytes.has_value()});
  // Both words of one message, or its line and the one that repeats it.
  constexpr size_t kClose = 60;
  Finding* again = nullptr;
  int seen = 0;
  for (Finding& known : facts.findings) {
    if (!same_event(known, finding)) continue;
    const size_t distance = known.at > finding.at ? known.at - finding.at : finding.at - known.at;
    if (distance < kClose) return;
    again = &known;
    ++seen;
  }
  if (seen > 1) {
    again->at = std::max(again->at, finding.at);
    return;
  }
  if (facts.findings.size() >= kMostFindings) make_room(facts.findings);
  facts.findings.push_back(std::move(finding));
}

void set_size(Finding& finding, const Size& size) {
  finding.bytes = size.bytes;
  finding.bytes_exact = size.exact;
  finding.bytes_text = size.exact ? "" : size.text;
}

void set_exact_bytes(Finding& finding, std::optional<int64_t> bytes) {
  if (!bytes) return;
  finding.bytes = bytes;
  finding.bytes_exact = true;
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
  facts.device_series = counts.device_series;
  facts.further_progress = std::move(counts.further_progress);
  facts.kernel_tasks = std::move(counts.kernel_tasks);
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
  detect_servers(document, facts);
  detect_quotas(document, facts);
  detect_forms(document, facts);
  complete_forms(document, facts);
  detect_jobs(document, facts);
  detect_generic(document, facts);
  for (Finding& finding : facts.findings) {
    set_bogus_size(document, finding);
    drop_unlimited(finding.amounts);
  }
  // A message that somebody cites is no refusal of this program.
  for (Finding& finding : facts.findings) {
    const bool memory =
        finding.resource == Resource::kGpuMemory || finding.resource == Resource::kHostMemory;
    // Nor is what the program itself calls a warning and does without.
    const size_t warning = document.find_back("warning: failed to ", finding.at + 1, 200);
    const bool warned =
        warning != std::string::npos && warning >= document.record_start(finding.at);
    const size_t soft = document.find_back("warning: ", finding.at + 1, 60);
    const size_t record_end = document.record_end(finding.at);
    const bool replaced =
        soft != std::string::npos && soft >= document.record_start(finding.at) &&
        (document.find(" instead", finding.at, record_end) != std::string::npos ||
         document.find("falling back", finding.at, record_end) != std::string::npos);
    const bool advised = document.find_back("if you see ", finding.at, 60) != std::string::npos;
    if (memory && (warned || replaced || advised || document.is_quoted(finding.at)))
      finding.survivable = true;
  }
  if (facts.series.grows) {
    Finding finding;
    finding.family = Family::kMemorySeries;
    finding.resource = Resource::kHostMemory;
    for (size_t i = 0; i < document.line_count(); ++i) {
      if (document.number(i) == facts.series.last_line) finding.at = document.start(i);
    }
    add_finding(facts, std::move(finding));
  }
  detect_endings(document, counts.lines, facts);
  return facts;
}

}  // namespace plimsoll::explain
