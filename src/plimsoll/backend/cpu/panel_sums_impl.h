// Sums of a tile: a few rows of one factor times a panel, two vectors wide, of the other. Part of
// the loops of packed products and of kernel gradients.

constexpr int64_t kWide = 2 * kLanes;  // columns of a panel
inline int64_t panel_columns() { return kWide; }

// Where a tile's sums go: a panel's columns, of which the last may have fewer.
struct PanelTarget {
  float* y;
  int64_t y_row;
  int64_t first, second;  // lanes of its two vectors
  bool add;
  const float* bias;
  bool relu;
  bool whole;  // all lanes of both
  bool plain;  // and neither bias nor relu
};

inline void store_sum(Floats sum, const PanelTarget& t, int64_t at, int64_t lanes, float* y) {
  const bool whole = lanes == kLanes;
  if (t.add) sum += whole ? load(y) : load_first(y, lanes);
  if (t.bias != nullptr) sum += whole ? load(t.bias + at) : load_first(t.bias + at, lanes);
  if (t.relu) sum = sum < 0.0f ? Floats{} : sum;
  if (whole) {
    store(y, sum);
  } else {
    store_first(y, sum, lanes);
  }
}

// Not part of the loops over steps, which would keep their sums in memory for it.
[[gnu::noinline]] inline void store_sums(const Floats (*sums)[2], int rows, const PanelTarget& t) {
  for (int r = 0; r < rows; ++r) {
    float* y = t.y + r * t.y_row;
    store_sum(sums[r][0], t, 0, t.first, y);
    if (t.second > 0) store_sum(sums[r][1], t, kLanes, t.second, y + kLanes);
  }
}

// Few rows are few chains, which wait for themselves: no tile of one or two rows where some more
// can be spared.
inline int64_t tile_rows(int64_t left) {
  return left <= 6 ? left : left <= 8 ? 4 : left == 9 ? 5 : 6;
}

// A tile's rows where the compiler knows them.
template <int kCount>
struct TileRows {
  static constexpr int kRows = kCount;
};

// body(first row, TileRows) for the tiles of so many rows.
template <typename Body>
inline void for_each_tile(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows;) {
    const int64_t now = tile_rows(rows - row);
    switch (now) {
      case 1:
        body(row, TileRows<1>());
        break;
      case 2:
        body(row, TileRows<2>());
        break;
      case 3:
        body(row, TileRows<3>());
        break;
      case 4:
        body(row, TileRows<4>());
        break;
      case 5:
        body(row, TileRows<5>());
        break;
      default:
        body(row, TileRows<6>());
        break;
    }
    row += now;
  }
}

// Lanes of a panel's two vectors where so many columns are left.
inline int64_t first_lanes_of(int64_t left) { return left < kLanes ? left : kLanes; }
inline int64_t second_lanes_of(int64_t left) {
  return left <= kLanes ? 0 : left < kWide ? left - kLanes : kLanes;
}

// Sums that are still in registers. Unrolled by word: rolled loops would put them into memory.
template <int kRows>
[[gnu::always_inline]] inline void finish_tile(const Floats (&sums)[kRows][2],
                                               const PanelTarget& t) {
  if (!t.whole) {
    Floats kept[kRows][2];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      kept[r][0] = sums[r][0];
      kept[r][1] = sums[r][1];
    }
    store_sums(kept, kRows, t);
    return;
  }
  float* y = t.y;
  if (t.plain && t.add) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r, y += t.y_row) {
      store(y, sums[r][0] + load(y));
      store(y + kLanes, sums[r][1] + load(y + kLanes));
    }
    return;
  }
  if (t.plain) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r, y += t.y_row) {
      store(y, sums[r][0]);
      store(y + kLanes, sums[r][1]);
    }
    return;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r, y += t.y_row) {
    store_sum(sums[r][0], t, 0, kLanes, y);
    store_sum(sums[r][1], t, kLanes, kLanes, y + kLanes);
  }
}
