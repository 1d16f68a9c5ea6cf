// How rows come in tiles and columns in panels, two vectors wide. Part of the loops of products and
// of kernel gradients, after vectors_inl.h.

constexpr int64_t kWide = 2 * kLanes;  // columns of a panel

// Lanes of a panel's two vectors where so many columns are left.
inline int64_t first_lanes_of(int64_t left) { return left < kLanes ? left : kLanes; }
inline int64_t second_lanes_of(int64_t left) {
  return left <= kLanes ? 0 : left < kWide ? left - kLanes : kLanes;
}

// A tile's rows where the compiler knows them.
template <int kCount>
struct TileRows {
  static constexpr int kRows = kCount;
};

// body(TileRows) of `rows`, 1 to kMost.
template <int kMost, typename Body>
inline void with_rows(int64_t rows, const Body& body) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_rows<kMost - 1>(rows, body);
  }
  body(TileRows<kMost>());
}

// body(first row, TileRows) for tiles of at most kMost rows. Few rows are few chains, which wait
// for themselves: less than two tiles' rows are shared out evenly.
template <int kMost, typename Body>
inline void for_each_tile(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows;) {
    const int64_t left = rows - row;
    const int64_t now = left <= kMost ? left : left < 2 * kMost ? (left + 1) / 2 : kMost;
    with_rows<kMost>(now, [&](auto tile) { body(row, tile); });
    row += now;
  }
}
