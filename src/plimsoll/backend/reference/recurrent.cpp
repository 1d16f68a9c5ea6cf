// lstm, gru, simple_rnn and their gradients; shift_time.
//
// A step's product with the recurrent kernel runs over rows of the batch four at a time and over
// the kernel's rows in order, so each sum has one order whatever the block: a row's bits do not
// depend on the other rows of a call. Gradients multiply by the transposed kernel, which scratch
// holds once a call. Sums are in the element type.

#include "ops/recurrent.h"

#include <algorithm>
#include <cstring>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/activation_functions.h"

namespace plimsoll::backend::reference {
namespace {

using ops::CellKind;
using ops::RecurrentLayout;

// y[j] += x · w[j] for each j: what gcc makes vectors of.
template <typename T>
PLIMSOLL_VECTOR_LOOP void add_row(T* __restrict y, T x, const T* __restrict w, int64_t count) {
  for (int64_t j = 0; j < count; ++j) y[j] += x * w[j];
}

template <typename T>
PLIMSOLL_VECTOR_LOOP void add_four_rows(T* __restrict y, int64_t stride, const T* x,
                                        int64_t x_stride, const T* __restrict w, int64_t count) {
  T* __restrict y1 = y + stride;
  T* __restrict y2 = y + 2 * stride;
  T* __restrict y3 = y + 3 * stride;
  const T x0 = x[0];
  const T x1 = x[x_stride];
  const T x2 = x[2 * x_stride];
  const T x3 = x[3 * x_stride];
  for (int64_t j = 0; j < count; ++j) {
    y[j] += x0 * w[j];
    y1[j] += x1 * w[j];
    y2[j] += x2 * w[j];
    y3[j] += x3 * w[j];
  }
}

// A matrix inside of scratch or of an operand: rows `stride` apart.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;
  T* operator[](int64_t row) const { return data + row * stride; }
};

// y[b] += x[b] · w for `rows` rows: y has `columns`, x has `inner`.
template <typename T>
void add_product(Rows<T> y, Rows<const T> x, Rows<const T> w, int64_t rows, int64_t inner,
                 int64_t columns) {
  int64_t b = 0;
  for (; b + 4 <= rows; b += 4) {
    for (int64_t k = 0; k < inner; ++k) {
      add_four_rows(y[b], y.stride, x[b] + k, x.stride, w[k], columns);
    }
  }
  for (; b < rows; ++b) {
    for (int64_t k = 0; k < inner; ++k) add_row(y[b], x[b][k], w[k], columns);
  }
}

template <typename T>
T* row_of(const Operand& operand, int64_t b, int64_t t) {
  return data_of<T>(operand) + b * operand.strides[0] + t * operand.strides[1];
}
template <typename T>
T* row_of(const Operand& operand, int64_t b) {
  return data_of<T>(operand) + b * operand.strides[0];
}

template <typename T>
void activate_row(const ops::Activation& activation, T* row, int64_t count) {
  if (activation.kind == ops::ActivationKind::kSigmoid) {
    for (int64_t i = 0; i < count; ++i) row[i] = ops::stable_sigmoid(row[i]);
  } else if (activation.kind == ops::ActivationKind::kTanh) {
    for (int64_t i = 0; i < count; ++i) row[i] = std::tanh(row[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) row[i] = ops::activate(activation, row[i]);
  }
}

// A gate as its gradient finds it: activated, or the sum that is activated.
template <typename T>
struct SavedGate {
  const ops::Activation& activation;
  bool is_output =
      slope_needs_output(activation) || activation.kind == ops::ActivationKind::kLinear;

  T value(T saved) const { return is_output ? saved : ops::activate(activation, saved); }
  T slope(T saved) const { return ops::activation_slope(activation, saved); }
};

// One call: operands by their roles, and the places of scratch.
template <typename T>
class Scan {
 public:
  Scan(const RecurrentLayout& layout, const KernelCall& call)
      : layout_(layout),
        call_(call),
        units_(layout.units),
        wide_(layout.gates * layout.units),
        z_(call.inputs[static_cast<size_t>(layout.z)]),
        rows_(z_.dims[0]),
        steps_(z_.dims[1]),
        inner_{layout.activation},
        gate_{layout.recurrent_activation} {}

 protected:
  const Operand& input(int role) const { return call_.inputs[static_cast<size_t>(role)]; }
  bool counts(int64_t b, int64_t t) const {
    if (layout_.mask < 0) return true;
    const Operand& mask = input(layout_.mask);
    return data_of<const uint8_t>(mask)[b * mask.strides[0] + t * mask.strides[1]] != 0;
  }
  Rows<const T> kernel() const {
    const Operand& w = input(layout_.kernel);
    return {data_of<const T>(w), w.strides[0]};
  }
  // Output `o`, or nullptr where nobody wants it.
  T* output_row(size_t o, int64_t b, int64_t t) const {
    return call_.outputs[o].data == nullptr ? nullptr : row_of<T>(call_.outputs[o], b, t);
  }
  void store_state(size_t o, Rows<T> state) const {
    if (call_.outputs[o].data == nullptr) return;
    for (int64_t b = 0; b < rows_; ++b) {
      std::copy_n(state[b], units_, row_of<T>(call_.outputs[o], b));
    }
  }
  // The step that runs `i`-th in the forward direction.
  int64_t step_at(int64_t i) const { return layout_.go_backwards ? steps_ - 1 - i : i; }
  void load_state(int role, Rows<T> state) const {
    for (int64_t b = 0; b < rows_; ++b) {
      if (role < 0) {
        std::fill_n(state[b], units_, T(0));
      } else {
        std::copy_n(row_of<const T>(input(role), b), units_, state[b]);
      }
    }
  }

  const RecurrentLayout& layout_;
  const KernelCall& call_;
  int64_t units_;
  int64_t wide_;
  const Operand& z_;
  int64_t rows_;
  int64_t steps_;
  SavedGate<T> inner_;  // activation
  SavedGate<T> gate_;   // recurrent_activation
};

// Scratch of the forward direction, in elements a row: sums (saved columns), products of gru
// (wide), states before and dropped out, cells.
int64_t forward_row(const RecurrentLayout& layout) { return (2 * layout.gates + 4) * layout.units; }

template <typename T>
class Forward final : Scan<T> {
  using Base = Scan<T>;
  using Base::call_;
  using Base::counts;
  using Base::gate_;
  using Base::inner_;
  using Base::input;
  using Base::kernel;
  using Base::layout_;
  using Base::output_row;
  using Base::rows_;
  using Base::steps_;
  using Base::units_;
  using Base::wide_;
  using Base::z_;

 public:
  Forward(const RecurrentLayout& layout, const KernelCall& call) : Base(layout, call) {
    T* scratch = reinterpret_cast<T*>(call.scratch);
    sums_ = {scratch, wide_};
    products_ = {scratch += rows_ * wide_, wide_};
    state_ = {scratch += rows_ * wide_, units_};
    dropped_ = {scratch += rows_ * units_, units_};
    cells_ = {scratch += rows_ * units_, units_};
    last_ = {scratch += rows_ * units_, units_};
  }

  void run() {
    this->load_state(layout_.h0, state_);
    if (layout_.kind == CellKind::kLstm) this->load_state(layout_.c0, cells_);
    for (int64_t i = 0; i < steps_; ++i) step(this->step_at(i));
    const size_t state = layout_.kind == CellKind::kLstm ? 3 : 2;
    this->store_state(state, state_);
    if (layout_.kind == CellKind::kLstm) this->store_state(4, cells_);
  }

 private:
  void step(int64_t t) {
    for (int64_t b = 0; b < rows_; ++b) std::copy_n(row_of<const T>(z_, b, t), wide_, sums_[b]);
    switch (layout_.kind) {
      case CellKind::kLstm:
        add_recurrent(sums_, 0, 4);
        for (int64_t b = 0; b < rows_; ++b) lstm_row(b, t);
        break;
      case CellKind::kGru:
        gru_products();
        for (int64_t b = 0; b < rows_; ++b) gru_gates(b);
        if (!layout_.reset_after) gru_reset();
        for (int64_t b = 0; b < rows_; ++b) gru_row(b, t);
        break;
      case CellKind::kSimpleRnn:
        add_recurrent(sums_, 0, 1);
        for (int64_t b = 0; b < rows_; ++b) rnn_row(b, t);
        break;
    }
  }

  // target[gates first … last) += state · kernel, dropped out gate by gate.
  void add_recurrent(Rows<T> target, int first, int last) {
    if (layout_.factors < 0) {
      const int64_t begin = first * units_;
      add_product<T>({target.data + begin, target.stride}, {state_.data, units_},
                     {kernel().data + begin, kernel().stride}, rows_, units_,
                     (last - first) * units_);
      return;
    }
    for (int g = first; g < last; ++g) {
      const int64_t begin = g * units_;
      drop_state(g);
      add_product<T>({target.data + begin, target.stride}, {dropped_.data, units_},
                     {kernel().data + begin, kernel().stride}, rows_, units_, units_);
    }
  }

  void drop_state(int gate) {
    for (int64_t b = 0; b < rows_; ++b) {
      const T* factors = row_of<const T>(input(layout_.factors), b) + gate * units_;
      for (int64_t u = 0; u < units_; ++u) dropped_[b][u] = state_[b][u] * factors[u];
    }
  }

  // Stores what the gradient needs of a gate and activates it.
  void finish_gate(T* gate, T* saved, const SavedGate<T>& kind) {
    if (saved != nullptr && !kind.is_output) std::copy_n(gate, units_, saved);
    activate_row(kind.activation, gate, units_);
    if (saved != nullptr && kind.is_output) std::copy_n(gate, units_, saved);
  }

  void store_hidden(int64_t b, int64_t t) {
    if (T* hidden = output_row(0, b, t)) std::copy_n(state_[b], units_, hidden);
  }

  void lstm_row(int64_t b, int64_t t) {
    T* const gates = sums_[b];
    T* const saved = output_row(2, b, t);
    for (int g = 0; g < 4; ++g) {
      T* const place = saved == nullptr ? nullptr : saved + g * units_;
      finish_gate(gates + g * units_, place, g == 2 ? inner_ : gate_);
    }
    if (counts(b, t)) {
      T* const cells = cells_[b];
      T* const out = last_[b];
      for (int64_t u = 0; u < units_; ++u) {
        cells[u] = gates[units_ + u] * cells[u] + gates[u] * gates[2 * units_ + u];
        out[u] = cells[u];
      }
      activate_row(inner_.activation, out, units_);
      for (int64_t u = 0; u < units_; ++u) state_[b][u] = gates[3 * units_ + u] * out[u];
    }
    if (T* cells = output_row(1, b, t)) std::copy_n(cells_[b], units_, cells);
    store_hidden(b, t);
  }

  // products = state · kernel (+ bias), all gates with reset_after, z and r without.
  void gru_products() {
    for (int64_t b = 0; b < rows_; ++b) {
      if (layout_.bias >= 0) {
        std::copy_n(data_of<const T>(input(layout_.bias)), wide_, products_[b]);
      } else {
        std::fill_n(products_[b], wide_, T(0));
      }
    }
    add_recurrent(products_, 0, layout_.reset_after ? 3 : 2);
  }

  void gru_gates(int64_t b) {
    T* const gates = sums_[b];
    for (int64_t u = 0; u < 2 * units_; ++u) gates[u] += products_[b][u];
    // The sums of z and r wait where the products were, for gradients that need them.
    std::copy_n(gates, 2 * units_, products_[b]);
    activate_row(gate_.activation, gates, 2 * units_);
  }

  // products' last block = (r · h) · kernel; last = r · h.
  void gru_reset() {
    for (int64_t b = 0; b < rows_; ++b) {
      const T* factors =
          layout_.factors < 0 ? nullptr : row_of<const T>(input(layout_.factors), b) + 2 * units_;
      for (int64_t u = 0; u < units_; ++u) {
        const T h = factors == nullptr ? state_[b][u] : state_[b][u] * factors[u];
        last_[b][u] = sums_[b][units_ + u] * h;
      }
    }
    add_product<T>({products_.data + 2 * units_, wide_}, {last_.data, units_},
                   {kernel().data + 2 * units_, kernel().stride}, rows_, units_, units_);
  }

  void gru_row(int64_t b, int64_t t) {
    T* const gates = sums_[b];
    T* const candidate = gates + 2 * units_;
    const T* const inner = products_[b] + 2 * units_;
    for (int64_t u = 0; u < units_; ++u) {
      candidate[u] += layout_.reset_after ? gates[units_ + u] * inner[u] : inner[u];
    }
    if (T* saved = output_row(1, b, t)) {
      std::copy_n(gate_.is_output ? gates : products_[b], 2 * units_, saved);
      std::copy_n(layout_.reset_after ? inner : last_[b], units_, saved + 3 * units_);
      finish_gate(candidate, saved + 2 * units_, inner_);
    } else {
      activate_row(inner_.activation, candidate, units_);
    }
    if (counts(b, t)) {
      for (int64_t u = 0; u < units_; ++u) {
        state_[b][u] = gates[u] * state_[b][u] + (T(1) - gates[u]) * candidate[u];
      }
    }
    store_hidden(b, t);
  }

  void rnn_row(int64_t b, int64_t t) {
    finish_gate(sums_[b], output_row(1, b, t), inner_);
    if (counts(b, t)) std::copy_n(sums_[b], units_, state_[b]);
    store_hidden(b, t);
  }

  Rows<T> sums_;
  Rows<T> products_;
  Rows<T> state_;
  Rows<T> dropped_;
  Rows<T> cells_;
  Rows<T> last_;
};

// Scratch of the backward direction: the transposed kernel, and a row's gradients of gates and
// states.
int64_t backward_row(const RecurrentLayout& layout) { return (layout.gates + 4) * layout.units; }

template <typename T>
class Backward final : Scan<T> {
  using Base = Scan<T>;
  using Base::call_;
  using Base::counts;
  using Base::gate_;
  using Base::inner_;
  using Base::input;
  using Base::kernel;
  using Base::layout_;
  using Base::output_row;
  using Base::rows_;
  using Base::steps_;
  using Base::units_;
  using Base::wide_;
  using Base::z_;

 public:
  Backward(const RecurrentLayout& layout, const KernelCall& call) : Base(layout, call) {
    T* scratch = reinterpret_cast<T*>(call.scratch);
    transposed_ = {scratch, units_};
    gates_ = {scratch += wide_ * units_, wide_};
    dh_ = {scratch += rows_ * wide_, units_};
    dc_ = {scratch += rows_ * units_, units_};
    before_ = {scratch += rows_ * units_, units_};
    product_ = {scratch += rows_ * units_, units_};
  }

  void run() {
    for (int64_t k = 0; k < units_; ++k) {
      for (int64_t n = 0; n < wide_; ++n) transposed_[n][k] = kernel()[k][n];
    }
    this->load_state(layout_.dh, dh_);
    this->load_state(layout_.dc, dc_);
    for (int64_t i = steps_; i-- > 0;) step(i);
    if (!layout_.initial_state) return;
    const size_t first = layout_.kind == CellKind::kGru && layout_.reset_after ? 2 : 1;
    this->store_state(first, dh_);
    if (layout_.kind == CellKind::kLstm) this->store_state(2, dc_);
  }

 private:
  void step(int64_t i) {
    const int64_t t = this->step_at(i);
    for (int64_t b = 0; b < rows_; ++b) {
      if (layout_.dy >= 0) {
        const T* dy = row_of<const T>(input(layout_.dy), b, t);
        for (int64_t u = 0; u < units_; ++u) dh_[b][u] += dy[u];
      }
      std::fill_n(before_[b], units_, T(0));
    }
    for (int64_t b = 0; b < rows_; ++b) {
      if (!counts(b, t)) {
        std::fill_n(gates_[b], wide_, T(0));
        std::copy_n(dh_[b], units_, before_[b]);
        store_gates(b, t);
        continue;
      }
      switch (layout_.kind) {
        case CellKind::kLstm:
          lstm_row(b, i);
          break;
        case CellKind::kGru:
          gru_row(b, i);
          break;
        case CellKind::kSimpleRnn:
          rnn_row(b, i);
          break;
      }
    }
    if (layout_.kind == CellKind::kGru && !layout_.reset_after) {
      reset_before(i);
    } else {
      add_products(0, layout_.gates);
    }
    std::swap(dh_, before_);
  }

  // before += (gradient of the gates) · kernelᵀ, by the factors of each gate.
  void add_products(int first, int last) {
    if (layout_.factors < 0) {
      add_product<T>(before_, {gates_.data + first * units_, wide_},
                     {transposed_[first * units_], units_}, rows_, (last - first) * units_, units_);
      return;
    }
    for (int g = first; g < last; ++g) {
      multiply_gate(g);
      for (int64_t b = 0; b < rows_; ++b) {
        const T* factors = row_of<const T>(input(layout_.factors), b) + g * units_;
        for (int64_t u = 0; u < units_; ++u) before_[b][u] += product_[b][u] * factors[u];
      }
    }
  }

  // product = (gradient of one gate) · kernelᵀ
  void multiply_gate(int gate) {
    std::fill_n(product_.data, rows_ * units_, T(0));
    add_product<T>(product_, {gates_.data + gate * units_, wide_},
                   {transposed_[gate * units_], units_}, rows_, units_, units_);
  }

  // The gradient of z. It may take the place of what was saved, so the row was read before.
  void store_gates(int64_t b, int64_t t) {
    for (size_t o = 0; o < (layout_.reset_after ? 2 : 1); ++o) {
      if (T* out = output_row(o, b, t)) std::copy_n(gates_[b], wide_, out);
    }
  }

  // The sequence's row one step before the `i`-th; nullptr: zero.
  const T* earlier(int64_t b, int64_t i, int first) const {
    if (i > 0) return row_of<const T>(input(layout_.sequence), b, this->step_at(i - 1));
    return first < 0 ? nullptr : row_of<const T>(input(first), b);
  }

  void lstm_row(int64_t b, int64_t i) {
    const int64_t t = this->step_at(i);
    const T* const saved = row_of<const T>(z_, b, t);
    const T* const cells = row_of<const T>(input(layout_.sequence), b, t);
    const T* const before = earlier(b, i, layout_.c0);
    T* const gates = gates_[b];
    for (int64_t u = 0; u < units_; ++u) {
      const T out = ops::activate(inner_.activation, cells[u]);
      const T dh = dh_[b][u];
      const T o = gate_.value(saved[3 * units_ + u]);
      const T dc = dc_[b][u] + dh * o * inner_.slope(inner_.is_output ? out : cells[u]);
      const T input_gate = gate_.value(saved[u]);
      const T forget = gate_.value(saved[units_ + u]);
      const T candidate = inner_.value(saved[2 * units_ + u]);
      gates[u] = dc * candidate * gate_.slope(saved[u]);
      gates[units_ + u] =
          before == nullptr ? T(0) : dc * before[u] * gate_.slope(saved[units_ + u]);
      gates[2 * units_ + u] = dc * input_gate * inner_.slope(saved[2 * units_ + u]);
      gates[3 * units_ + u] = dh * out * gate_.slope(saved[3 * units_ + u]);
      dc_[b][u] = dc * forget;
    }
    store_gates(b, t);
  }

  void rnn_row(int64_t b, int64_t i) {
    const int64_t t = this->step_at(i);
    const T* const saved = row_of<const T>(z_, b, t);
    for (int64_t u = 0; u < units_; ++u) gates_[b][u] = dh_[b][u] * inner_.slope(saved[u]);
    store_gates(b, t);
  }

  void gru_row(int64_t b, int64_t i) {
    const int64_t t = this->step_at(i);
    const T* const saved = row_of<const T>(z_, b, t);
    const T* const before = earlier(b, i, layout_.h0);
    T* const gates = gates_[b];
    for (int64_t u = 0; u < units_; ++u) {
      const T update = gate_.value(saved[u]);
      const T candidate = inner_.value(saved[2 * units_ + u]);
      const T h = before == nullptr ? T(0) : before[u];
      const T dh = dh_[b][u];
      gates[u] = dh * (h - candidate) * gate_.slope(saved[u]);
      gates[2 * units_ + u] = dh * (T(1) - update) * inner_.slope(saved[2 * units_ + u]);
      before_[b][u] = dh * update;
      if (layout_.reset_after) {
        gates[units_ + u] =
            gates[2 * units_ + u] * saved[3 * units_ + u] * gate_.slope(saved[units_ + u]);
      }
    }
    if (!layout_.reset_after) return;
    if (T* dz = output_row(0, b, t)) std::copy_n(gates, wide_, dz);
    for (int64_t u = 0; u < units_; ++u) gates[2 * units_ + u] *= gate_.value(saved[units_ + u]);
    if (T* inner = output_row(1, b, t)) std::copy_n(gates, wide_, inner);
  }

  // Without reset_after the reset gate stands in front of the product.
  void reset_before(int64_t i) {
    const int64_t t = this->step_at(i);
    multiply_gate(2);  // the gradient of r · h
    for (int64_t b = 0; b < rows_; ++b) {
      if (!counts(b, t)) continue;
      const T* const saved = row_of<const T>(z_, b, t);
      const T* const before = earlier(b, i, layout_.h0);
      const T* const factors =
          layout_.factors < 0 ? nullptr : row_of<const T>(input(layout_.factors), b) + 2 * units_;
      for (int64_t u = 0; u < units_; ++u) {
        const T factor = factors == nullptr ? T(1) : factors[u];
        const T h = before == nullptr ? T(0) : before[u] * factor;
        gates_[b][units_ + u] = product_[b][u] * h * gate_.slope(saved[units_ + u]);
        before_[b][u] += product_[b][u] * gate_.value(saved[units_ + u]) * factor;
      }
      store_gates(b, t);
    }
    add_products(0, 2);
  }

  Rows<T> transposed_;
  Rows<T> gates_;
  Rows<T> dh_;
  Rows<T> dc_;
  Rows<T> before_;
  Rows<T> product_;
};

template <template <typename> typename Direction>
std::unique_ptr<Kernel> make_scan(const Problem& problem) {
  const RecurrentLayout layout = ops::read_recurrent(problem.node.op->name(), problem.attributes);
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([layout](const KernelCall& call) { Direction<T>(layout, call).run(); });
  });
}

