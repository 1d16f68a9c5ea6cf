#include "report/memory_picture.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

#include "base/format.h"

namespace plimsoll::report {
namespace {

struct Colour {
  uint8_t red, green, blue;
};
struct Kind {
  std::string_view name;
  Colour colour;
};
// Told apart by people who see colours alike, too (Okabe and Ito, 2008).
constexpr std::array<Kind, 7> kKinds = {{{"activations", {0, 114, 178}},
                                         {"gradients", {230, 159, 0}},
                                         {"weights", {0, 158, 115}},
                                         {"optimizer", {204, 121, 167}},
                                         {"scratch", {86, 180, 233}},
                                         {"input", {213, 94, 0}},
                                         {"", {120, 120, 120}}}};
constexpr Colour kInk = {20, 20, 20};

// Five rows of three pixels, from the top; the leftmost of a row is its highest bit.
struct Glyph {
  char letter;
  std::array<uint8_t, 5> rows;
};
constexpr std::array<Glyph, 40> kGlyphs = {{
    {'A', {2, 5, 7, 5, 5}}, {'B', {6, 5, 6, 5, 6}}, {'C', {3, 4, 4, 4, 3}}, {'D', {6, 5, 5, 5, 6}},
    {'E', {7, 4, 6, 4, 7}}, {'F', {7, 4, 6, 4, 4}}, {'G', {3, 4, 5, 5, 3}}, {'H', {5, 5, 7, 5, 5}},
    {'I', {7, 2, 2, 2, 7}}, {'J', {1, 1, 1, 5, 2}}, {'K', {5, 5, 6, 5, 5}}, {'L', {4, 4, 4, 4, 7}},
    {'M', {5, 7, 7, 5, 5}}, {'N', {6, 5, 5, 5, 5}}, {'O', {2, 5, 5, 5, 2}}, {'P', {6, 5, 6, 4, 4}},
    {'Q', {2, 5, 5, 7, 3}}, {'R', {6, 5, 6, 5, 5}}, {'S', {3, 4, 2, 1, 6}}, {'T', {7, 2, 2, 2, 2}},
    {'U', {5, 5, 5, 5, 7}}, {'V', {5, 5, 5, 5, 2}}, {'W', {5, 5, 7, 7, 5}}, {'X', {5, 5, 2, 5, 5}},
    {'Y', {5, 5, 2, 2, 2}}, {'Z', {7, 1, 2, 4, 7}}, {'0', {7, 5, 5, 5, 7}}, {'1', {2, 6, 2, 2, 7}},
    {'2', {6, 1, 2, 4, 7}}, {'3', {6, 1, 2, 1, 6}}, {'4', {5, 5, 7, 1, 1}}, {'5', {7, 4, 6, 1, 6}},
    {'6', {3, 4, 7, 5, 7}}, {'7', {7, 1, 2, 2, 2}}, {'8', {7, 5, 7, 5, 7}}, {'9', {7, 5, 7, 1, 6}},
    {'.', {0, 0, 0, 0, 2}}, {'_', {0, 0, 0, 0, 7}}, {'-', {0, 0, 7, 0, 0}}, {'/', {1, 1, 2, 4, 4}},
}};

constexpr int kScale = 2;
constexpr int kLetter = 4 * kScale;
constexpr int kLine = 9 * kScale;
constexpr int kMargin = 8;
constexpr int kNameLetters = 28;
constexpr int kBar = 420;
constexpr int kSizeLetters = 11;
constexpr int kWidth = 2 * kMargin + (kNameLetters + kSizeLetters + 2) * kLetter + kBar;

// Rows of the picture from `first` on. What is drawn above or below of them is left out.
class Canvas {
 public:
  Canvas(int first, std::span<uint8_t> pixels)
      : first_(first), rows_(static_cast<int>(pixels.size()) / (3 * kWidth)), pixels_(pixels) {}

  void fill(int left, int top, int width, int height, Colour colour) {
    const int begin = std::max(top - first_, 0);
    const int end = std::min(top + height - first_, rows_);
    for (int y = begin; y < end; ++y) {
      for (int x = left; x < std::min(left + width, kWidth); ++x) {
        uint8_t* pixel = pixels_.data() + 3 * (y * kWidth + x);
        pixel[0] = colour.red;
        pixel[1] = colour.green;
        pixel[2] = colour.blue;
      }
    }
  }

  void write(int left, int top, std::string_view text) {
    for (const char c : text) {
      const char letter = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      const auto glyph = std::ranges::find(kGlyphs, letter, &Glyph::letter);
      for (int y = 0; glyph != kGlyphs.end() && y < 5; ++y) {
        for (int x = 0; x < 3; ++x) {
          const bool set = ((glyph->rows[static_cast<size_t>(y)] >> (2 - x)) & 1) != 0;
          if (set) fill(left + x * kScale, top + y * kScale, kScale, kScale, kInk);
        }
      }
      left += kLetter;
    }
  }

