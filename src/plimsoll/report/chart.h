#pragma once

// A chart of values over time as inline SVG with labels in HTML, so that lines stretch with the
// window and text keeps its size.
//
//   4 GiB ┊        ╭──╮   limit - - -
//   2 GiB ┊   ╭────╯  ╰──
//     0 B ┊───╯
//         └───────────────
//          0 s    30 s  60 s
//
// Values are not negative. A series may have gaps (a NaN ends a stroke). Where a series has more
// points than kMostPoints, each column shows its lowest and highest value, so no peak disappears.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::report {

enum class SeriesLook { kFirst, kSecond, kThird };  // the first is filled to the ground

struct Series {
  std::string name;
  SeriesLook look = SeriesLook::kFirst;
  std::vector<std::pair<double, double>> points;  // (time, value), in the order of time
};

struct ChartMark {
  double at = 0;
  std::string text;  // shown when pointed at
};

struct Chart {
  static constexpr size_t kMostPoints = 800;

  std::string title;
  std::vector<Series> series;
  std::vector<std::pair<double, std::string>> levels;  // horizontal: a limit, with its name
  std::vector<ChartMark> marks;                        // vertical
  double end = 1;                                      // of the axis of time, which begins at 0
  std::function<std::string(double)> format_value;
  std::function<std::string(double)> format_time;
  double step_base = 2;  // ticks at multiples of powers of 2 (bytes) or of 1, 2, 5 × powers of 10
};

// A round number, not below `value`, that ticks can divide: 2^k, 1.5 × 2^k or 1, 2, 5 × 10^k.
double round_up_axis(double value, double step_base);

std::string to_html(const Chart& chart);

}  // namespace plimsoll::report
