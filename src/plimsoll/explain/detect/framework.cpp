#include "explain/detect/framework.h"

#include <algorithm>
#include <array>

#include "explain/detect/package_path.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

struct Mark {
  std::string_view text;
  std::string_view framework;
};

// The name of an exception with its module.
constexpr std::array<Mark, 9> kExceptions = {{
    {"tensorflow.python.framework.errors", "tensorflow"},
    {"tf.errors.", "tensorflow"},
    {"xlaruntimeerror", "jax"},
    {"jaxruntimeerror", "jax"},
    {"jaxlib.", "jax"},
    {"jax.errors.", "jax"},
    {"torch.outofmemoryerror", "pytorch"},
    {"torch.cuda.outofmemoryerror", "pytorch"},
    {"torch.acceleratorerror", "pytorch"},
}};

// After the message before it: the exception that ends a traceback repeats or follows the line
// that a library logged.
std::string_view by_exception(const Document& document, size_t at) {
  constexpr size_t kBefore = 1500;
  constexpr size_t kAfter = 8000;
  std::string_view best;
  size_t nearest = npos;
  for (const Mark& mark : kExceptions) {
    if (const size_t found = document.find(mark.text, document.record_start(at), at + kAfter);
        found != npos) {
      const size_t distance = found > at ? found - at : at - found;
      if (distance < nearest) {
        nearest = distance;
        best = mark.framework;
      }
    }
  }
  if (!best.empty()) return best;
  for (const Mark& mark : kExceptions) {
    const size_t found = document.find_back(mark.text, at, kBefore);
    if (found == npos || at - found >= nearest) continue;
    nearest = at - found;
    best = mark.framework;
  }
  return best;
}

// Whether the exception at `at` is the one that the traceback's frames raised: it stands a few
// lines after the last of them, and no other exception before it.
bool ends_at(const Document& document, const Traceback& traceback, size_t at) {
  constexpr int64_t kMostBetween = 6;  // the frame's source, marks below it, repeated frames
  if (at <= traceback.end) return false;
  const size_t last = document.line_index(traceback.end - 1);
  const size_t raised = document.line_index(at);
  if (document.number(raised) - document.number(last) > kMostBetween) return false;
  for (size_t i = last + 1; i < raised; ++i) {
    if (!raised_name(document.line(i)).empty()) return false;
  }
  return true;
}

// The framework whose code called what raised the exception at `at`: of the traceback that ends
// with it.
std::string_view by_frames(const Document& document, const Context& context, size_t at) {
  const Traceback* raised = nullptr;
  for (const Traceback& traceback : context.tracebacks) {
    if (traceback.at <= at) raised = &traceback;
  }
  if (raised == nullptr || !ends_at(document, *raised, at)) return {};
  return framework_of_frames(document, *raised);
}

bool is_of_xla(std::string_view framework) {
  return framework.empty() || framework == "tensorflow" || framework == "jax";
}

// Where none is near, as in a long series of refusals: the one whose exceptions the log has alone.
std::string_view by_only_exceptions(const Document& document) {
  std::string_view only;
  for (const Mark& mark : kExceptions) {
    if (document.find(mark.text) == npos) continue;
    if (!only.empty() && only != mark.framework) return {};
    only = mark.framework;
  }
  return is_of_xla(only) ? only : std::string_view();
}

}  // namespace

std::string framework_of(const Document& document, const Facts& facts, const Finding& main) {
  const std::string& known = facts.context.framework;
  const std::string own = main.framework.empty() ? known : main.framework;
  if (is_of_xla(own)) {
    std::string_view raised = by_exception(document, main.at);
    if (raised.empty() && !own.empty()) raised = by_only_exceptions(document);
    if (!raised.empty()) return std::string(raised);
  }
  // CUDA's plain words in the log of a server of ggml's.
  if (main.family == Family::kTorchPlain && document.find("ggml") != npos) return "";
  // NumPy's exception is another framework's where that framework's code called NumPy.
  if (own == "numpy") {
    const std::string_view caller = by_frames(document, facts.context, main.at);
    return caller.empty() ? own : std::string(caller);
  }
  if (own == "tensorflow" && known == "jax") return "jax";
  const auto has = [&](std::string_view words) { return document.find(words) != npos; };
  if (own == "tensorflow" && !facts.program.buffers.empty() && !has("tensorflow.python")) {
    return "jax";
  }
  // XLA within TensorFlow, whose builds have paths of their own.
  const bool built_in = has("external/local_xla/") || has("w tensorflow/core/");
  if (own == "jax" && known == "tensorflow" && built_in) return "tensorflow";
  if (own == "tensorflow" && has(" external/xla/xla/") &&
      find_framework_words(document, "tensorflow/") == npos)
    return "jax";
  return own;
}

}  // namespace plimsoll::explain
