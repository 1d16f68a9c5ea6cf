#pragma once

// What a field of a table says: a number as people write it, or that there is none. Internal to
// data.
//
// Programs write 1234.5; people and spreadsheets also 1.234,5 and 1,234.5 and 12 %. Which of these
// a column is in is decided for the column as a whole (csv_schema.h): "1,234" alone does not tell.

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::data {

// How the numbers of a column are written. A percent sign is left out: "12 %" is 12.
enum class NumberStyle : uint8_t {
  kPlain,
  kDecimalComma,  // 1.234,5: dots between groups of three
  kThousands,     // 1,234.5
  kPercent,       // each of them with a percent sign after it
  kDecimalCommaPercent,
  kThousandsPercent,
};
inline constexpr int kNumberStyles = 6;

// "decimal commas", "commas between thousands", "percent signs", …
std::string to_string(NumberStyle style);

// The whole of `text` as a finite number of that style.
bool parse_number(std::string_view text, NumberStyle style, double& value);

// Styles as bits.
using StyleSet = uint8_t;
inline StyleSet style_bit(NumberStyle style) {
  return static_cast<StyleSet>(1u << static_cast<unsigned>(style));
}
// The styles that a table of this delimiter may be in: commas that part fields are no decimal ones.
StyleSet styles_of(char delimiter);
// Those of `among` that read `text` as a number.
StyleSet styles_that_read(std::string_view text, StyleSet among);
// Which of them a column is in: the first that it has. `among` is not empty.
NumberStyle first_style(StyleSet among);

// Whether a number of a style with groups shows that its dots or commas part groups ("1.234.567",
// "1.234,5"), and whether it may as well be a plain one ("1.234").
bool shows_groups(std::string_view text, NumberStyle style);
bool may_be_plain(std::string_view text, NumberStyle style);

// `inf` or `infinity`, with a sign or without: among numbers one of them, and no category.
bool is_infinite(std::string_view field);

// Whether a field stands for a value that is not there, whatever its column holds: an empty one,
// `?`, NA, N/A, NaN, null, None.
bool is_missing(std::string_view field);
// Whether it does among numbers, being a word among words: `-`, `--`, `.`, n/a, #N/A, nil, …. The
// place in the list of them, from 0; -1 for anything else.
int missing_among_numbers(std::string_view field);
inline constexpr int kMissingWords = 24;
std::string_view missing_word(int place);

}  // namespace plimsoll::data
