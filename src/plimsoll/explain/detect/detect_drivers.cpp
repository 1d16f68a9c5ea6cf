// Lines of CUDA's driver and libraries as TensorFlow, PyTorch and NCCL pass them on.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding device_finding(Family family, std::string_view framework, size_t at) {
  Finding finding;
  finding.family = family;
  finding.framework = framework;
  finding.resource = Resource::kGpuMemory;
  finding.at = at;
  return finding;
}

void count_refusal(DriverRefusals& driver, int64_t bytes, size_t at) {
  const bool begins = driver.rounds == 0 || bytes > driver.last + driver.last / 100;
  if (begins) ++driver.rounds;
  if (driver.rounds > 1) {
    driver.later = std::max(driver.later, bytes);
    return;
  }
  if (begins) {
    driver.first = bytes;
    driver.first_at = at;
  }
  driver.last = bytes;
  driver.last_at = at;
  ++driver.steps;
}

// failed to allocate 7.81G (8388608000 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY
// Failed to allocate device memory of 61.91GiB (66479423488 bytes): RESOURCE_EXHAUSTED: :
// CUDA_ERROR_OUT_OF_MEMORY
void detect_pool_growth(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "failed to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const bool newer = cursor.literal("device memory of ");
    const std::optional<Size> shown = cursor.size();
    if (!shown) continue;
    cursor.skip_blanks();
    if (!cursor.literal("(")) continue;
    const std::optional<Size> exact = cursor.size();
    if (!exact || !cursor.literal(")")) continue;
    if (!cursor.seek(newer ? "out_of_memory" : "from device", newer ? 60 : 20)) continue;
    count_refusal(facts.driver, exact->bytes, at);
    Finding finding = device_finding(Family::kTfDriverAlloc, newer ? "jax" : "tensorflow", at);
    finding.survivable = true;
    set_exact_bytes(finding, exact->bytes);
    finding.bytes_text = shown->text;
    add_finding(facts, std::move(finding));
  }
}

void detect_pinned(const Document& document, Facts& facts) {
  constexpr std::string_view kDriver = "failed to alloc ";
  constexpr std::string_view kHost = "could not allocate pinned host memory of size: ";
  constexpr std::string_view kBytes = " bytes on host";
  for (std::string_view phrase : {kDriver, kHost}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      Cursor cursor(document, document.match(phrase, at));
      const std::optional<int64_t> bytes = cursor.integer();
      if (!bytes || (phrase == kDriver && !cursor.literal(kBytes))) continue;
      Finding finding = device_finding(Family::kTfPinnedHost, "tensorflow", at);
      finding.resource = Resource::kHostMemory;
      set_exact_bytes(finding, bytes);
      add_finding(facts, std::move(finding));
    }
  }
}

// Allocation of 1006632960 exceeds 10% of [free ]system memory. Announces; refuses nothing.
void detect_cpu_warning(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "allocation of ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<int64_t> bytes = cursor.integer();
    if (!bytes || !cursor.literal(" exceeds ")) continue;
    Finding finding = device_finding(Family::kTfCpuWarning, "tensorflow", at);
    finding.survivable = true;
    finding.resource = Resource::kHostMemory;
    set_exact_bytes(finding, bytes);
    add_finding(facts, std::move(finding));
  }
}

struct Phrase {
  std::string_view text;
  Family family;
  std::string_view framework;
  std::string_view note;
};

constexpr Phrase kLibraryPhrases[] = {
    {"could not create cudnn handle", Family::kCudnnInit, "tensorflow", "cudnn"},
    {"failed to get convolution algorithm", Family::kCudnnInit, "tensorflow", "algorithm"},
    {"cudnn error: cudnn_status_alloc_failed", Family::kCudnnInit, "pytorch", "cudnn"},
    {"cudnn error: cudnn_status_not_initialized", Family::kCudnnInit, "pytorch", "cudnn"},
    {"cudnn_status_alloc_failed", Family::kCudnnInit, "", "cudnn"},
    {"failed to create cublas handle", Family::kCudnnInit, "tensorflow", "cublas"},
    {"cuda error: cublas_status_alloc_failed", Family::kTorchCublas, "pytorch", "cublas"},
    {"cuda error: cublas_status_not_initialized", Family::kTorchCublas, "pytorch", "cublas"},
    {"cusolver_status_alloc_failed", Family::kTorchCublas, "pytorch", "cusolver"},
    {"cusolver_status_internal_error, when calling `cusolverdncreate", Family::kTorchCublas,
     "pytorch", "cusolver"},
};

