// Servers of language models: vLLM's account of its cache, ggml's buffers by device, ollama's check
// before it loads.

#include <algorithm>
#include <array>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding server_finding(std::string_view framework, std::string_view note, size_t at) {
  Finding finding;
  finding.family = Family::kOtherGpu;
  finding.resource = Resource::kGpuMemory;
  finding.framework = framework;
  finding.note = note;
  finding.at = at;
  return finding;
}

// The number in the brackets after the last `label` before `at`.
std::optional<int64_t> bracketed_before(const Document& document, std::string_view label, size_t at,
                                        size_t reach) {
  const size_t found = document.find_back(label, at, reach);
  if (found == npos) return std::nullopt;
  Cursor cursor(document, document.match(label, found));
  return cursor.integer();
}

// "Free memory on device cuda:0 (31.44/47.38 GiB) on startup is less than desired GPU memory
// utilization (0.95, 45.01 GiB)."
void detect_startup(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "less than desired gpu memory utilization";
  constexpr std::string_view kFree = "free memory on device";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Finding finding = server_finding("vllm", "startup", at);
    if (const size_t free = document.find_back(kFree, at, 120); free != npos) {
      Cursor cursor(document, document.match(kFree, free));
      cursor.seek("(", 20);
      const std::string first = cursor.until("/)", 16);
      if (cursor.literal("/")) {
        if (const std::optional<Size> capacity = cursor.size()) {
          finding.amounts.capacity = capacity->bytes;
          // The unit stands after the second figure only.
          const size_t unit = capacity->text.find_first_of("KMGTkmgt");
          size_t begin = 0;
          const std::string whole = first + (unit == npos ? "" : capacity->text.substr(unit));
          if (const std::optional<double> bytes = read_bytes(whole, begin)) {
            finding.amounts.free = round_to_bytes(*bytes);
            finding.amounts.others = std::max<int64_t>(capacity->bytes - *finding.amounts.free, 0);
          }
        }
      }
    }
    Cursor wanted(document, document.match(kPhrase, at));
    wanted.skip_blanks();
    if (wanted.literal("(") && wanted.seek(", ", 12)) {
      if (const std::optional<Size> size = wanted.size()) set_size(finding, *size);
    }
    add_finding(facts, std::move(finding));
  }
}

// "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored
// in KV cache (7344)."
void detect_cache_tokens(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "tokens that can be stored in kv cache";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Finding finding = server_finding("vllm", "kv_cache", at);
    Cursor cursor(document, document.match(kPhrase, at));
    cursor.skip_blanks();
    if (cursor.literal("(")) finding.tokens_fit = cursor.inner_integer();
    finding.tokens_wanted = bracketed_before(document, "max seq len (", at, 200);
    add_finding(facts, std::move(finding));
  }
}

// "… max seq len (262144), (24.00 GiB KV cache is needed, which is larger than the available KV
// cache memory (8.53 GiB). Based on the available memory, the estimated maximum model length is
// 93120."
void detect_cache_bytes(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "larger than the available kv cache memory";
  constexpr std::string_view kLength = "max seq len (";
  constexpr std::string_view kEstimate = "estimated maximum model length is ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Finding finding = server_finding("vllm", "kv_cache", at);
    if (const size_t length = document.find_back(kLength, at, 200); length != npos) {
      Cursor cursor(document, document.match(kLength, length));
      finding.tokens_wanted = cursor.integer();
      cursor.literal("),");
      cursor.skip_blanks();
      cursor.literal("(");
      if (const std::optional<Size> need = cursor.size()) set_size(finding, *need);
    }
    Cursor cursor(document, document.match(kPhrase, at));
    cursor.skip_blanks();
    if (cursor.literal("(")) {
      if (const std::optional<Size> free = cursor.size()) finding.amounts.free = free->bytes;
    }
    const size_t estimate = document.find(kEstimate, at, at + 300);
    if (estimate != npos) {
      Cursor value(document, document.match(kEstimate, estimate));
      finding.tokens_fit = value.inner_integer();
    } else if (finding.tokens_wanted && finding.bytes && finding.amounts.free) {
      // The cache grows with the length.
      const double part = static_cast<double>(*finding.amounts.free) /
                          static_cast<double>(std::max<int64_t>(*finding.bytes, 1));
      finding.tokens_fit =
          static_cast<int64_t>(std::min(part, 1.0) * static_cast<double>(*finding.tokens_wanted));
    }
    add_finding(facts, std::move(finding));
  }
}

// Which of a model's parts a buffer of ggml was for, by the lines after it.
std::string_view part_after(const Document& document, size_t at) {
  struct Part {
    std::string_view phrase;
    std::string_view note;
  };
  static constexpr std::array<Part, 8> kParts = {{{"kv cache", "ggml_cache"},
                                                  {"kv_cache", "ggml_cache"},
                                                  {"self-attention cache", "ggml_cache"},
                                                  {"compute buffers", "ggml_compute"},
                                                  {"compute pp buffers", "ggml_compute"},
                                                  {"graph_reserve", "ggml_compute"},
                                                  {"error loading model", "ggml_model"},
                                                  {"load_tensors", "ggml_model"}}};
  constexpr size_t kReach = 500;
  for (const Part& part : kParts) {
    if (document.find(part.phrase, at, at + kReach) != npos) return part.note;
  }
  return "";
}

