#include <algorithm>
#include <array>
#include <utility>

#include "explain/detect/forms.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;
constexpr size_t kBefore = 300;
constexpr size_t kAfter = 500;
// The bare name of CUDA's error, which many messages end with: the last resort.
constexpr std::string_view kDriverOnly = "driver";
// The figure is what the job used, not what was asked for.
constexpr std::string_view kUsed = "used";
constexpr std::string_view kLimitLabel = "exceeded limit ";

// Their number ends the message, or its line.
constexpr std::array<std::string_view, 6> kLastFigures = {
    "requested memory: ", "buffer of size ",     "space device stream 0x0 size ",
    "calloc async ",      "mtlbuffer for size ", "allocation failed for size::"};

// The figure after `label`, nearest to the phrase: after it first.
std::optional<Size> figure_near(const Document& document, std::string_view label, size_t at) {
  const size_t from = at > kBefore ? at - kBefore : 0;
  size_t found = document.find(label, at, at + kAfter);
  if (found == npos) found = document.find(label, from, at + label.size());
  if (found == npos) return std::nullopt;
  Cursor cursor(document, document.match(label, found));
  cursor.skip_blanks();
  if (std::optional<Size> size = cursor.size()) return size;
  // "100000x100000 (74.5GB)"
  const size_t begin = cursor.at();
  const std::string extents = cursor.until(" (", 40);
  cursor.skip_blanks();
  if (extents.find('x') != std::string::npos && is_digit(extents[0]) && cursor.literal("(")) {
    return cursor.size();
  }
  cursor.move_to(begin);
  const bool last =
      std::find(kLastFigures.begin(), kLastFigures.end(), label) != kLastFigures.end();
  const std::optional<int64_t> bytes = last ? cursor.integer() : cursor.inner_integer();
  if (!bytes) return std::nullopt;
  return Size{*bytes, true, ""};
}

bool stands_near(const Document& document, std::string_view phrase, size_t at) {
  const size_t from = at > kBefore ? at - kBefore : 0;
  return phrase.empty() || document.find(phrase, from, at + kAfter) != npos;
}

// What a table cannot ask for: messages that another detector has read already.
bool is_read_elsewhere(const Facts& facts, const Form& form, size_t at) {
  if (form.note == kDriverOnly) {
    return is_read_near(facts, at, 2000, [](const Reading&) { return true; });
  }
  const bool locked = is_read_near(facts, at, 200, [&form](const Reading& known) {
    return known.family == Family::kTfPinnedHost && form.resource != known.resource;
  });
  return locked || is_read_near(facts, at, 400, [&form](const Reading& known) {
           return known.family < form.family && known.resource == form.resource;
         });
}

void detect_form(const Document& document, const Form& form, Facts& facts) {
  for (size_t at = document.find(form.phrase); at != npos;
       at = document.find(form.phrase, at + 1)) {
    if (!stands_near(document, form.with, at) || is_read_elsewhere(facts, form, at)) continue;
    Finding finding;
    finding.family = form.family;
    finding.resource = form.resource;
    finding.framework = form.framework;
    finding.note = form.note;
    finding.at = at;
    if (form.figure == "requested memory: ") {
      const std::optional<Size> free = figure_near(document, "free memory: ", at);
      if (free) finding.amounts.free = free->bytes;
    }
    if (!form.figure.empty()) {
      const std::optional<Size> size = figure_near(document, form.figure, at);
      if (size && form.note == kUsed) {
        finding.amounts.in_use = size->bytes;
        const std::optional<Size> limit = figure_near(document, kLimitLabel, at);
        if (limit) finding.amounts.limit = limit->bytes;
      } else if (size) {
        set_size(finding, *size);
      }
    }
    add_finding(facts, std::move(finding));
  }
}

}  // namespace

void detect_forms(const Document& document, Facts& facts) {
  for (const Form& form : forms()) detect_form(document, form, facts);
}

}  // namespace plimsoll::explain