// A handle that could not be made. CUDNN_STATUS_INTERNAL_ERROR is memory or versions.
void detect_libraries(const Document& document, Facts& facts) {
  for (const Phrase& phrase : kLibraryPhrases) {
    const size_t at = document.find(phrase.text);
    if (at == npos) continue;
    Finding finding = device_finding(phrase.family, phrase.framework, at);
    finding.note = phrase.note;
    add_finding(facts, std::move(finding));
  }
}

void detect_context_creation(const Document& document, Facts& facts) {
  constexpr std::string_view kImplicit = "cuda runtime implicit initialization on ";
  if (const size_t at = document.find(kImplicit); at != npos) {
    Cursor cursor(document, document.match(kImplicit, at));
    Finding finding = device_finding(Family::kCudaContext, "tensorflow", at);
    finding.device = cursor.until(" ");
    add_finding(facts, std::move(finding));
  }
  // Failed to create stream executor for device CUDA:0: : CUDA_ERROR_OUT_OF_MEMORY: out of memory
  for (std::string_view phrase :
       {"failed to create stream executor for device ", "failed call to cuinit: "}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    const size_t end = document.record_end(at);
    if (document.find("cuda_error_out_of_memory", at, end) == npos) continue;
    const bool executor = phrase.starts_with("failed to create");
    Finding finding = device_finding(Family::kCudaContext, executor ? "jax" : "tensorflow", at);
    Cursor cursor(document, document.match(phrase, at));
    if (executor) finding.device = cursor.until(" \n", 20);
    while (finding.device.ends_with(':')) finding.device.pop_back();
    add_finding(facts, std::move(finding));
  }
  constexpr std::string_view kRetain = "cudeviceprimaryctxretain: cuda_error_out_of_memory";
  if (const size_t at = document.find(kRetain); at != npos) {
    Finding finding = device_finding(Family::kCudaContext, "tensorflow", at);
    constexpr std::string_view kTotal = "total memory reported: ";
    const size_t end = document.record_end(at);
    if (const size_t total = document.find(kTotal, at, end); total != npos) {
      Cursor cursor(document, document.match(kTotal, total));
      // The card, not the request; now and then a number that is none.
      const std::optional<int64_t> card = cursor.integer();
      if (card && *card < (int64_t{1} << 50)) finding.amounts.capacity = card;
    }
    add_finding(facts, std::move(finding));
  }
}

void detect_cufft(const Document& document, Facts& facts) {
  const size_t at = document.find("failed to allocate work area");
  if (at == npos) return;
  Finding finding = device_finding(Family::kTfCufft, "tensorflow", at);
  constexpr std::string_view kDistance = "input_distance: ";
  if (const size_t found = document.find(kDistance, at); found != npos) {
    Cursor cursor(document, document.match(kDistance, found));
    finding.line_limit = cursor.integer();  // elements of one transform
  }
  add_finding(facts, std::move(finding));
}

// host:pid:tid [6] file:41 NCCL WARN Cuda failure 'out of memory'
void detect_nccl(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "nccl warn cuda failure";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    if (document.find("out of memory", at, at + 60) == npos) continue;
    Finding finding = device_finding(Family::kNccl, "", at);
    const size_t begin = document.record_start(at);
    const size_t open = document.find("[", begin, at);
    if (open != npos) {
      Cursor cursor(document, open);
      const std::string rank = cursor.until("]", 8);
      if (rank.size() > 1 && cursor.literal("]")) finding.device = rank + "]";
    }
    add_finding(facts, std::move(finding));
  }
}

}  // namespace

void detect_drivers(const Document& document, Facts& facts) {
  detect_pool_growth(document, facts);
  detect_pinned(document, facts);
  detect_cpu_warning(document, facts);
  detect_libraries(document, facts);
  detect_context_creation(document, facts);
  detect_cufft(document, facts);
  detect_nccl(document, facts);
}

}  // namespace plimsoll::explain
