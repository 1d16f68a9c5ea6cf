// Activations of bfloat16 that have no loop of vectors: their float32 kernel is called on some
// numbers at a time, which lie in a core's cache while they are widened, computed on and rounded.

#include <algorithm>
#include <array>

#include "backend/cpu/families.h"
#include "backend/cpu/simd/bfloat16.h"
#include "backend/kernel/widened.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kNumbers = 16 << 10;  // of a call
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
constexpr size_t kMostOperands = 2;

// Numbers that are computed on at once.
struct Pieces {
  int64_t count = 0;  // of all numbers
  int64_t at_once = 1;
};

bool is_ours(const NodeFacts& facts) {
  const bool forms = std::ranges::any_of(facts.forms, [](const auto& f) { return !f.empty(); });
  return facts.outputs[0].dtype == DType::kBFloat16 && !forms;
}

// The node on so many numbers of float32.
NodeFacts facts_of_piece(const NodeFacts& facts, int64_t count) {
  NodeFacts part = facts;
  const graph::ValueType type{DType::kFloat32, Shape{Dim::constant(count)}};
  std::ranges::fill(part.inputs, type);
  std::ranges::fill(part.whole_inputs, type);
  part.outputs[0] = type;
  part.axes.clear();
  part.extents.clear();
  part.rows_axis = -1;
  part.batch = 1;
  return part;
}

class WidenedRows final : public Kernel {
 public:
  WidenedRows(CpuKernel full, CpuKernel tail, const Pieces& pieces, size_t inputs,
              const CpuOptions& options)
      : full_(std::move(full)),
        tail_(std::move(tail)),
        pieces_(pieces),
        inputs_(inputs),
        isa_(options.isa) {
    buffer_ = round_up(Bytes(pieces.at_once * kFloat), Bytes(64)).count();
    chunks_ = (pieces.count + pieces.at_once - 1) / pieces.at_once;
    part_ = buffer_ * static_cast<int64_t>(inputs + 1);
    const int parts = parts_for(pieces.count * 4, options.parts);
    parts_ = static_cast<int>(std::min<int64_t>(parts, chunks_));
  }

  Bytes scratch() const { return Bytes(part_ * parts_); }

  void run(const KernelCall& call) const noexcept override {
    for_each_part(parts_, [&](int part) {
      const Range mine = part_of(chunks_, 1, part, parts_);
      for (int64_t chunk = mine.begin; chunk < mine.end; ++chunk) {
        run_chunk(call, chunk, call.scratch + part * part_);
      }
    });
  }

 private:
  void run_chunk(const KernelCall& call, int64_t chunk, std::byte* scratch) const noexcept {
    const int64_t first = chunk * pieces_.at_once;
    const int64_t count = std::min(pieces_.at_once, pieces_.count - first);
    std::array<Operand, kMostOperands> inputs;
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    for (size_t i = 0; i < inputs_; ++i) {
      widen_numbers(input_as<uint16_t>(call, i) + first, reinterpret_cast<float*>(scratch), count,
                    isa_);
      inputs[i].data = scratch;
      scratch += buffer_;
    }
    Operand output = call.outputs[0];
    output.data = scratch;
    KernelCall inner = call;
    inner.inputs = std::span(inputs).first(inputs_);
    inner.outputs = std::span(&output, 1);
    const bool whole = count == pieces_.at_once;
    (whole ? full_ : tail_).kernel->run(inner);
    round_numbers(reinterpret_cast<const float*>(output.data), output_as<uint16_t>(call, 0) + first,
                  count, isa_);
  }

  CpuKernel full_;
  CpuKernel tail_;  // of the last numbers, where they are fewer
  Pieces pieces_;
  size_t inputs_;
  Isa isa_;
  int64_t buffer_ = 0;  // bytes
  int64_t part_ = 0;
  int64_t chunks_ = 0;
  int parts_ = 1;
};

CpuKernel make_in_pieces(const NodeFacts& facts, const CpuOptions& options) {
  if (!is_ours(facts) || facts.output_elements(0) == 0) return {};
  Pieces pieces;
  pieces.count = facts.output_elements(0);
  pieces.at_once = std::min(kNumbers, pieces.count);
  const CpuOptions alone{options.isa, 1};
  CpuKernel full = make_cpu_kernel(facts_of_piece(facts, pieces.at_once), alone);
  if (full.kernel == nullptr) return {};
  CpuKernel tail;
  if (pieces.count % pieces.at_once != 0) {
    tail = make_cpu_kernel(facts_of_piece(facts, pieces.count % pieces.at_once), alone);
  }
  auto kernel = std::make_unique<WidenedRows>(std::move(full), std::move(tail), pieces,
                                              facts.inputs.size(), options);
  const Bytes scratch = kernel->scratch();
  return {std::move(kernel), scratch, false};
}

constexpr CpuEntry kEntries[] = {
    {"activation", make_in_pieces},
    {"activation_grad", make_in_pieces},
};

}  // namespace

CpuKernel make_widened_rows(const NodeFacts& facts, const CpuOptions& options) {
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
