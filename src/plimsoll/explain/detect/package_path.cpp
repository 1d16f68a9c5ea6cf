#include "explain/detect/package_path.h"

#include <algorithm>
#include <array>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;
constexpr size_t kLongestPath = 1024;

struct Package {
  std::string_view name;
  std::string_view framework;
};

constexpr std::array<Package, 16> kPackages = {{
    {"tensorflow", "tensorflow"},
    {"tensorflow_core", "tensorflow"},
    {"tensorflow_estimator", "tensorflow"},
    {"keras", "tensorflow"},
    {"tf_keras", "tensorflow"},
    {"jax", "jax"},
    {"jaxlib", "jax"},
    {"flax", "jax"},
    {"optax", "jax"},
    {"orbax", "jax"},
    {"torch", "pytorch"},
    {"torchaudio", "pytorch"},
    {"torchvision", "pytorch"},
    {"pytorch_lightning", "pytorch"},
    {"lightning", "pytorch"},
    {"paddle", "paddle"},
}};

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

bool is_separator(char c) { return c == '/' || c == '\\'; }

std::string_view framework_of_package(std::string_view path) {
  const std::string_view package = package_of(path);
  for (const Package& known : kPackages) {
    if (known.name != package) continue;
    if (package != "keras") return known.framework;
    if (contains(path, "backend/jax/") || contains(path, "backend\\jax\\")) return "jax";
    if (contains(path, "backend/torch/") || contains(path, "backend\\torch\\")) return "pytorch";
    return known.framework;
  }
  return {};
}

// The range of a path around [begin, end) of a text: within the quotation marks of a frame, else
// between blanks and the like.
std::string_view path_around(std::string_view text, size_t begin, size_t end) {
  constexpr std::string_view kFrame = "file \"";
  constexpr std::string_view kEnds = " \t\r\n\"'`()[]<>,;=";
  const size_t line = text.find_last_of('\n', begin) + 1;  // 0 where there is none
  const size_t from = std::max(line, begin - std::min(begin, kLongestPath));
  const std::string_view before = text.substr(from, begin - from);
  const size_t quote = before.rfind('"');
  if (quote != npos && quote + 1 >= kFrame.size() &&
      find_ignoring_case(before.substr(quote + 1 - kFrame.size(), kFrame.size()), kFrame) == 0) {
    const size_t close = text.find_first_of("\"\n", end);
    return text.substr(from + quote + 1, close == npos ? npos : close - from - quote - 1);
  }
  const size_t gap = before.find_last_of(kEnds);
  const size_t first = gap == npos ? from : from + gap + 1;
  const std::string_view after = text.substr(end, kLongestPath);
  const size_t stop = std::min(after.find_first_of(kEnds), after.size());
  return text.substr(first, end - first + stop);
}

bool is_absolute(std::string_view path) {
  if (path.empty()) return false;
  return is_separator(path[0]) || path[0] == '~' || path[0] == '.' ||
         (path.size() > 2 && path[1] == ':' && is_separator(path[2]));
}

// Sources of PyTorch's own builds.
bool is_source_of_torch(std::string_view path) {
  return contains(path, "/aten/") || contains(path, "/c10/") || contains(path, "torch/csrc");
}

// Whether words at an offset of that path speak for a framework.
bool speaks(std::string_view path, size_t at, std::string_view words) {
  if (std::none_of(path.begin(), path.end(), is_separator)) return true;
  if (contains(path, "://")) return true;
  if (!framework_of_package(path).empty() || is_source_of_torch(path)) return true;
  if (is_absolute(path)) return false;
  const bool is_folder = at + words.size() < path.size() && is_separator(path[at + words.size()]);
  return (at == 0 && is_folder) || words.find('/') != npos;
}

}  // namespace

std::string_view package_of(std::string_view path) {
  size_t begin = 0;
  for (std::string_view folder : {"site-packages", "dist-packages"}) {
    for (size_t at = find_ignoring_case(path, folder); at != npos;
         at = find_ignoring_case(path, folder, at + 1)) {
      const size_t end = at + folder.size();
      if (end < path.size() && is_separator(path[end])) begin = std::max(begin, end + 1);
    }
  }
  if (begin == 0) return {};
  const std::string_view rest = path.substr(begin);
  return rest.substr(0, std::min(rest.find_first_of("/\\\""), rest.size()));
}

size_t find_framework_words(const Document& document, std::string_view words) {
  const std::string_view text = document.text();
  for (size_t at = document.find(words); at != npos; at = document.find(words, at + 1)) {
    const size_t end = document.match(words, at);
    const std::string_view path = path_around(text, at, end);
    if (speaks(path, static_cast<size_t>(text.data() + at - path.data()), words)) return at;
  }
  return npos;
}

std::string_view framework_of_frames(const Document& document, const Traceback& traceback) {
  std::string_view found;
  const size_t last = document.line_index(traceback.end);
  for (size_t i = document.line_index(traceback.at); i <= last; ++i) {
    const std::string_view line = document.line(i);
    const size_t file = find_ignoring_case(line, "file \"");
    if (file == npos) continue;
    const std::string_view framework = framework_of_package(line.substr(file));
    if (!framework.empty()) found = framework;
  }
  return found;
}

}  // namespace plimsoll::explain
