#pragma once

// Whether a program went on after a refusal, whatever its display of progress looks like.
//
// Programs print lines of one form again and again while they work: words that stay, a figure that
// advances in every line (a step, a count of samples, an epoch's fraction) and a figure that moves
// (a loss, a score). Several such lines after a refusal show that it was survived. No vocabulary
// is needed for that; detect_context.cpp knows the usual words besides.
//
// What a dying program prints has no such lines: sizes, times, addresses, process ids and source
// lines are no figures here, and lines about waiting, retrying or cleaning up are not looked at,
// nor lists of devices, ranks and processes.
// Only the lines closely after a refusal are read, so a long log costs nothing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

struct FurtherProgress {
  int64_t after = 0;  // line of the last refusal before it
  int64_t line = 0;   // where enough lines had been seen
  std::string text;
  bool operator==(const FurtherProgress&) const = default;
};

// A figure of a line. Sizes, times of day and addresses are none.
struct Figure {
  double value = 0;
  bool has_point = false;
  bool is_duration = false;  // "0.31s", "81ms/step", "3.2it/s"
  bool is_index = false;     // "GPU 3", "rank: 3", "layer.3.weight": which of several things
  bool operator==(const Figure&) const = default;
};

// The words of a clean line without its figures, bars and marks, and the figures.
struct LineForm {
  std::string words;
  std::vector<Figure> figures;
};
LineForm form_of(std::string_view line);

class FurtherProgressReader {
 public:
  // A line that speaks of a refusal: what was seen before it counts no more.
  void refuse(int64_t line);
  // Whether lines are worth reading now.
  bool waits() const { return lines_left_ > 0; }
  // A line after it as printed, without carriage returns.
  void read(int64_t line, std::string_view text);

  // In the order of the log.
  std::vector<FurtherProgress> found() const;

 private:
  // Lines of one form in a row, others between them.
  struct Run {
    LineForm last;
    std::vector<bool> rises;  // by figure: in every line so far
    std::vector<bool> moves;  // in some line
    int lines = 0;
  };

  static void extend(Run& run, LineForm form);
  static bool advances(const Run& run);

  int64_t after_ = 0;
  int lines_left_ = 0;
  std::vector<Run> runs_;  // last used last
  std::vector<FurtherProgress> found_;
  size_t oldest_ = 0;  // of the second half
};

}  // namespace plimsoll::explain
