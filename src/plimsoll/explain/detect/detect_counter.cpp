// What a log says against the cause that its message would have: versions that do not match, an
// assertion on the device, memory that was free, a setting that the platform does not have.

#include <array>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

std::optional<size_t> first_of(const Document& document,
                               std::span<const std::string_view> phrases) {
  for (std::string_view phrase : phrases) {
    const size_t at = document.find(phrase);
    if (at != npos && !document.is_quoted(at)) return at;
  }
  return std::nullopt;
}

void detect_versions(const Document& document, CounterEvidence& counter) {
  static constexpr std::array<std::string_view, 10> kPhrases = {
      "source was compiled with",
      "insufficient driver version",
      "driver version is insufficient",
      "cudnn_status_version_mismatch",
      "cudnn_status_arch_mismatch",
      "library version mismatch",
      "needs to have matching major version",
      "system_driver_mismatch",
      "compat_not_supported_on_device",
      "nvidia driver on your system is too old"};
  counter.versions_at = first_of(document, kPhrases);
}

// …/Indexing.cu:1290: indexSelectLargeIndex: block: [201,0,0], thread: [64,0,0] Assertion `…`
// failed.
void detect_assertion(const Document& document, CounterEvidence& counter) {
  static constexpr std::array<std::string_view, 2> kPhrases = {"device-side assert triggered",
                                                               "illegal memory access"};
  counter.assertion_at = first_of(document, kPhrases);
  constexpr std::string_view kBlock = ": block: [";
  for (size_t at = document.find(kBlock); at != npos; at = document.find(kBlock, at + 1)) {
    if (document.find("assertion", at, document.record_end(at)) == npos) continue;
    counter.assertion_at = std::min(at, counter.assertion_at.value_or(at));
    return;
  }
}

// Memory usage: 42069065728 bytes free, 42505273344 bytes total.
void detect_free(const Document& document, CounterEvidence& counter) {
  constexpr std::string_view kUsage = "memory usage: ";
  for (size_t at = document.find(kUsage); at != npos; at = document.find(kUsage, at + 1)) {
    Cursor cursor(document, document.match(kUsage, at));
    const std::optional<Size> free = cursor.size();
    if (!free || !cursor.literal(" free, ")) continue;
    const std::optional<Size> total = cursor.size();
    if (!total || !cursor.literal(" total")) continue;
    counter.free_at = at;
    counter.device_free = free->bytes;
    counter.device_total = total->bytes;
    return;
  }
}

// "… try setting PYTORCH_ALLOC_CONF=expandable_segments:True": each version has its own name for
// it.
void detect_allocator_variable(const Document& document, Context& context) {
  constexpr std::string_view kTry = "try setting ";
  for (size_t at = document.find(kTry); at != npos; at = document.find(kTry, at + 1)) {
    size_t from = document.match(kTry, at);
    if (document.text().compare(std::min(from, document.text().size()), 1, "\n") == 0) ++from;
    Cursor cursor(document, from);
    const std::string name = cursor.until("= .,", 60);
    if (!name.ends_with("ALLOC_CONF") || cursor.peek() != '=') continue;
    context.allocator_variable = name;
    return;
  }
}

}  // namespace

void detect_counter_evidence(const Document& document, Facts& facts) {
  Context& context = facts.context;
  detect_versions(document, context.counter);
  detect_assertion(document, context.counter);
  detect_free(document, context.counter);
  static constexpr std::array<std::string_view, 2> kUnsupported = {
      "expandable_segments not supported", "expandable_segments is not supported"};
  context.counter.unsupported_at = first_of(document, kUnsupported);
  detect_allocator_variable(document, context);
  static constexpr std::array<std::string_view, 4> kMac = {"/opt/homebrew/", "\"/users/", ".dylib",
                                                           "apple m"};
  context.is_mac = first_of(document, kMac).has_value();
}

}  // namespace plimsoll::explain
