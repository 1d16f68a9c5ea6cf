// lstm, gru, simple_rnn and their gradients with Keras's own activations: tanh, and sigmoid for
// gates (scan.h). What has other ones, recurrent dropout, or its reset gate in front of the product
// is left to the reference.
//
// Threads share out samples; a sample's chain through time is one thread's work. The kernel, or its
// transpose, is copied to scratch once a call, with rows that do not get in each other's way.

#include <algorithm>
#include <cstring>

#include "backend/cpu/families.h"
#include "backend/cpu/sequence/scan.h"
#include "ops/recurrent.h"

namespace plimsoll::backend::cpu {
namespace {

using ops::ActivationKind;
using ops::CellKind;
using ops::RecurrentLayout;

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// Below this many products one thread is as fast as several.
constexpr int64_t kProductsWorthATeam = 100'000;

bool is_ours(const RecurrentLayout& layout) {
  if (layout.activation.kind != ActivationKind::kTanh || layout.factors >= 0) return false;
  if (layout.kind == CellKind::kSimpleRnn) return true;
  if (layout.recurrent_activation.kind != ActivationKind::kSigmoid) return false;
  return layout.kind == CellKind::kLstm || layout.reset_after;
}

ScanFunctions functions_of(CellKind kind, Isa isa) {
  switch (kind) {
    case CellKind::kLstm:
      return pick_lstm(isa);
    case CellKind::kGru:
      return pick_gru(isa);
    case CellKind::kSimpleRnn:
      break;
  }
  return pick_simple_rnn(isa);
}

// What a node says once for all calls.
struct Recurrence {
  RecurrentLayout layout;
  ScanFunctions run;
  MultiplyFunction multiply = nullptr;
  int64_t samples = 1;
  int64_t steps = 1;
  int parts = 1;

  int64_t units() const { return layout.units; }
  int64_t wide() const { return layout.gates * layout.units; }
  int64_t saved() const { return layout.saved * layout.units; }
  int64_t state() const { return samples * layout.units; }
  // In numbers: two states, and what the steps want.
  int64_t scratch() const { return 2 * state() + samples * scan_scratch(units(), wide()); }

  const float* input(const KernelCall& call, int role) const {
    return role < 0 ? nullptr : input_floats(call, static_cast<size_t>(role));
  }
  Steps steps_of(const float* data, int64_t width) const {
    return {const_cast<float*>(data), steps * width, width};
  }
  Steps steps_in(const KernelCall& call, int role, int64_t width) const {
    return steps_of(input(call, role), width);
  }
  Steps steps_out(const KernelCall& call, size_t output, int64_t width) const {
    return steps_of(output_floats(call, output), width);
  }

  void load_state(const KernelCall& call, int role, float* to) const {
    if (role < 0) {
      std::fill_n(to, state(), 0.0f);
    } else {
      std::copy_n(input(call, role), state(), to);
    }
  }
  void store_state(const KernelCall& call, size_t output, const float* from) const {
    if (float* to = output_floats(call, output)) std::copy_n(from, state(), to);
  }

