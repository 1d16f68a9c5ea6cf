#include "explain/read/series_form.h"

#include "explain/read/document.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

// After the number at `at`, with its unit: "32.02GiB", "640 MiB", "7f00950000".
size_t after_number(std::string_view line, size_t at) {
  while (at < line.size() && (is_word(line[at]) || line[at] == '.')) ++at;
  size_t unit = at;
  while (unit < line.size() && (line[unit] == ' ' || line[unit] == kSoftBreak)) ++unit;
  return unit > at && read_unit(line, unit) ? unit : at;
}

}  // namespace

uint64_t series_form(std::string_view line) {
  constexpr uint64_t kOffset = 14695981039346656037u;  // of FNV-1a
  constexpr uint64_t kPrime = 1099511628211u;
  uint64_t form = kOffset;
  for (size_t at = 0; at < line.size();) {
    char c = line[at] == kSoftBreak ? ' ' : line[at];
    if (is_digit(c)) {
      c = '0';
      at = after_number(line, at);
    } else {
      ++at;
    }
    form = (form ^ static_cast<uint8_t>(c)) * kPrime;
  }
  return form;
}

}  // namespace plimsoll::explain