 private:
  int first_;
  int rows_;
  std::span<uint8_t> pixels_;
};

Colour colour_of(std::string_view kind) {
  const auto found = std::ranges::find(kKinds, kind, &Kind::name);
  return found != kKinds.end() ? found->colour : kKinds.back().colour;
}

size_t order_of(std::string_view kind) {
  return static_cast<size_t>(std::ranges::find(kKinds, kind, &Kind::name) - kKinds.begin());
}

void add(MemoryRow& row, const std::string& kind, Bytes bytes) {
  row.total += bytes;
  const auto found = std::ranges::find(row.kinds, kind, &std::pair<std::string, Bytes>::first);
  if (found != row.kinds.end()) {
    found->second += bytes;
  } else {
    row.kinds.emplace_back(kind, bytes);
  }
}

void draw_row(Canvas& canvas, int top, const MemoryRow& row, Bytes largest) {
  canvas.write(kMargin, top + 2, std::string_view(row.layer).substr(0, kNameLetters));
  const int first = kMargin + (kNameLetters + 1) * kLetter;
  Bytes before;
  const auto place = [&](Bytes bytes) {
    return static_cast<int>(bytes.count() * kBar / std::max<int64_t>(largest.count(), 1));
  };
  for (const auto& [kind, bytes] : row.kinds) {
    const int begin = place(before);
    before += bytes;
    canvas.fill(first + begin, top, place(before) - begin, kLine - 4, colour_of(kind));
  }
  canvas.write(first + place(row.total) + kLetter, top + 2, to_string(row.total));
}

void draw_all(Canvas& canvas, const std::vector<MemoryRow>& rows) {
  Bytes largest;
  for (const MemoryRow& row : rows) largest = max(largest, row.total);
  int top = kMargin;
  for (const MemoryRow& row : rows) {
    draw_row(canvas, top, row, largest);
    top += kLine;
  }
  top += kLine;
  int left = kMargin;
  for (const Kind& kind : kKinds) {
    if (kind.name.empty()) continue;
    canvas.fill(left, top, kLetter, kLine - 6, kind.colour);
    canvas.write(left + 2 * kLetter, top + 1, kind.name);
    left += kLetter * (static_cast<int>(kind.name.size()) + 4);
  }
}

}  // namespace

std::vector<MemoryRow> memory_rows(const std::vector<plan::Culprit>& culprits) {
  std::map<std::string, MemoryRow> by_layer;
  for (const plan::Culprit& culprit : culprits) {
    MemoryRow& row = by_layer[culprit.layer];
    row.layer = culprit.layer.empty() ? "no layer" : culprit.layer;
    add(row, culprit.what, culprit.bytes);
  }
  std::vector<MemoryRow> rows;
  rows.reserve(by_layer.size());
  for (auto& [layer, row] : by_layer) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, std::greater(), &MemoryRow::total);
  if (rows.size() > kMostRows) {
    MemoryRow rest{fmt::format("{} more", rows.size() - kMostRows + 1), Bytes(), {}};
    for (size_t i = kMostRows - 1; i < rows.size(); ++i) {
      for (const auto& [kind, bytes] : rows[i].kinds) add(rest, kind, bytes);
    }
    rows.resize(kMostRows - 1);
    rows.push_back(std::move(rest));
  }
  for (MemoryRow& row : rows) {
    std::ranges::stable_sort(row.kinds, {}, [](const auto& kind) { return order_of(kind.first); });
  }
  return rows;
}

codec::DrawnPicture draw_memory(const std::vector<MemoryRow>& rows) {
  const int height = 2 * kMargin + kLine * (static_cast<int>(rows.size()) + 2);
  return {kWidth, height, kLine, [&rows](int top, std::span<uint8_t> pixels) {
            Canvas canvas(top, pixels);
            draw_all(canvas, rows);
          }};
}

std::string memory_table(const std::vector<MemoryRow>& rows) {
  std::string text = "| layer | bytes |";
  std::string line = "|---|---:|";
  for (const Kind& kind : kKinds) {
    if (kind.name.empty()) continue;
    text += " " + std::string(kind.name) + " |";
    line += "---:|";
  }
  text += "\n" + line + "\n";
  for (const MemoryRow& row : rows) {
    text += fmt::format("| {} | {} |", row.layer, to_string(row.total));
    for (const Kind& kind : kKinds) {
      if (kind.name.empty()) continue;
      const auto found =
          std::ranges::find(row.kinds, kind.name, &std::pair<std::string, Bytes>::first);
      text += " " + (found != row.kinds.end() ? to_string(found->second) : std::string()) + " |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace plimsoll::report
