// Sums of blocks of 32 rows and a panel of 32 columns in the processor's tiles: 16 rows and 16
// columns of one, 32 steps at a time. Part of the loops of tiled products and kernel gradients,
// after paired_sums_inl.h and transpose_inl.h.
//
//   tiles 0 to 3   the sums: rows 0 to 15 with both halves of the columns, then rows 16 to 31
//   tiles 4, 5     the rows of one factor, 32 steps side by side
//   tiles 6, 7     the panel of the other, 16 pairs of steps

constexpr int64_t kHalfRows = kBlockRows / 2;
constexpr int64_t kBlockPairs = kBlockSteps / 2;

// All tiles of this thread in full size, until it goes.
class TilesInUse {
 public:
  TilesInUse() {
    struct alignas(64) Config {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = kBlockRowBytes;
      config.rows[i] = kHalfRows;
    }
    __asm__ volatile("" ::"r"(&config) : "memory");  // which the intrinsic does not say it reads
    _tile_loadconfig(&config);
  }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
  ~TilesInUse() { _tile_release(); }
};

// The compiler does not know that tiles read memory: what it wrote before is there from here on.
inline void finish_writes() { __asm__ volatile("" ::: "memory"); }

template <int kHalves>
inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kHalves == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

// Adds `blocks` blocks: of rows `row` bytes apart, whose next block is `step` bytes on, and of a
// panel.
template <int kHalves>
inline void add_blocks(const std::byte* x, int64_t row, int64_t step, const std::byte* panel,
                       int64_t blocks) {
  for (int64_t k = 0; k < blocks; ++k) {
    _tile_loadd(6, panel, kPanelStep);
    _tile_loadd(7, panel + 64, kPanelStep);
    _tile_loadd(4, x, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kHalves == 2) {
      _tile_loadd(5, x + kHalfRows * row, row);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    x += step;
    panel += kBlockPanelBytes;
  }
}

// A block of rows whose numbers lie side by side in memory: next() says where those of the next of
// 32 steps are, nullptr: zeros. Rows after the last are zeros.
template <typename Next>
inline void transpose_block(const Next& next, int64_t rows, std::byte* to) {
  alignas(64) std::byte pairs[kBlockPanelBytes];
  for (int64_t pair = 0; pair < kBlockPairs; ++pair) {
    const uint16_t* even = next();
    const uint16_t* odd = next();
    interleave_steps(even, odd, rows, pairs + pair * kPanelStep);
  }
  for (int64_t half = 0; half < 2; ++half) {
    transpose_tile(reinterpret_cast<const float*>(pairs) + half * kLanes, kWide, kLanes,
                   reinterpret_cast<float*>(to + half * kHalfRows * kBlockRowBytes),
                   kBlockRowBytes / 4);
  }
}

// The sums, rows of a panel's columns.
template <int kHalves>
inline void take_sums(float* sums) {
  constexpr int64_t kRow = kPairedColumns * 4;
  _tile_stored(0, sums, kRow);
  _tile_stored(1, sums + kLanes, kRow);
  if constexpr (kHalves == 2) {
    _tile_stored(2, sums + kHalfRows * kPairedColumns, kRow);
    _tile_stored(3, sums + kHalfRows * kPairedColumns + kLanes, kRow);
  }
}
