#include "explain/read/tf_node.h"

#include <algorithm>

#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

bool ends_in_send_suffix(std::string_view name) {  // "add/_25", "Reshape_603/_2957"
  const size_t slash = name.rfind("/_");
  if (slash == npos || slash + 2 >= name.size()) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(slash) + 2, name.end(), is_digit);
}

bool is_messenger(std::string_view op_type) {
  return op_type == "_Recv" || op_type == "_Send" || op_type == "_HostRecv" ||
         op_type == "_HostSend";
}

std::string lower_type(std::string_view dt_name) {  // DT_FLOAT -> float
  std::string result;
  for (char c : dt_name.substr(std::min<size_t>(3, dt_name.size()))) result += to_lower(c);
  return result;
}

bool is_plausible_name(std::string_view name) {
  return !name.empty() && name.size() < 380 && name.find(' ') == npos &&
         std::any_of(name.begin(), name.end(), is_alpha);
}

}  // namespace

std::optional<TfNode> read_tf_node(const Document& document, size_t at) {
  Cursor cursor(document, at);
  if (!cursor.literal("[[")) return std::nullopt;
  TfNode node;
  node.at = at;
  const bool braces = cursor.literal("{{node ");
  if (!braces && !cursor.literal("node: ") && !cursor.literal("node ")) {
    // "[[name]]": a consumer of the failed node, printed after it.
    return std::nullopt;
  }
  node.name = cursor.until(braces ? "}" : " ]()");
  if (braces) cursor.literal("}}");
  if (!is_plausible_name(node.name) || ends_in_send_suffix(node.name)) return std::nullopt;
  cursor.skip_blanks();
  if (cursor.literal("(defined at")) {
    cursor.until(")");
    cursor.literal(")");
    cursor.skip_blanks();
  }
  if (cursor.literal("= ")) {
    node.op_type = cursor.until("[(] ");
    if (is_messenger(node.op_type)) return std::nullopt;
  }
  const size_t stop = document.find("]]", cursor.at(), document.record_end(cursor.at()));
  const size_t limit = std::min(stop == npos ? document.record_end(cursor.at()) : stop, at + 4000);
  const size_t device = document.find("_device=\"", cursor.at(), limit);
  if (device != npos) {
    Cursor value(document, document.match("_device=\"", device));
    node.device = value.until("\"");
  }
  for (std::string_view key : {"dtype=dt_", "t=dt_"}) {
    const size_t type = document.find(key, cursor.at(), limit);
    if (type == npos) continue;
    Cursor value(document, document.find("dt_", type));
    node.dtype = lower_type(value.until(",] "));
    break;
  }
  node.end = limit;
  return node;
}

std::optional<TfNode> next_tf_node(const Document& document, size_t from) {
  constexpr int kLines = 4;
  const size_t first = document.line_index(from);
  const size_t last = std::min(first + kLines, document.line_count() - 1);
  const size_t stop = document.start(last) + document.line(last).size();
  for (size_t at = document.find("[[", from, stop); at != npos;
       at = document.find("[[", at + 2, stop)) {
    std::optional<TfNode> node = read_tf_node(document, at);
    if (node) return node;
  }
  return std::nullopt;
}

std::string named_tf_node(const Document& document, size_t near) {
  constexpr size_t kReach = 60000;
  for (std::string_view phrase : {"detected at node ", "node: '", "caused by op "}) {
    size_t at = document.find_back(phrase, near, kReach);
    if (at == npos) at = document.find(phrase, near, near + kReach);
    if (at == npos) continue;
    if (at > 1 && document.text()[at - 1] == '[') continue;  // "[[Node: …" is read elsewhere
    Cursor cursor(document, document.match(phrase, at));
    if (!cursor.literal("u'")) cursor.literal("'");
    std::string name = cursor.until("' ,\"");
    if (is_plausible_name(name)) return name;
  }
  return "";
}

std::string kernel_file_before(const Document& document, size_t at) {
  constexpr std::string_view kPhrase = "op_requires failed at ";
  const size_t found = document.find_back(kPhrase, at, 400);
  if (found == npos || document.record_end(found) < at) return "";
  Cursor cursor(document, document.match(kPhrase, found));
  return cursor.until(" ");
}

std::string eager_tf_op(const Document& document, size_t from) {
  const size_t at = document.find("[op:", from, document.record_end(from));
  if (at != npos) {
    Cursor cursor(document, document.match("[op:", at));
    std::string name = cursor.until("] ,");
    if (!name.empty() && name.substr(0, 2) != "__") return name;
    return "";
  }
  constexpr std::string_view kWrapped = "{{function_node __wrapped__";
  const size_t begin = document.record_start(from);
  const size_t wrapped = document.find(kWrapped, begin, from);
  if (wrapped == npos) return "";
  Cursor cursor(document, document.match(kWrapped, wrapped));
  std::string name = cursor.until("} ");
  const size_t device = name.find("_device_");
  return device == npos ? "" : name.substr(0, device);
}

}  // namespace plimsoll::explain
