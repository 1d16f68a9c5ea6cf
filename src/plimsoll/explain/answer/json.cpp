#include <nlohmann/json.hpp>

#include "explain/explanation.h"

namespace plimsoll::explain {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json amounts_json(const Amounts& amounts) {
  return {{"in_use", value_or_null(amounts.in_use)},
          {"held", value_or_null(amounts.held)},
          {"free", value_or_null(amounts.free)},
          {"limit", value_or_null(amounts.limit)},
          {"capacity", value_or_null(amounts.capacity)},
          {"others", value_or_null(amounts.others)},
          {"pool_free", value_or_null(amounts.pool_free)},
          {"largest_free", value_or_null(amounts.largest_free)},
          {"fragmentation", value_or_null(amounts.fragmentation)},
          {"program", value_or_null(amounts.program)}};
}

Json evidence_json(const Explanation& explanation) {
  Json list = Json::array();
  for (const Evidence& evidence : explanation.evidence) {
    list.push_back(
        {{"line", evidence.line > 0 ? Json(evidence.line) : Json()}, {"text", evidence.text}});
  }
  return list;
}

Json advice_json(const Explanation& explanation) {
  Json list = Json::array();
  for (const Advice& advice : explanation.advice) {
    list.push_back({{"action", advice.action},
                    {"arithmetic", text_or_null(advice.arithmetic)},
                    {"code", text_or_null(advice.code)},
                    {"saves_bytes", value_or_null(advice.saves_bytes)}});
  }
  return list;
}

Json not_worth_json(const Explanation& explanation) {
  Json list = Json::array();
  for (const NotWorth& entry : explanation.not_worth) {
    list.push_back({{"action", entry.action}, {"reason", entry.reason}});
  }
  return list;
}

Json layers_json(const Explanation& explanation) {
  Json list = Json::array();
  for (const LayerMatch& match : explanation.layers) {
    list.push_back({{"layer", match.layer},
                    {"is_weight", match.is_weight},
                    {"batch", value_or_null(match.batch)}});
  }
  return list;
}

}  // namespace

std::string to_json(const Explanation& explanation, std::string_view name) {
  const Explanation& e = explanation;
  Json json = {
      {"log", text_or_null(name)},
      {"verdict", to_string(e.verdict)},
      {"exit_code", exit_code(e)},
      {"framework", text_or_null(e.framework)},
      {"family", text_or_null(e.family)},
      {"resource", text_or_null(to_string(e.resource))},
      {"device", text_or_null(e.device)},
      {"allocator", text_or_null(e.allocator)},
      {"tensor_shape", value_or_null(e.tensor_shape)},
      {"dtype", text_or_null(e.dtype)},
      {"bytes", value_or_null(e.bytes)},
      {"bytes_exact", e.bytes ? Json(e.bytes_exact) : Json()},
      {"bytes_text", text_or_null(e.bytes_text)},
      {"tensor_bytes_from_shape", value_or_null(e.tensor_bytes_from_shape)},
      {"amounts", amounts_json(e.amounts)},
      {"op", text_or_null(e.op)},
      {"op_type", text_or_null(e.op_type)},
      {"kernel_file", text_or_null(e.kernel_file)},
      {"layers", layers_json(e)},
      {"batch", value_or_null(e.batch)},
      {"when", to_string(e.when)},
      {"when_text", text_or_null(e.when_text)},
      {"cause_label", to_string(e.cause_label)},
      {"cause_basis", text_or_null(e.cause_basis)},
      {"cause", text_or_null(e.cause)},
      {"confidence", e.confidence},
      {"usual_reasons", e.usual_reasons},
      {"evidence", evidence_json(e)},
      {"advice", advice_json(e)},
      {"not_worth", not_worth_json(e)},
      {"corrections", e.corrections},
      {"collect", e.collect},
      {"plimsoll_command", text_or_null(e.plimsoll_command)},
      {"lines_read", e.lines_read},
      {"bytes_read", e.bytes_read},
  };
  // The log's name is the only string that was not cleaned.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll::explain
