#include "explain/read/code_line.h"

#include <algorithm>
#include <array>

#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

// Calls that make large results, in the order in which they are believed.
constexpr std::string_view kHeavy[] = {
    "log_softmax", "softmax",   "cross_entropy", "scaled_dot_product_attention",
    "einsum",      "matmul",    "bmm",           "baddbmm",
    "conv",        "upsample",  "interpolate",   "linear",
    "one_hot",     "embedding", "fork",          "ndarray",
    "layer_norm",  "gelu",      "cat",           "stack",
    "zeros",       "ones",      "empty",         "barrier",
};

// Calls that only look at what is there, or say nothing about the operator.
constexpr std::string_view kLight[] = {
    "view",       "reshape", "squeeze",    "unsqueeze",    "permute", "transpose", "contiguous",
    "expand",     "size",    "item",       "len",          "range",   "int",       "float",
    "str",        "print",   "list",       "zip",          "tuple",   "enumerate", "super",
    "isinstance", "dict",    "_call_impl", "forward_call", "if",      "while",     "for",
    "raise",      "return",  "and",        "or",           "not",     "in",        "append",
    "main",       "_main",   "run",        "exec",         "error",   "self",      "cls",
    "model",      "net",     "module",     "func",         "fn",
};

struct Call {
  std::string_view name;  // with its dots
  size_t open = 0;        // of the bracket in the line
};

std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == npos ? name : name.substr(dot + 1);
}

std::vector<Call> calls_in(std::string_view line) {
  std::vector<Call> calls;
  for (size_t at = 0; at < line.size() && calls.size() < 32; ++at) {
    if (line[at] != '(' || at == 0) continue;
    size_t begin = at;
    while (begin > 0 && (is_word(line[begin - 1]) || line[begin - 1] == '.')) --begin;
    std::string_view name = line.substr(begin, at - begin);
    while (!name.empty() && name.front() == '.') name.remove_prefix(1);
    if (name.empty() || is_digit(name.front())) continue;
    calls.push_back({name, at});
  }
  return calls;
}

const Call* choose_call(const std::vector<Call>& calls) {
  for (std::string_view heavy : kHeavy) {
    for (const Call& call : calls) {
      if (last_part(call.name).substr(0, heavy.size()) == heavy) return &call;
    }
  }
  for (const Call& call : calls) {
    const std::string_view name = last_part(call.name);
    if (name.size() < 2) continue;  // a variable's name, which tells nobody what it is
    // "raise ValueError(", "_error_if_any_worker_fails()" say how it ended, not who asked.
    if (find_ignoring_case(name, "error") != npos || name.ends_with("Exception")) continue;
    if (std::find(std::begin(kLight), std::end(kLight), name) == std::end(kLight)) return &call;
  }
  return nullptr;
}

// Modules stay in the name where it says little without them.
std::string op_name(std::string_view name) {
  for (std::string_view module : {"os.", "np.", "numpy."}) {
    if (name.substr(0, module.size()) == module) return std::string(name);
  }
  static constexpr std::array<std::string_view, 8> kMakers = {
      "torch.empty", "torch.zeros", "torch.ones",   "torch.full",
      "torch.rand",  "torch.randn", "torch.arange", "torch.tensor"};
  if (std::find(kMakers.begin(), kMakers.end(), name) != kMakers.end()) return std::string(name);
  return std::string(last_part(name));
}

bool looks_like_code(std::string_view line, bool after_file_line) {
  if (line.find('(') == npos || find_ignoring_case(line, "error:") != npos) return false;
  if (line.find("]]") != npos || line.find(".cc:") != npos) return false;
  if (after_file_line) return true;
  const size_t first = line.find_first_not_of(' ');
  if (first == npos) return false;
  const std::string_view text = line.substr(first);
  if (first >= 2 || text.substr(0, 7) == "return " || text.substr(0, 5) == "self.") return true;
  // "name = call(…)"
  size_t end = 0;
  while (end < text.size() && (is_word(text[end]) || text[end] == '.' || text[end] == ',')) ++end;
  return end > 0 && text.substr(end, 3) == " = ";
}

bool is_file_line(std::string_view line) { return find_ignoring_case(line, "file \"") != npos; }

bool is_decoration(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) {
    return c == ' ' || c == '^' || c == '~' || c == '-' || c == '>' || c == '|';
  });
}

void read_array(const Document& document, size_t open, CodeLine& code) {
  Cursor cursor(document, open + 1);
  cursor.skip_blanks();
  cursor.literal("shape=");
  code.shape = cursor.shape();
  const size_t end = document.record_end(open);
  if (const size_t dtype = document.find("dtype=", cursor.at(), end); dtype != npos) {
    Cursor value(document, document.match("dtype=", dtype));
    const std::string name = value.until(" ,)");
    std::string_view type = last_part(name);
    while (!type.empty() && (type.front() == '\'' || type.front() == '"')) type.remove_prefix(1);
    while (!type.empty() && (type.back() == '\'' || type.back() == '"')) type.remove_suffix(1);
    code.dtype = type;
  }
}

