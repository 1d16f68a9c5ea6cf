#include "report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "base/format.h"
#include "report/html.h"

namespace plimsoll::report {
namespace {

constexpr double kExtent = 1000;  // of the drawing, both ways
constexpr int kRows = 4;
constexpr int kColumns = 4;

std::string number(double value) { return fmt::format("{:.1f}", value); }

std::string css_class(SeriesLook look) {
  switch (look) {
    case SeriesLook::kFirst:
      return "a";
    case SeriesLook::kSecond:
      return "b";
    case SeriesLook::kThird:
      return "c";
  }
  return "a";
}

// At most kMostPoints: of each column the lowest and the highest, in their order.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& all) {
  if (all.size() <= Chart::kMostPoints) return all;
  std::vector<std::pair<double, double>> result;
  const size_t columns = Chart::kMostPoints / 2;
  for (size_t column = 0; column < columns; ++column) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(all.size() * column / columns);
    const auto end = all.begin() + static_cast<ptrdiff_t>(all.size() * (column + 1) / columns);
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    auto [low, high] = std::minmax_element(begin, end, by_value);
    if (high < low) std::swap(low, high);
    result.push_back(*low);
    if (high != low) result.push_back(*high);
  }
  return result;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double most = 0;
    for (const Series& series : chart.series) {
      for (const auto& [time, value] : series.points) {
        if (std::isfinite(value)) most = std::max(most, value);
      }
    }
    for (const auto& [value, name] : chart.levels) {
      // A limit far above the curve would flatten it: it is drawn when it is near.
      if (value <= 3 * most) most = std::max(most, value);
    }
    top_ = round_up_axis(most > 0 ? most : 1, chart.step_base);
    end_ = chart.end > 0 ? chart.end : 1;
  }

  std::string print() const {
    return "<figure><figcaption>" + escape_html(chart_.title) + legend() +
           "</figcaption><div class=\"plot\"><div class=\"y\">" + value_labels() +
           "</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" "
           "aria-label=\"" +
           escape_html(chart_.title) + "\">" + grid() + marks() + curves() + levels() +
           "</svg><div class=\"x\">" + time_labels() + "</div></div></figure>\n";
  }

 private:
  double x(double time) const { return std::clamp(time / end_, 0.0, 1.0) * kExtent; }
  double y(double value) const { return (1 - std::clamp(value / top_, 0.0, 1.0)) * kExtent; }
  std::string place(double time, double value) const {
    return number(x(time)) + " " + number(y(value));
  }

  std::string legend() const {
    std::string html;
    const auto add = [&](const std::string& swatch, const std::string& name) {
      html += "<span class=\"key\"><i class=\"swatch-" + swatch + "\"></i>" + escape_html(name) +
              "</span>";
    };
    for (const Series& series : chart_.series) add(css_class(series.look), series.name);
    for (const auto& [value, name] : chart_.levels) {
      if (value <= top_) add("limit", name);
    }
    return html;
  }

  std::string value_labels() const {
    std::string html;
    for (int row = 0; row <= kRows; ++row) {
      const double part = static_cast<double>(row) / kRows;
      html += "<span style=\"bottom:" + number(100 * part) + "%\">" +
              escape_html(chart_.format_value(top_ * part)) + "</span>";
    }
    return html;
  }

  std::string time_labels() const {
    std::string html;
    for (int column = 0; column <= kColumns; ++column) {
      const double part = static_cast<double>(column) / kColumns;
      html += "<span style=\"left:" + number(100 * part) + "%\">" +
              escape_html(chart_.format_time(end_ * part)) + "</span>";
    }
    return html;
  }

  static std::string grid() {
    std::string svg;
    for (int row = 1; row < kRows; ++row) {
      const std::string at = number(kExtent * row / kRows);
      svg += "<line class=\"grid\" x1=\"0\" x2=\"1000\" y1=\"" + at + "\" y2=\"" + at + "\"/>";
    }
    return svg;
  }

  std::string marks() const {
    std::string svg;
    for (const ChartMark& mark : chart_.marks) {
      const std::string at = number(x(mark.at));
      svg += "<line class=\"mark\" y1=\"0\" y2=\"1000\" x1=\"" + at + "\" x2=\"" + at +
             "\"><title>" + escape_html(mark.text) + "</title></line>";
    }
    return svg;
  }

  std::string levels() const {
    std::string svg;
    for (const auto& [value, name] : chart_.levels) {
      if (value > top_) continue;
      const std::string at = number(y(value));
      svg += "<line class=\"limit\" x1=\"0\" x2=\"1000\" y1=\"" + at + "\" y2=\"" + at +
             "\"><title>" + escape_html(name) + "</title></line>";
    }
    return svg;
  }

  std::string curves() const {
    std::string svg;
    for (const Series& series : chart_.series) {
      const std::vector<std::pair<double, double>> points = thinned(series.points);
      if (series.look == SeriesLook::kFirst && points.size() > 1) svg += area(points);
      svg += "<path class=\"" + css_class(series.look) + "\" d=\"" + stroke(points) + "\"/>";
    }
    return svg;
  }

  std::string stroke(const std::vector<std::pair<double, double>>& points) const {
    std::string path;
    bool drawing = false;
    for (const auto& [time, value] : points) {
      if (!std::isfinite(value)) {
        drawing = false;
        continue;
      }
      path += (drawing ? "L" : "M") + place(time, value);
      drawing = true;
    }
    return path;
  }

  std::string area(const std::vector<std::pair<double, double>>& points) const {
    std::string path = "M" + place(points.front().first, 0);
    for (const auto& [time, value] : points) {
      path += "L" + place(time, std::isfinite(value) ? value : 0);
    }
    return "<path class=\"area\" d=\"" + path + "L" + place(points.back().first, 0) + "Z\"/>";
  }

  const Chart& chart_;
  double top_ = 1;
  double end_ = 1;
};

}  // namespace

double round_up_axis(double value, double step_base) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const double base = step_base == 2 ? 2 : 10;
  const double floor = std::pow(base, std::floor(std::log(value) / std::log(base)));
  const std::array<double, 4> twos{1, 1.25, 1.5, 2};
  const std::array<double, 4> tens{1, 2, 5, 10};
  for (const double factor : base == 2 ? twos : tens) {
    if (floor * factor >= value) return floor * factor;
  }
  return floor * base;
}

std::string to_html(const Chart& chart) { return Drawing(chart).print(); }

}  // namespace plimsoll::report
