// Tiles of a source as Winograd's products take them; part of headers of loops (winograd.h).

// So many tiles ahead, what they read is fetched: its rows lie too far apart for a processor to
// foresee.
constexpr int64_t kTilesAhead = 2;

// A tile of all images, and the one after it.
struct TilePlace {
  TilePlace(const WinogradImages& images, int64_t tile)
      : images(images),
        image(tile / images.tiles()),
        row(tile % images.tiles() / images.tile_columns()),
        column(tile % images.tile_columns()) {}
  void next() {
    if (++column < images.tile_columns()) return;
    column = 0;
    if (++row < images.tile_rows()) return;
    row = 0;
    ++image;
  }

  const WinogradImages& images;
  int64_t image, row, column;
};

// `rows` × 2 positions from `from` on. What is fetched may lie outside: that is no access.
inline void fetch_positions(const float* from, int rows, int64_t row, int64_t column,
                            int64_t count) {
  constexpr int64_t kLine = 16;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < 2; ++j) {
      const float* at = from + i * row + j * column;
      for (int64_t c = 0; c < count; c += kLine) __builtin_prefetch(at + c);
    }
  }
}

// Bᵀ d B of kLanes channels: number 4 i + j goes to `to` + (4 i + j) · plane.
inline void store_tile(const Floats (&d)[4][4], float* to, int64_t plane) {
  Floats s[4][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    s[0][j] = d[0][j] - d[2][j];
    s[1][j] = d[1][j] + d[2][j];
    s[2][j] = d[2][j] - d[1][j];
    s[3][j] = d[1][j] - d[3][j];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    store(to, s[i][0] - s[i][2]);
    store(to + plane, s[i][1] + s[i][2]);
    store(to + 2 * plane, s[i][2] - s[i][1]);
    store(to + 3 * plane, s[i][1] - s[i][3]);
    to += 4 * plane;
  }
}

// The tile whose first position is (row, column) of the image at `x`: `channels` of them from the
// first on, in whole vectors, with zeros after the last.
inline void transform_tile(const WinogradImages& g, const float* x, int64_t row, int64_t column,
                           int64_t channels, float* to, int64_t plane) {
  const int64_t x_row = g.source_columns * g.channels;
  const int64_t first = row * x_row + column * g.channels;  // not read where it is outside
  const bool inside =
      row >= 0 && column >= 0 && row + 4 <= g.source_rows && column + 4 <= g.source_columns;
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = channels - c < kLanes ? channels - c : kLanes;
    // Two arrays: one that loops fill is in memory, and this one is not.
    if (inside && lanes == kLanes) {
      Floats d[4][4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) d[i][j] = load(x + first + i * x_row + j * g.channels + c);
      }
      store_tile(d, to + c, plane);
      continue;
    }
    Floats d[4][4];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const bool there = row + i >= 0 && row + i < g.source_rows && column + j >= 0 &&
                           column + j < g.source_columns;
        d[i][j] = there ? load_first(x + first + i * x_row + j * g.channels + c, lanes) : Floats{};
      }
    }
    store_tile(d, to + c, plane);
  }
}

// `tiles` of them from `tile` on, channels [first, first + channels), to [product][tile][channel].
inline void transform_tiles(const WinogradImages& g, const float* x, int64_t tile, int64_t tiles,
                            int64_t first, int64_t channels, float* to, int64_t to_row,
                            int64_t plane) {
  const int64_t x_row = g.source_columns * g.channels;
  TilePlace at(g, tile);
  for (int64_t t = 0; t < tiles; ++t, at.next()) {
    const float* image = x + at.image * g.source_rows * x_row + first;
    const int64_t row = 2 * at.row - g.before_rows;
    const int64_t column = 2 * at.column - g.before_columns;
    // The two columns that a tile does not share with the one before.
    const int64_t ahead = column + 2 * kTilesAhead + 2;
    fetch_positions(image + row * x_row + ahead * g.channels, 4, x_row, g.channels, channels);
    transform_tile(g, image, row, column, channels, to + t * to_row, plane);
  }
}
