#include "report/html.h"

#include "base/bytes.h"

namespace plimsoll::report {
namespace {

// Colours are variables, so that dark mode changes them in one place; text keeps its size when the
// window is narrow, and only tables scroll sideways.
constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;--tile:#f6f8fa;
--good:#1a7f37;--bad:#b3261e;--a:#0b62c4;--a-fill:#0b62c422;--b:#8a5a00;--c:#6f42c1;--limit:#b3261e}
@media(prefers-color-scheme:dark){:root{--page:#0d1117;--text:#e6edf3;--soft:#9aa4af;--line:#30363d;
--tile:#161b22;--good:#56d364;--bad:#ff8278;--a:#6cb0ff;--a-fill:#6cb0ff2b;--b:#e0a63c;--c:#c3a3ff;
--limit:#ff8278}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1rem;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.35rem;line-height:1.3;margin:.2rem 0 .6rem}
h2{font-size:1.05rem;margin:1.8rem 0 .5rem}
.word{font-weight:700;text-transform:uppercase;letter-spacing:.04em;font-size:.8rem}
.good{color:var(--good)}.bad{color:var(--bad)}.neutral{color:var(--soft)}
code,pre{font:.85rem/1.45 ui-monospace,monospace}
pre{background:var(--tile);border:1px solid var(--line);border-radius:6px;padding:.7rem;margin:0;
white-space:pre-wrap}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.6rem;margin:1rem 0}
.tile{background:var(--tile);border:1px solid var(--line);border-radius:6px;padding:.6rem .75rem}
.tile b{display:block;font-size:1.25rem;line-height:1.3}
.tile small,.soft{color:var(--soft)}
.scroll{overflow-x:auto;margin-bottom:1rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
table:not(.numbers) :is(th,td):not(:last-child){white-space:nowrap}
.numbers td+td,.numbers th+th{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
ul{padding-left:1.2rem;margin:.3rem 0}
figure{margin:1rem 0}
figcaption{font-size:.9rem;margin-bottom:.8rem}
.key{display:inline-block;margin-left:.9rem;white-space:nowrap;color:var(--soft)}
.key i{display:inline-block;width:1rem;height:.2rem;vertical-align:middle;margin-right:.35rem}
.plot{display:grid;grid-template-columns:4.6rem 1fr;grid-template-rows:14rem 1.6rem}
.plot svg{width:100%;height:100%;display:block;border-left:1px solid var(--line);
border-bottom:1px solid var(--line)}
.plot .y,.plot .x{position:relative;font-size:.78rem;color:var(--soft)}
.plot .x{grid-column:2}
.plot .y span{position:absolute;right:.4rem;transform:translateY(50%);white-space:nowrap}
.plot .x span{position:absolute;top:.2rem;transform:translateX(-50%);white-space:nowrap}
.plot .x span:first-child{transform:none}.plot .x span:last-child{transform:translateX(-100%)}
@media(max-width:36rem){.plot .x span:nth-child(even){display:none}}
svg path,svg line{vector-effect:non-scaling-stroke;fill:none;stroke-width:1.6}
svg .grid{stroke:var(--line);stroke-width:1}
svg .a{stroke:var(--a)}svg .area{stroke:none;fill:var(--a-fill)}
svg .b{stroke:var(--b)}svg .c{stroke:var(--c)}
svg .limit{stroke:var(--limit);stroke-dasharray:6 4}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
.swatch-a{background:var(--a)}.swatch-b{background:var(--b)}.swatch-c{background:var(--c)}
.swatch-limit{background:var(--limit)}
footer{margin:2rem 0 1rem;font-size:.85rem;color:var(--soft)}
)";

std::string_view name_of(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "good";
    case Tone::kBad:
      return "bad";
    case Tone::kNeutral:
      return "neutral";
  }
  return "neutral";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string to_html(const Figure& figure) {
  return "<data data-key=\"" + escape_html(figure.key) + "\" value=\"" + escape_html(figure.value) +
         "\">" + escape_html(figure.text) + "</data>";
}

Figure bytes_figure(std::string key, int64_t bytes) {
  return {std::move(key), std::to_string(bytes), to_string(Bytes(bytes))};
}

void Page::headline(Tone tone, std::string_view word, std::string_view sentence,
                    std::string_view subject) {
  body_ += "<header><div class=\"word " + std::string(name_of(tone)) + "\">" + escape_html(word) +
           "</div><h1>" + escape_html(sentence) + "</h1><code>" + escape_html(subject) +
           "</code></header>\n";
}

void Page::tiles(const std::vector<Tile>& tiles) {
  body_ += "<div class=\"tiles\">\n";
  for (const Tile& tile : tiles) {
    body_ += "<div class=\"tile\"><small>" + escape_html(tile.name) + "</small><b>" +
             tile.figure_html + "</b><small>" + escape_html(tile.note) + "</small></div>\n";
  }
  body_ += "</div>\n";
}

void Page::section(std::string_view title) { body_ += "<h2>" + escape_html(title) + "</h2>\n"; }

void Page::paragraph(std::string_view text) { body_ += "<p>" + escape_html(text) + "</p>\n"; }

void Page::list(const std::vector<std::string>& items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += "<li>" + escape_html(item) + "</li>\n";
  body_ += "</ul>\n";
}

void Page::table(const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows_html, bool numbers) {
  body_ += std::string("<div class=\"scroll\"><table") + (numbers ? " class=\"numbers\"" : "") +
           "><thead><tr>";
  for (const std::string& cell : header) body_ += "<th>" + escape_html(cell) + "</th>";
  body_ += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows_html) {
    body_ += "<tr>";
    for (const std::string& cell : row) body_ += "<td>" + cell + "</td>";
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Page::lines(const std::vector<std::string>& text) {
  body_ += "<pre>";
  for (const std::string& line : text) body_ += escape_html(line) + "\n";
  body_ += "</pre>\n";
}

void Page::embed_json(std::string_view json) {
  // "</script>" and "<!--" inside a string would end or change the element; as \u003c they do not.
  body_ += "<script type=\"application/json\" id=\"record\">\n";
  for (const char c : json) {
    if (c == '<') {
      body_ += "\\u003c";
    } else {
      body_ += c;
    }
  }
  body_ += "</script>\n";
}

std::string Page::print() const {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
         escape_html(title_) + "</title>\n<style>" + std::string(kStyle) +
         "</style>\n</head>\n<body>\n" + body_ + "</body>\n</html>\n";
}

}  // namespace plimsoll::report
