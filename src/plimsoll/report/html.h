#pragma once

// Pages of HTML that stand alone: no script, no network, light and dark, wide and narrow.
//
// A Page is put together from top to bottom and printed once. Every figure is a <data> element with
// the exact value and the key that it has in the JSON of the same thing (`data-key`), so that the
// two can be compared by a program. All text is escaped here; callers pass plain text.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::report {

// `<`, `>`, `&` and quotes as entities. The text must be free of control characters.
std::string escape_html(std::string_view text);

// A figure as people read it, with its exact value and its key in the JSON.
struct Figure {
  std::string key;    // "peak.held_bytes"
  std::string value;  // as the JSON prints it
  std::string text;   // "1.81 GiB"
};
std::string to_html(const Figure& figure);
Figure bytes_figure(std::string key, int64_t bytes);

enum class Tone { kNeutral, kGood, kBad };

class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  // The first thing that is seen: a word, a sentence, and what it is about.
  void headline(Tone tone, std::string_view word, std::string_view sentence,
                std::string_view subject);
  // A row of tiles: a name, a figure, a note below it.
  struct Tile {
    std::string name;
    std::string figure_html;
    std::string note;
  };
  void tiles(const std::vector<Tile>& tiles);
  void section(std::string_view title);
  void paragraph(std::string_view text);
  void list(const std::vector<std::string>& items);
  // Cells are HTML already (escape_html, to_html); columns from the second on are aligned right
  // when `numbers` says so.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows_html, bool numbers);
  void lines(const std::vector<std::string>& text);
  // As it is, for charts (chart.h).
  void html(std::string_view html) { body_ += html; }
  // The record itself, for programs that have the page only.
  void embed_json(std::string_view json);

  std::string print() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace plimsoll::report