int64_t element_size(const Problem& problem) {
  return element_bytes(problem.outputs[0].dtype).count();
}

// Sequences of a call: a sample may have several.
int64_t sequences(const Problem& problem) {
  return problem.extent(graph::kBatchAxis, problem.batch) * problem.outputs[0].shape[0].count;
}

Bytes forward_scratch(const Problem& problem) {
  const RecurrentLayout layout = ops::read_recurrent(problem.node.op->name(), problem.attributes);
  return Bytes(sequences(problem) * forward_row(layout) * element_size(problem));
}

Bytes backward_scratch(const Problem& problem) {
  const RecurrentLayout layout = ops::read_recurrent(problem.node.op->name(), problem.attributes);
  return Bytes(
      (sequences(problem) * backward_row(layout) + layout.gates * layout.units * layout.units) *
      element_size(problem));
}

std::unique_ptr<Kernel> make_shift_time(const Problem& problem) {
  const bool backwards = problem.attributes.get_bool("go_backwards", false);
  const int64_t element = element_size(problem);
  return kernel_of([backwards, element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    const int64_t steps = x.dims[1];
    const auto bytes = static_cast<size_t>(x.dims[2] * element);
    const auto row = [&](const Operand& operand, int64_t b, int64_t t) {
      return operand.data + (b * operand.strides[0] + t * operand.strides[1]) * element;
    };
    for (int64_t b = 0; b < x.dims[0]; ++b) {
      for (int64_t i = 0; i < steps; ++i) {
        const int64_t t = backwards ? steps - 1 - i : i;
        if (i > 0) {
          std::memcpy(row(y, b, t), row(x, b, backwards ? t + 1 : t - 1), bytes);
        } else if (call.inputs.size() > 1) {
          const Operand& first = call.inputs[1];
          std::memcpy(row(y, b, t), first.data + b * first.strides[0] * element, bytes);
        } else {
          std::memset(row(y, b, t), 0, bytes);
        }
      }
    }
  });
}

constexpr KernelEntry kEntries[] = {
    {"gru", make_scan<Forward>, forward_scratch},
    {"gru_grad", make_scan<Backward>, backward_scratch},
    {"lstm", make_scan<Forward>, forward_scratch},
    {"lstm_grad", make_scan<Backward>, backward_scratch},
    {"shift_time", make_shift_time},
    {"simple_rnn", make_scan<Forward>, forward_scratch},
    {"simple_rnn_grad", make_scan<Backward>, backward_scratch},
};

}  // namespace

std::span<const KernelEntry> recurrent_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