struct Sign {
  std::string_view text;
  std::string_view name;
};
constexpr std::array<Sign, 8> kSigns = {{{"**", "pow"},
                                         {"//", "floor_divide"},
                                         {"@", "matmul"},
                                         {"*", "mul"},
                                         {"+", "add"},
                                         {"-", "sub"},
                                         {"/", "div"},
                                         {"%", "remainder"}}};

const Sign* sign_at(std::string_view line, size_t at) {
  for (const Sign& sign : kSigns) {
    if (line.substr(at, sign.text.size()) == sign.text) return &sign;
  }
  return nullptr;
}

bool is_balanced(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0) return false;
  }
  return depth == 0;
}

// What Python marks below a line that failed in an operator: "~~~~^~~~~~~". A call's marks end with
// its brackets' "^".
struct OperatorMarks {
  size_t before = 0;  // characters of the left operand and the blanks after it
  size_t sign = 0;
  size_t after = 0;  // from the sign's begin to the right operand's end
};

std::optional<OperatorMarks> read_marks(std::string_view marks) {
  const size_t left = marks.find('~');
  const size_t caret = marks.find('^');
  if (left == npos || caret == npos || caret < left) return std::nullopt;
  const size_t after = marks.find('~', caret);
  const size_t end = marks.find_last_of('~') + 1;
  if (after == npos || marks.substr(caret, after - caret).find_first_not_of('^') != npos) {
    return std::nullopt;
  }
  return OperatorMarks{caret - left, after - caret, end - caret};
}

// Whether an operand may begin or end between `at` - 1 and `at`: neither within a word or a name
// with points, nor before brackets that belong to a name.
bool is_edge(std::string_view line, size_t at) {
  if (at == 0 || at >= line.size()) return true;
  const char before = line[at - 1];
  const char after = line[at];
  if (before == '.' || after == '.') return false;
  const bool ends_name = is_word(before) || before == ')' || before == ']';
  return !(ends_name && (after == '(' || after == '[')) && !(is_word(before) && is_word(after));
}

// The operator so marked, as a call is named. Margins are not kept, so the place is found by the
// lengths of what stands to its left and right; where those were cut, the only operator of its
// length is meant. "" where it may be one of several.
std::string marked_operator(std::string_view line, const OperatorMarks& marks) {
  std::vector<std::string_view> fitting, all;
  for (size_t at = 1; at < line.size(); ++at) {
    const Sign* sign = sign_at(line, at);
    if (sign == nullptr) continue;
    if (sign->text.size() == marks.sign) {
      all.push_back(sign->name);
      const bool inside = at >= marks.before && at + marks.after <= line.size();
      if (inside && is_edge(line, at - marks.before) && is_edge(line, at + marks.after) &&
          is_balanced(line.substr(at - marks.before, marks.before)) &&
          is_balanced(line.substr(at, marks.after))) {
        fitting.push_back(sign->name);
      }
    }
    at += sign->text.size() - 1;
  }
  const std::vector<std::string_view>& signs = fitting.empty() ? all : fitting;
  const bool same = !signs.empty() && std::all_of(signs.begin(), signs.end(),
                                                  [&](auto name) { return name == signs[0]; });
  return same ? std::string(signs[0]) : "";
}

// The record that ends before `begin`, without soft breaks.
std::string record_before(const Document& document, size_t& begin) {
  const size_t end = begin - 1;
  begin = document.record_start(end);
  std::string record = document.text().substr(begin, end - begin);
  std::erase(record, kSoftBreak);
  return record;
}

}  // namespace

std::optional<CodeLine> code_above(const Document& document, size_t at) {
  if (document.line_count() == 0) return std::nullopt;
  size_t begin = document.record_start(at);
  std::string marks;
  for (int steps = 0; begin > 1 && steps < 4; ++steps) {
    const std::string line = record_before(document, begin);
    if (is_decoration(line)) {
      marks = line;
      continue;
    }
    size_t above = begin;
    const bool after_file = above > 1 && is_file_line(record_before(document, above));
    // Some call in the line is not what failed where an operator is marked.
    if (const auto signs = after_file ? read_marks(marks) : std::nullopt) {
      CodeLine code;
      code.at = begin;
      code.op = marked_operator(line, *signs);
      return code;
    }
    if (is_file_line(line) || !looks_like_code(line, after_file)) return std::nullopt;
    const std::vector<Call> calls = calls_in(line);
    const Call* call = choose_call(calls);
    if (call == nullptr) return std::nullopt;
    CodeLine code;
    code.at = begin;
    code.op = op_name(call->name);
    if (code.op.starts_with("np.") || code.op.starts_with("numpy.")) {
      std::string phrase = code.op + "(";
      std::transform(phrase.begin(), phrase.end(), phrase.begin(), to_lower);
      const size_t found = document.find(phrase, begin, document.record_end(begin));
      if (found != npos) read_array(document, document.match(phrase, found) - 1, code);
    }
    return code;
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
