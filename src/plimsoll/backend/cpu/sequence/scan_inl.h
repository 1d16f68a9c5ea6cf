// Loops of scan.cpp; see for_each_isa.h and scan.h.

#include "backend/cpu/simd/functions_inl.h"

#include "backend/cpu/sequence/scan_rows_inl.h"

template <bool kCounts>
inline void lstm_row(int64_t units, float* gates, float* h, float* c) {
  for_each_vector(units, [&](auto lanes) {
    const Floats in = sigmoid_of(lanes.get(gates));
    const Floats forget = sigmoid_of(lanes.get(gates + units));
    const Floats candidate = tanh_of(lanes.get(gates + 2 * units));
    const Floats out = sigmoid_of(lanes.get(gates + 3 * units));
    lanes.put(gates, in);
    lanes.put(gates + units, forget);
    lanes.put(gates + 2 * units, candidate);
    lanes.put(gates + 3 * units, out);
    if (!kCounts) return;
    const Floats cell = forget * lanes.get(c) + in * candidate;
    lanes.put(c, cell);
    lanes.put(h, out * tanh_of(cell));
  });
}

void lstm_forward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const ScanScratch scratch(s, begin, end);
  for (int64_t i = first; i < last; ++i) {
    const int64_t t = s.step_at(i);
    load_z(s, begin, end, t, scratch.gates);
    multiply_rows(s, end - begin, s.h + begin * s.units, s.units, scratch.gates, s.wide, true);
    for (int64_t b = begin; b < end; ++b) {
      float* gates = scratch.gates + (b - begin) * s.wide;
      float* h = s.h + b * s.units;
      float* c = s.c + b * s.units;
      s.counts(b, t) ? lstm_row<true>(s.units, gates, h, c) : lstm_row<false>(s.units, gates, h, c);
      put_row(s.saved.at(b, t), gates, s.wide);
      put_row(s.cells.at(b, t), c, s.units);
      put_row(s.hidden.at(b, t), h, s.units);
    }
  }
}

// The gradient of the gates' sums, and of the cells before the step in the place of dc.
inline void lstm_grad_row(int64_t units, const float* saved, const float* cells,
                          const float* before, const float* dh, float* dc, float* gates) {
  for_each_vector(units, [&](auto lanes) {
    const Floats in = lanes.get(saved);
    const Floats forget = lanes.get(saved + units);
    const Floats candidate = lanes.get(saved + 2 * units);
    const Floats out = lanes.get(saved + 3 * units);
    const Floats squashed = tanh_of(lanes.get(cells));
    const Floats d = lanes.get(dh);
    const Floats cell = lanes.get(dc) + d * out * tanh_slope(squashed);
    const Floats old = before == nullptr ? Floats{} : lanes.get(before);
    lanes.put(gates, cell * candidate * sigmoid_slope(in));
    lanes.put(gates + units, cell * old * sigmoid_slope(forget));
    lanes.put(gates + 2 * units, cell * in * tanh_slope(candidate));
    lanes.put(gates + 3 * units, d * squashed * sigmoid_slope(out));
    lanes.put(dc, cell * forget);
  });
}

// One direction of a cell whose sums are those of its gates alone. `row` makes the gradient of the
// gates' sums of one row and step; the gradient of h before the step is their product.
template <typename Row>
void gates_backward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last,
                    const Row& row) {
  const ScanScratch scratch(s, begin, end);
  for (int64_t i = last; i-- > first;) {
    const int64_t t = s.step_at(i);
    for (int64_t b = begin; b < end; ++b) {
      float* gates = scratch.gates + (b - begin) * s.wide;
      float* dh = s.h + b * s.units;
      float* dh_before = scratch.rows + (b - begin) * s.units;
      add_dy(s, b, t);
      if (s.counts(b, t)) {
        clear_row(dh_before, s.units);
        row(b, i, dh, gates);
      } else {
        put_row(dh_before, dh, s.units);
        clear_row(gates, s.wide);
      }
      put_row(s.dz.at(b, t), gates, s.wide);
    }
    multiply_rows(s, end - begin, scratch.gates, s.wide, scratch.rows, s.units, true);
    std::memcpy(s.h + begin * s.units, scratch.rows, bytes_of((end - begin) * s.units));
  }
}

void lstm_backward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  gates_backward(s, begin, end, first, last,
                 [&](int64_t b, int64_t i, const float* dh, float* gates) {
                   const int64_t t = s.step_at(i);
                   lstm_grad_row(s.units, s.saved.at(b, t), s.cells.at(b, t),
                                 earlier(s, s.cells, b, i, first), dh, s.c + b * s.units, gates);
                 });
}

template <bool kCounts>
inline void gru_row(int64_t units, float* gates, const float* products, float* h) {
  for_each_vector(units, [&](auto lanes) {
    const Floats update = sigmoid_of(lanes.get(gates) + lanes.get(products));
    const Floats reset = sigmoid_of(lanes.get(gates + units) + lanes.get(products + units));
    const Floats inner = lanes.get(products + 2 * units);
    const Floats candidate = tanh_of(lanes.get(gates + 2 * units) + reset * inner);
    lanes.put(gates, update);
    lanes.put(gates + units, reset);
    lanes.put(gates + 2 * units, candidate);
    if (kCounts) lanes.put(h, update * lanes.get(h) + (1.0f - update) * candidate);
  });
}

