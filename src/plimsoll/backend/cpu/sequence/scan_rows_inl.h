// Rows of states and gates that the loops of scan_inl.h have in common; included by it, after
// functions_inl.h.

inline size_t bytes_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }
inline Floats sigmoid_slope(Floats y) { return y * (1.0f - y); }
inline Floats tanh_slope(Floats y) { return 1.0f - y * y; }

// Scratch of the samples [begin, end): two rows of gates and one of units for each.
struct ScanScratch {
  float* gates;
  float* products;
  float* rows;
  ScanScratch(const Scan& s, int64_t begin, int64_t end) {
    gates = s.scratch + begin * scan_scratch(s.units, s.wide);
    products = gates + (end - begin) * s.wide;
    rows = products + (end - begin) * s.wide;
  }
};

// y (+)= x · kernel for rows of samples, dense.
inline void multiply_rows(const Scan& s, int64_t rows, const float* x, int64_t inner, float* y,
                          int64_t columns, bool add) {
  s.multiply({rows, inner, columns, x, inner, 1, s.kernel, s.kernel_row, y, columns, add});
}

inline void put_row(float* to, const float* from, int64_t count) {
  if (to != nullptr) std::memcpy(to, from, bytes_of(count));
}

// gates = z of the samples at a step.
inline void load_z(const Scan& s, int64_t begin, int64_t end, int64_t t, float* gates) {
  for (int64_t b = begin; b < end; ++b) {
    std::memcpy(gates + (b - begin) * s.wide, s.z.at(b, t), bytes_of(s.wide));
  }
}

inline void add_dy(const Scan& s, int64_t b, int64_t t) {
  const float* dy = s.dy.at(b, t);
  if (dy == nullptr) return;
  float* dh = s.h + b * s.units;
  for_each_vector(s.units, [&](auto lanes) { lanes.put(dh, lanes.get(dh) + lanes.get(dy)); });
}

// What of the earlier step's values is read at running step i: of the sequence, or of `before`.
inline const float* earlier(const Scan& s, const Steps& sequence, int64_t b, int64_t i,
                            int64_t first) {
  if (i > first) return sequence.at(b, s.step_at(i - 1));
  return s.before == nullptr ? nullptr : s.before + b * s.units;
}

inline void clear_row(float* row, int64_t count) { std::memset(row, 0, bytes_of(count)); }