// "n_ctx = 8192", "n_ctx_per_seq (43690)": the length of the context, the last that was printed.
std::optional<int64_t> context_length(const Document& document, size_t at) {
  constexpr size_t kReach = 20000;
  std::optional<int64_t> length;
  size_t last = 0;
  for (std::string_view label : {"n_ctx_per_seq (", "n_ctx_seq (", "n_ctx = ", "n_ctx_per_seq = ",
                                 "n_ctx      = ", "n_ctx         = "}) {
    const size_t found = document.find_back(label, at, kReach);
    if (found == npos || (length && found < last)) continue;
    Cursor cursor(document, document.match(label, found));
    cursor.skip_blanks();
    const std::optional<int64_t> value = cursor.integer();
    if (!value || *value <= 0 || *value > (int64_t{1} << 30)) continue;
    length = value;
    last = found;
  }
  return length;
}

// load_tensors: offloaded 62/62 layers to GPU
std::optional<int64_t> layers_on_device(const Document& document) {
  constexpr std::string_view kOffloaded = "offloaded ";
  const size_t at = document.find(kOffloaded);
  if (at == npos) return std::nullopt;
  Cursor cursor(document, document.match(kOffloaded, at));
  const std::optional<int64_t> layers = cursor.integer();
  return cursor.literal("/") && layers && *layers < 100000 ? layers : std::nullopt;
}

void tell_part(const Document& document, Finding& finding) {
  finding.note = part_after(document, finding.at);
  if (finding.note == "ggml_cache") {
    finding.tokens_wanted = context_length(document, finding.at + 400);
  }
  finding.layers = layers_on_device(document);
}

bool is_name_of_cpu(std::string_view name) {
  return equals_ignoring_case(name.substr(0, 3), "cpu") ||
         equals_ignoring_case(name.substr(0, 4), "blas") ||
         equals_ignoring_case(name.substr(0, 5), "accel");
}

// "failed to allocate CPU buffer of size 9663676416", "failed to allocate Vulkan0 buffer of size
// N", "failed to allocate buffer of size N" after the name of a back end.
void detect_ggml_buffers(const Document& document, Facts& facts) {
  constexpr std::string_view kFailed = "failed to allocate ";
  constexpr std::string_view kSize = "buffer of size ";
  for (size_t at = document.find(kFailed); at != npos; at = document.find(kFailed, at + 1)) {
    Cursor cursor(document, document.match(kFailed, at));
    std::string name;
    if (!cursor.literal(kSize)) {
      name = cursor.until(" \n", 24);
      cursor.skip_blanks();
      if (name.empty() || !cursor.literal(kSize)) continue;
    }
    const std::optional<int64_t> bytes = cursor.integer();
    if (!bytes) continue;
    const bool cpu_backend = document.find_back("ggml_backend_cpu", at, 60) != npos;
    if (name.empty() && !cpu_backend) continue;
    Finding finding = server_finding("", "", at);
    set_exact_bytes(finding, bytes);
    tell_part(document, finding);
    if (name.empty() || is_name_of_cpu(name)) {
      finding.family = Family::kOtherHost;
      finding.resource = Resource::kHostMemory;
      if (finding.note.empty()) finding.note = "ggml_model";
    } else {
      finding.device = name;
    }
    add_finding(facts, std::move(finding));
  }
}

void detect_ggml_words(const Document& document, Facts& facts) {
  for (std::string_view phrase :
       {"failed to allocate buffer for kv cache", "unable to allocate cpu"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      constexpr size_t kClose = 500;
      const bool known = std::any_of(facts.read.lower_bound(at - std::min(at, kClose - 1)),
                                     facts.read.lower_bound(at),
                                     [](const auto& other) { return other.second.has_size; });
      if (known) continue;
      Finding finding = server_finding("", "ggml_cache", at);
      if (phrase.starts_with("unable")) {
        finding.family = Family::kOtherHost;
        finding.resource = Resource::kHostMemory;
        finding.note = "ggml_model";
      }
      add_finding(facts, std::move(finding));
    }
  }
}

// "model requires more system memory (2.7 GiB) than is available (2.3 GiB)"
void detect_system_memory(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "model requires more system memory (";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Finding finding = server_finding("", "model", at);
    finding.family = Family::kOtherHost;
    finding.resource = Resource::kHostMemory;
    Cursor cursor(document, document.match(kPhrase, at));
    if (const std::optional<Size> size = cursor.size()) set_size(finding, *size);
    if (cursor.seek("available (", 40)) {
      if (const std::optional<Size> free = cursor.size()) finding.amounts.free = free->bytes;
    }
    add_finding(facts, std::move(finding));
  }
}

}  // namespace

void detect_servers(const Document& document, Facts& facts) {
  detect_startup(document, facts);
  detect_cache_tokens(document, facts);
  detect_cache_bytes(document, facts);
  detect_ggml_buffers(document, facts);
  detect_ggml_words(document, facts);
  detect_system_memory(document, facts);
  for (Finding& finding : facts.findings) {
    const bool refused = document.match("cudamalloc failed", finding.at) != npos;
    if (refused &&
        document.find("ggml", finding.at > 300 ? finding.at - 300 : 0, finding.at + 300) != npos) {
      tell_part(document, finding);
    }
  }
}

}  // namespace plimsoll::explain