void gru_forward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const ScanScratch scratch(s, begin, end);
  for (int64_t i = first; i < last; ++i) {
    const int64_t t = s.step_at(i);
    load_z(s, begin, end, t, scratch.gates);
    for (int64_t b = begin; b < end; ++b) {
      float* products = scratch.products + (b - begin) * s.wide;
      s.bias == nullptr ? clear_row(products, s.wide) : put_row(products, s.bias, s.wide);
    }
    multiply_rows(s, end - begin, s.h + begin * s.units, s.units, scratch.products, s.wide, true);
    for (int64_t b = begin; b < end; ++b) {
      float* gates = scratch.gates + (b - begin) * s.wide;
      const float* products = scratch.products + (b - begin) * s.wide;
      float* h = s.h + b * s.units;
      s.counts(b, t) ? gru_row<true>(s.units, gates, products, h)
                     : gru_row<false>(s.units, gates, products, h);
      if (float* saved = s.saved.at(b, t)) {
        put_row(saved, gates, s.wide);
        put_row(saved + s.wide, products + 2 * s.units, s.units);
      }
      put_row(s.hidden.at(b, t), h, s.units);
    }
  }
}

// The gradients of z and of the product with h, and of h before the step but for that product.
inline void gru_grad_row(int64_t units, const float* saved, const float* before, const float* dh,
                         float* dz, float* inner, float* dh_before) {
  for_each_vector(units, [&](auto lanes) {
    const Floats update = lanes.get(saved);
    const Floats reset = lanes.get(saved + units);
    const Floats candidate = lanes.get(saved + 2 * units);
    const Floats old = before == nullptr ? Floats{} : lanes.get(before);
    const Floats d = lanes.get(dh);
    const Floats d_update = d * (old - candidate) * sigmoid_slope(update);
    const Floats d_candidate = d * (1.0f - update) * tanh_slope(candidate);
    const Floats d_reset = d_candidate * lanes.get(saved + 3 * units) * sigmoid_slope(reset);
    lanes.put(dz, d_update);
    lanes.put(dz + units, d_reset);
    lanes.put(dz + 2 * units, d_candidate);
    lanes.put(inner, d_update);
    lanes.put(inner + units, d_reset);
    lanes.put(inner + 2 * units, d_candidate * reset);
    lanes.put(dh_before, d * update);
  });
}

void gru_backward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const ScanScratch scratch(s, begin, end);
  for (int64_t i = last; i-- > first;) {
    const int64_t t = s.step_at(i);
    for (int64_t b = begin; b < end; ++b) {
      float* dz = scratch.gates + (b - begin) * s.wide;
      float* inner = scratch.products + (b - begin) * s.wide;
      float* dh = s.h + b * s.units;
      float* dh_before = scratch.rows + (b - begin) * s.units;
      add_dy(s, b, t);
      if (s.counts(b, t)) {
        gru_grad_row(s.units, s.saved.at(b, t), earlier(s, s.hidden, b, i, first), dh, dz, inner,
                     dh_before);
      } else {
        put_row(dh_before, dh, s.units);
        clear_row(dz, s.wide);
        clear_row(inner, s.wide);
      }
      put_row(s.dz.at(b, t), dz, s.wide);
      put_row(s.inner.at(b, t), inner, s.wide);
    }
    multiply_rows(s, end - begin, scratch.products, s.wide, scratch.rows, s.units, true);
    std::memcpy(s.h + begin * s.units, scratch.rows, bytes_of((end - begin) * s.units));
  }
}

void simple_rnn_forward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const ScanScratch scratch(s, begin, end);
  for (int64_t i = first; i < last; ++i) {
    const int64_t t = s.step_at(i);
    load_z(s, begin, end, t, scratch.gates);
    multiply_rows(s, end - begin, s.h + begin * s.units, s.units, scratch.gates, s.wide, true);
    for (int64_t b = begin; b < end; ++b) {
      float* sums = scratch.gates + (b - begin) * s.wide;
      float* h = s.h + b * s.units;
      for_each_vector(s.units, [&](auto lanes) { lanes.put(sums, tanh_of(lanes.get(sums))); });
      if (s.counts(b, t)) put_row(h, sums, s.units);
      put_row(s.saved.at(b, t), sums, s.units);
      put_row(s.hidden.at(b, t), h, s.units);
    }
  }
}

void simple_rnn_backward(const Scan& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  gates_backward(s, begin, end, first, last, [&](int64_t b, int64_t i, const float* dh, float* dz) {
    const float* saved = s.saved.at(b, s.step_at(i));
    for_each_vector(
        s.units, [&](auto lanes) { lanes.put(dz, lanes.get(dh) * tanh_slope(lanes.get(saved))); });
  });
}
