// Images whose contrast is equalized tile by tile, as Keras's
// ContrastLimitedAdaptiveHistogramEqualization does it.

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/reference/image/image_changes.h"
#include "backend/reference/image_loops.h"

namespace plimsoll::backend::reference {
namespace {

constexpr int64_t kLevels = 256;

// The new level of each level, of one tile and channel.
using Table = std::array<double, kLevels>;

struct Tiling {
  int64_t rows = 1;  // of tiles
  int64_t columns = 1;
  double clip_limit = 0;
  double low = 0;
  double high = 255;

  explicit Tiling(const NodeProblem& problem)
      : clip_limit(problem.attributes.get_double("clip_limit")),
        low(problem.attributes.get_double("value_low")),
        high(problem.attributes.get_double("value_high")) {
    const std::vector<int64_t> tiles = problem.attributes.get_ints("tiles");
    rows = tiles[0];
    columns = tiles[1];
  }

  bool is_whole() const { return low == 0 && high == kLevels - 1; }
  // A NaN is the lowest level.
  template <typename T>
  int64_t level(T x) const {
    const auto top = static_cast<T>(kLevels - 1);
    const auto first = static_cast<T>(low);
    const T at = is_whole() ? x : (x - first) / (static_cast<T>(high) - first) * top;
    return at > T(0) ? static_cast<int64_t>(std::min(at, top)) : 0;
  }
  double value(double level) const {
    return is_whole() ? level : level / (kLevels - 1) * (high - low) + low;
  }
};

// Beyond the last row the image goes on as in a mirror after it.
int64_t mirrored(int64_t at, int64_t size) { return at < size ? at : 2 * size - 1 - at; }

// What a level's share of a tile is at most is spread over all levels; then each level's new one is
// how many pixels are not above it.
void equalize(double clip_limit, double pixels, Table& table) {
  if (clip_limit > 0) {
    const auto limit = static_cast<double>(static_cast<float>(clip_limit * pixels / kLevels));
    double excess = 0;
    for (double& count : table) {
      excess += std::max(count - limit, 0.0);
      count = std::min(count, limit);
    }
    for (double& count : table) count += excess / kLevels;
  }
  double sum = 0;
  for (double& count : table) count = sum += count;
  const double first = table.front();
  const double range = pixels == first ? 1 : pixels - first;
  for (double& level : table) {
    level = std::clamp((level - first) * (kLevels - 1) / range, 0.0, kLevels - 1.0);
  }
}

// One side of an image: its tiles, and the stretches between their middles, in which the same two
// tiles have a say. Stretch s lies between tiles s − 1 and s.
struct Side {
  int64_t size;
  int64_t tiles;
  int64_t length;  // of a tile

  Side(int64_t size, int64_t tiles)
      : size(size), tiles(tiles), length((size + tiles - 1) / tiles) {}

  int64_t begin(int64_t stretch) const {
    return stretch == 0 ? 0 : std::min((length * (2 * stretch - 1) + 1) / 2, size);
  }
  int64_t end(int64_t stretch) const { return stretch == tiles ? size : begin(stretch + 1); }
  int64_t tile(int64_t place) const { return std::clamp<int64_t>(place - 1, 0, tiles - 1); }
  // The second tile's say.
  float share(int64_t at, int64_t stretch) const {
    const auto extent = static_cast<float>(length);
    return (static_cast<float>(at) - extent / 2) / extent + 1 - static_cast<float>(stretch);
  }
};

// A channel of a sample.
template <typename T>
class Channel {
 public:
  Channel(const Tiling& tiling, const KernelCall& call, int64_t sample, int64_t channel)
      : tiling_(tiling),
        x_(call.inputs[0]),
        y_(call.outputs[0]),
        sample_(sample),
        channel_(channel),
        rows_(x_.dims[1], tiling.rows),
        columns_(x_.dims[2], tiling.columns) {}

  void run() {
    for (int64_t down = 0; down <= rows_.tiles; ++down) {
      for (int64_t across = 0; across <= columns_.tiles; ++across) fill(down, across);
    }
  }

 private:
  int64_t level_at(int64_t row, int64_t column) const {
    return tiling_.level(pixel<const T>(x_, sample_, row, column)[channel_]);
  }

  void fill_table(int64_t down, int64_t across, Table& table) const {
    table.fill(0);
    for (int64_t i = down * rows_.length; i < (down + 1) * rows_.length; ++i) {
      for (int64_t j = across * columns_.length; j < (across + 1) * columns_.length; ++j) {
        ++table[static_cast<size_t>(level_at(mirrored(i, rows_.size), mirrored(j, columns_.size)))];
      }
    }
    equalize(tiling_.clip_limit, static_cast<double>(rows_.length * columns_.length), table);
  }

  // The pixels in which four tiles have a say.
  void fill(int64_t down, int64_t across) {
    const int64_t bottom = rows_.end(down);
    const int64_t right = columns_.end(across);
    if (rows_.begin(down) >= bottom || columns_.begin(across) >= right) return;
    for (size_t k = 0; k < tables_.size(); ++k) {
      fill_table(rows_.tile(down + static_cast<int64_t>(k / 2)),
                 columns_.tile(across + static_cast<int64_t>(k % 2)), tables_[k]);
    }
    for (int64_t i = rows_.begin(down); i < bottom; ++i) {
      const auto lower = static_cast<double>(rows_.share(i, down));
      for (int64_t j = columns_.begin(across); j < right; ++j) {
        const auto later = static_cast<double>(columns_.share(j, across));
        const auto at = static_cast<size_t>(level_at(i, j));
        const double above = tables_[0][at] * (1 - later) + tables_[1][at] * later;
        const double below = tables_[2][at] * (1 - later) + tables_[3][at] * later;
        pixel<T>(y_, sample_, i, j)[channel_] =
            static_cast<T>(tiling_.value(above * (1 - lower) + below * lower));
      }
    }
  }

  const Tiling& tiling_;
  const Operand& x_;
  const Operand& y_;
  int64_t sample_;
  int64_t channel_;
  Side rows_;
  Side columns_;
  std::array<Table, 4> tables_;  // above left, above right, below left, below right
};

}  // namespace

ImageLoop make_equalized_tiles(const NodeProblem& problem) {
  const Tiling tiling(problem);
  return image_loop_of(problem, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [=](const KernelCall& call, int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t k = 0; k < call.outputs[0].dims[3]; ++k) {
          Channel<T>(tiling, call, n, k).run();
        }
      }
    };
    return ImageLoop{run, 1};
  });
}

}  // namespace plimsoll::backend::reference
