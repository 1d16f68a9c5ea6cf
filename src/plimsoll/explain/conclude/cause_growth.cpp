// Device memory that grows with the work done: by figures that the program printed, or by a line of
// its own that keeps what each step returns.

#include <algorithm>
#include <array>

#include "base/format.h"
#include "explain/conclude/phase.h"
#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

std::string_view without_margin(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

// Whether `name` stands in `text` as a word of its own.
bool names(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !is_word(text[at - 1]);
    if (begins && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// What is added to the name that stands first in `code`: "total = total + f(x)", "total += f(x)".
// "x = x + f(x)" is the sum of a layer, which keeps nothing by itself.
std::string_view summand(std::string_view code) {
  size_t end = 0;
  while (end < code.size() && (is_word(code[end]) || code[end] == '.')) ++end;
  const std::string_view name = code.substr(0, end);
  const std::string_view rest = code.substr(end);
  if (name.empty()) return {};
  std::string_view added;
  if (rest.starts_with(" += ")) {
    added = rest.substr(4);
  } else if (rest.starts_with(" = ") && rest.substr(3).starts_with(name) &&
             rest.substr(3 + name.size()).starts_with(" + ")) {
    added = rest.substr(3 + name.size() + 3);
  }
  return names(added, name) ? std::string_view() : added;
}

// A line that keeps a call's result beyond its step: appends it, or sums it up with its graph.
bool keeps_results(std::string_view line) {
  static constexpr std::array<std::string_view, 7> kGivenUp = {
      ".item(", "float(", ".detach(", ".cpu(", ".tolist(", ".numpy(", "range("};
  for (std::string_view word : kGivenUp) {
    if (contains(line, word)) return false;
  }
  constexpr std::string_view kAppend = ".append(";
  const std::string_view code = without_margin(line);
  const size_t append = code.find(kAppend);
  if (append != npos && code.find('(', append + kAppend.size()) != npos) return true;
  return summand(code).find('(') != npos;
}

bool is_installed(std::string_view file) {
  static constexpr std::array<std::string_view, 4> kPlaces = {"site-packages", "dist-packages",
                                                              "/lib/python", "\\lib\\"};
  return std::any_of(kPlaces.begin(), kPlaces.end(),
                     [file](std::string_view place) { return contains(file, place); });
}

// Where the program's own loop stands in the traceback: the code of its last frame before a
// library's, unless that is a layer's.
std::optional<size_t> own_line(const Case& found) {
  if (found.traceback == nullptr) return std::nullopt;
  const Document& document = found.document;
  const size_t last = document.line_index(found.traceback->end);
  std::optional<size_t> own;
  for (size_t i = document.line_index(found.traceback->at); i <= last; ++i) {
    const std::string_view line = document.line(i);
    if (find_ignoring_case(line, "file \"") == npos) continue;
    const bool layer = contains(line, ", in forward") || contains(line, ", in call") ||
                       contains(line, ", in __call__");
    if (is_installed(line) || layer) break;
    if (i + 1 < document.line_count()) own = i + 1;
  }
  return own;
}

}  // namespace

void quote_series(const Case& found, const SeriesTrend& series, Diagnosis& result) {
  result.inferred = false;
  for (size_t i = 0; i < found.document.line_count(); ++i) {
    const int64_t line = found.document.number(i);
    if (line == series.first_line || line == series.last_line) {
      result.evidence.push_back(found.document.start(i));
    }
  }
}

std::optional<size_t> line_that_keeps(const Case& found) {
  const std::optional<size_t> line = own_line(found);
  if (!line || !keeps_results(found.document.line(*line))) return std::nullopt;
  const Progress* progress = last_progress(found);
  const bool fitted =
      progress != nullptr && (progress->step.value_or(0) > 1 || progress->epoch.value_or(0) > 1);
  return fitted ? std::optional(found.document.start(*line)) : std::nullopt;
}

std::optional<Diagnosis> growth_on_device(const Case& found) {
  if (found.main.resource != Resource::kGpuMemory) return std::nullopt;
  const SeriesTrend& series = found.facts.device_series;
  const double in_use = static_cast<double>(found.main.amounts.in_use.value_or(0));
  const bool reaches = series.last_bytes * 2 >= in_use;
  if (series.grows && reaches && series.last_line <= found.document.number_at(found.main.at)) {
    Diagnosis result = reading(
        found, Cause::kLeakOverTime, 0.85,
        fmt::format("The device memory that the program itself prints grows from {} (line {}) to "
                    "{} (line {}), {} more from one to the next, and does not level off: something "
                    "of every step is kept.",
                    size_words(round_to_bytes(series.first_bytes)), series.first_line,
                    size_words(round_to_bytes(series.last_bytes)), series.last_line,
                    size_words(round_to_bytes(std::max(series.slope_bytes, 0.0)))));
    quote_series(found, series, result);
    return result;
  }
  const std::optional<size_t> keeps = line_that_keeps(found);
  if (!keeps) return std::nullopt;
  Diagnosis result = reading(
      found, Cause::kLeakOverTime, 0.6,
      "Steps before this one had fitted, and the program's own line keeps what each of them "
      "returns (" +
          std::string(without_margin(found.document.quote(*keeps))) +
          "): results that are kept on the device add up, and without no_grad each keeps its "
          "step's values too.");
  result.evidence.insert(result.evidence.begin(), *keeps);
  return result;
}

}  // namespace plimsoll::explain
