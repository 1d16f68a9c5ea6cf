#include "watch/tell/explanation_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/format.h"
#include "report/html.h"
#include "watch/output.h"

namespace plimsoll::watch {
namespace {

using explain::Explanation;
using report::escape_html;
using report::Figure;
using report::Page;
using report::Tone;

std::string plain(std::string_view label) {
  std::string text(label);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

void add_tile(const char* name, const char* key, const std::optional<int64_t>& bytes,
              const std::string& note, std::vector<Page::Tile>& tiles) {
  if (bytes) tiles.push_back({name, to_html(report::bytes_figure(key, *bytes)), note});
}

std::vector<Page::Tile> tiles_of(const Explanation& explanation) {
  std::vector<Page::Tile> tiles;
  const explain::Amounts& amounts = explanation.amounts;
  add_tile("Asked", "bytes", explanation.bytes,
           is_printed_otherwise(explanation) ? "printed as " + explanation.bytes_text : "", tiles);
  add_tile("In use", "amounts.in_use", amounts.in_use, "", tiles);
  add_tile("Held", "amounts.held", amounts.held, "by the process", tiles);
  add_tile("Free", "amounts.free", amounts.free, "", tiles);
  add_tile("Limit", "amounts.limit", amounts.limit, "", tiles);
  add_tile("Capacity", "amounts.capacity", amounts.capacity, "", tiles);
  add_tile("Others", "amounts.others", amounts.others, "on the same device", tiles);
  add_tile("Free in the pool", "amounts.pool_free", amounts.pool_free, "", tiles);
  add_tile("Largest free piece", "amounts.largest_free", amounts.largest_free, "", tiles);
  add_tile("Program needs", "amounts.program", amounts.program, "", tiles);
  if (amounts.fragmentation) {
    const std::string percent = fmt::format("{} %", std::lround(*amounts.fragmentation * 100));
    const Figure figure{"amounts.fragmentation", nlohmann::json(*amounts.fragmentation).dump(),
                        percent};
    tiles.push_back({"Fragmentation", to_html(figure), ""});
  }
  return tiles;
}

void add_who(const Explanation& explanation, Page& page) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) rows.push_back({name, escape_html(text)});
  };
  add("operator", explanation.op);
  add("kernel", explanation.kernel_file);
  if (explanation.tensor_shape) {
    add("tensor", nlohmann::json(*explanation.tensor_shape).dump() + " " + explanation.dtype);
  }
  for (const explain::LayerMatch& match : explanation.layers) add("layer", match.layer);
  add("device", explanation.device);
  add("allocator", explanation.allocator);
  add("when", explanation.when_text);
  if (explanation.verdict != explain::Verdict::kNoFailure)
    add("cause", explain::cause_words(explanation));
  if (rows.empty()) return;
  page.section("Who and when");
  page.table({"", ""}, rows, false);
}

void add_list(const char* title, const std::vector<std::string>& items, Page& page) {
  if (items.empty()) return;
  page.section(title);
  page.list(items);
}

void add_advice(const Explanation& explanation, Page& page) {
  if (!explanation.advice.empty()) {
    page.section("What to do");
    int number = 0;
    for (const explain::Advice& advice : explanation.advice) {
      page.paragraph(fmt::format("{}. {}{}", ++number, advice.action,
                                 advice.arithmetic.empty() ? "" : " (" + advice.arithmetic + ")"));
      if (!advice.code.empty()) page.lines({advice.code});
    }
  }
  std::vector<std::string> not_worth;
  for (const explain::NotWorth& entry : explanation.not_worth) {
    not_worth.push_back(entry.action + ": " + entry.reason);
  }
  add_list("Not worth doing", not_worth, page);
  add_list("Corrected", explanation.corrections, page);
  add_list("What the log does not say", explanation.collect, page);
}

}  // namespace

std::string to_html(const Explanation& explanation, std::string_view name) {
  const std::string log = clean_line(name, 4096);
  Page page("plimsoll explain: " + log);
  const bool failed = explanation.verdict == explain::Verdict::kFailure;
  const std::string resource = plain(to_string(explanation.resource));
  const std::string word =
      failed && !resource.empty() ? resource : plain(to_string(explanation.verdict));
  const Tone tone = failed                                                ? Tone::kBad
                    : explanation.verdict == explain::Verdict::kNoFailure ? Tone::kGood
                                                                          : Tone::kNeutral;
  const std::string sentence = !explanation.cause.empty() ? explanation.cause
                               : failed
                                   ? "The log does not say why."
                                   : "No known form of a memory failure, kill or exhausted limit.";
  page.headline(tone, word, sentence, log);
  page.tiles(tiles_of(explanation));
  add_who(explanation, page);
  if (!explanation.evidence.empty()) {
    page.section("Evidence");
    std::vector<std::string> lines;
    for (const explain::Evidence& evidence : explanation.evidence) {
      lines.push_back((evidence.line > 0 ? fmt::format("line {}: ", evidence.line) : "") +
                      evidence.text);
    }
    page.lines(lines);
  }
  add_list("The usual reasons", explanation.usual_reasons, page);
  add_advice(explanation, page);
  if (!explanation.plimsoll_command.empty()) {
    page.section("With Plimsoll");
    page.lines({explanation.plimsoll_command});
  }
  page.embed_json(explain::to_json(explanation, name));
  return page.print();
}

}  // namespace plimsoll::watch