  Scan begin(const KernelCall& call, float* scratch) const {
    Scan scan;
    scan.units = units();
    scan.wide = wide();
    scan.steps = steps;
    scan.go_backwards = layout.go_backwards;
    scan.multiply = multiply;
    if (layout.mask >= 0) {
      scan.mask =
          reinterpret_cast<const uint8_t*>(call.inputs[static_cast<size_t>(layout.mask)].data);
    }
    scan.h = scratch;
    scan.c = scratch + state();
    scan.scratch = scratch + 2 * state();
    return scan;
  }
};

CpuKernel make_forward(const Recurrence& r) {
  const int64_t kernel_row = spread_row(r.wide());
  const int64_t kernel_count = r.units() * kernel_row;
  return kernel_of(
      [=](const KernelCall& call) {
        const bool lstm = r.layout.kind == CellKind::kLstm;
        auto* kernel = reinterpret_cast<float*>(call.scratch);
        for (int64_t u = 0; u < r.units(); ++u) {
          std::copy_n(r.input(call, r.layout.kernel) + u * r.wide(), r.wide(),
                      kernel + u * kernel_row);
        }
        Scan scan = r.begin(call, kernel + kernel_count);
        scan.kernel = kernel;
        scan.kernel_row = kernel_row;
        scan.bias = r.input(call, r.layout.bias);
        scan.z = r.steps_in(call, r.layout.z, r.wide());
        scan.hidden = r.steps_out(call, 0, r.units());
        if (lstm) scan.cells = r.steps_out(call, 1, r.units());
        scan.saved = r.steps_out(call, lstm ? 2 : 1, r.saved());
        r.load_state(call, r.layout.h0, scan.h);
        if (lstm) r.load_state(call, r.layout.c0, scan.c);
        for_each_range(r.samples, 1, r.parts, [&](int64_t begin, int64_t end) {
          r.run.forward(scan, begin, end, 0, r.steps);
        });
        r.store_state(call, lstm ? 3 : 2, scan.h);
        if (lstm) r.store_state(call, 4, scan.c);
      },
      Bytes((r.scratch() + kernel_count) * kFloat));
}

// In tiles, so that neither side is walked through column by column.
void transpose(const float* from, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
          to[c * to_row + r] = from[r * columns + c];
        }
      }
    }
  }
}

CpuKernel make_backward(const Recurrence& r) {
  const int64_t kernel_row = spread_row(r.units());
  const int64_t kernel_count = r.wide() * kernel_row;
  return kernel_of(
      [=](const KernelCall& call) {
        const bool lstm = r.layout.kind == CellKind::kLstm;
        const bool gru = r.layout.kind == CellKind::kGru;
        auto* transposed = reinterpret_cast<float*>(call.scratch);
        transpose(r.input(call, r.layout.kernel), r.units(), r.wide(), transposed, kernel_row);
        Scan scan = r.begin(call, transposed + kernel_count);
        scan.kernel = transposed;
        scan.kernel_row = kernel_row;
        scan.before = r.input(call, lstm ? r.layout.c0 : r.layout.h0);
        scan.dy = r.steps_in(call, r.layout.dy, r.units());
        scan.saved = r.steps_in(call, r.layout.z, r.saved());
        (lstm ? scan.cells : scan.hidden) = r.steps_in(call, r.layout.sequence, r.units());
        scan.dz = r.steps_out(call, 0, r.wide());
        if (gru) scan.inner = r.steps_out(call, 1, r.wide());
        r.load_state(call, r.layout.dh, scan.h);
        if (lstm) r.load_state(call, r.layout.dc, scan.c);
        for_each_range(r.samples, 1, r.parts, [&](int64_t begin, int64_t end) {
          r.run.backward(scan, begin, end, 0, r.steps);
        });
        if (!r.layout.initial_state) return;
        r.store_state(call, gru ? 2 : 1, scan.h);
        if (lstm) r.store_state(call, 2, scan.c);
      },
      Bytes((r.scratch() + kernel_count) * kFloat));
}

bool is_float32(const NodeFacts& facts) { return facts.outputs[0].dtype == DType::kFloat32; }

}  // namespace

CpuKernel make_recurrent(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.work().family != OpFamily::kRecurrent || !is_float32(facts)) return {};
  const bool backward = facts.work().pass != OpPass::kForward;
  Recurrence r;
  r.layout = ops::read_recurrent(facts.op(), facts.attributes);
  if (!is_ours(r.layout)) return {};
  r.run = functions_of(r.layout.kind, options.isa);
  r.multiply = pick_multiply(options.isa);
  // A sample may be several sequences: TimeDistributed folds steps into the batch.
  r.samples = facts.samples() * facts.inputs[static_cast<size_t>(r.layout.z)].shape[0].count;
  r.steps = facts.inputs[static_cast<size_t>(r.layout.z)].shape[1].count;
  const int64_t products = r.samples * r.steps * r.units() * r.wide();
  if (products >= kProductsWorthATeam) {
    r.parts = static_cast<int>(std::min<int64_t>(options.parts, r.samples));
  }
  return backward ? make_backward(r) : make_forward(r);
}

}  // namespace plimsoll::backend::cpu
