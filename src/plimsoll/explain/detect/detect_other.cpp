// Other frameworks with the same names for it: Paddle, CuPy, ONNX Runtime, ggml, Chainer, MXNet.

#include <utility>

#include "base/format.h"
#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding gpu_finding(Family family, std::string_view framework, size_t at) {
  Finding finding;
  finding.family = family;
  finding.framework = framework;
  finding.resource = Resource::kGpuMemory;
  finding.at = at;
  return finding;
}

// The word before "raises an exception": Paddle's operator.
std::string paddle_operator(const Document& document) {
  constexpr std::string_view kPhrase = " raises an exception";
  const size_t at = document.find(kPhrase);
  if (at == npos) return "";
  size_t begin = at;
  while (begin > 0 && is_word(document.text()[begin - 1])) --begin;
  return document.text().substr(begin, at - begin);
}

// Cannot allocate 6.933594GB memory on GPU 0, [… has been allocated and ]available memory is only …
void detect_paddle(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "cannot allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<Size> size = cursor.size();
    if (!size || !cursor.literal(" memory on ")) continue;
    Finding finding = gpu_finding(Family::kPaddle, "paddle", at);
    set_size(finding, *size);
    finding.device = cursor.until(",.");
    if (cursor.literal(",")) cursor.skip_blanks();
    if (const std::optional<Size> held = cursor.size()) finding.amounts.held = held->bytes;
    if (cursor.seek("available memory is only ", 120)) {
      if (const std::optional<Size> free = cursor.size()) finding.amounts.free = free->bytes;
    }
    finding.op = paddle_operator(document);
    if (finding.device.find("CPU") != npos || finding.device.find("cpu") != npos) {
      finding.resource = Resource::kHostMemory;
    }
    add_finding(facts, std::move(finding));
  }
  constexpr std::string_view kEnforce = "enforce allocating <= available failed, ";
  if (const size_t at = document.find(kEnforce); at != npos) {
    Cursor cursor(document, document.match(kEnforce, at));
    Finding finding = gpu_finding(Family::kPaddle, "paddle", at);
    set_exact_bytes(finding, cursor.inner_integer());
    cursor.skip_blanks();
    if (cursor.literal(">")) {
      cursor.skip_blanks();
      finding.amounts.free = cursor.inner_integer();
    }
    finding.op = paddle_operator(document);
    add_finding(facts, std::move(finding));
  }
}

// Out of memory allocating 1,073,741,824 bytes (allocated so far: 8,000 bytes, limit set to: …)
void detect_cupy(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "out of memory allocating ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    if (document.find("cupy", at > 200 ? at - 200 : 0, at) == npos) continue;
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<int64_t> bytes = cursor.inner_integer();
    if (!bytes) continue;
    Finding finding = gpu_finding(Family::kOtherGpu, "cupy", at);
    set_exact_bytes(finding, bytes);
    if (cursor.seek("allocated so far: ", 40)) finding.amounts.in_use = cursor.inner_integer();
    if (cursor.seek("limit set to: ", 40)) finding.amounts.limit = cursor.inner_integer();
    add_finding(facts, std::move(finding));
  }
}

struct Phrase {
  std::string_view text;
  std::string_view framework;
  bool size_before;  // "allocating 1024.00 MiB on device 0: cudaMalloc failed"
};

constexpr Phrase kPhrases[] = {
    {"failed to allocate memory for requested buffer of size ", "onnxruntime", false},
    {" is smaller than requested bytes of ", "onnxruntime", false},
    {"cudamalloc failed: out of memory", "", true},
    {"no available memory for the cache blocks", "vllm", true},
};

void detect_phrases(const Document& document, Facts& facts) {
  for (const Phrase& phrase : kPhrases) {
    for (size_t at = document.find(phrase.text); at != npos;
         at = document.find(phrase.text, at + 1)) {
      Finding finding = gpu_finding(Family::kOtherGpu, phrase.framework, at);
      if (!phrase.size_before) {
        Cursor cursor(document, document.match(phrase.text, at));
        set_exact_bytes(finding, cursor.integer());
      } else if (const size_t front = document.find_back("allocating ", at, 80); front != npos) {
        Cursor cursor(document, document.match("allocating ", front));
        if (const std::optional<Size> size = cursor.size()) set_size(finding, *size);
        if (cursor.literal(" on device ")) {
          if (const auto index = cursor.integer()) {
            finding.device = fmt::format("device {}", *index);
          }
        }
      }
      add_finding(facts, std::move(finding));
    }
  }
}

}  // namespace

void detect_other_frameworks(const Document& document, Facts& facts) {
  detect_paddle(document, facts);
  detect_cupy(document, facts);
  detect_phrases(document, facts);
}

}  // namespace plimsoll::explain
