// Nodes of bfloat16 that compute element by element, with numbers of each channel perhaps: their
// float32 kernel is called on some rows at a time, which lie in a core's cache while they are
// widened, computed on and rounded. Rows do not depend on each other, so it does not matter to the
// bits how many these are. What counts elements from the start of a sample is not here.

#include <algorithm>
#include <array>

#include "backend/cpu/families.h"
#include "backend/cpu/widened.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kNumbers = 16 << 10;  // of a call
// Numbers of each channel are made anew for each call.
constexpr int64_t kLeastRows = 32;
constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
constexpr size_t kMostOperands = 6;

constexpr std::array<std::string_view, 12> kOps = {
    "accumulate", "activation",      "activation_grad",      "add",
    "batch_norm", "batch_norm_grad", "batch_norm_inference", "batch_norm_inference_grad",
    "bias_add",   "multiply",        "scale_shift",          "subtract"};

// How an operand goes along with the rows.
enum class Follows : uint8_t { kNumbers, kBits, kNot };

struct Rows {
  int64_t count = 0;
  int64_t channels = 1;
  int64_t at_once = 1;
  std::vector<Follows> inputs;
};

// No inputs: not to be computed so.
Rows read_rows(const NodeFacts& facts) {
  Rows rows;
  if (std::ranges::find(kOps, facts.op()) == kOps.end()) return rows;
  const graph::ValueType& y = facts.outputs[0];
  if (y.dtype != DType::kBFloat16 || y.shape.rank() < 2 || facts.inputs.size() > kMostOperands) {
    return rows;
  }
  rows.channels = y.shape[y.shape.rank() - 1].count;
  rows.count = facts.output_elements(0) / rows.channels;
  rows.at_once = std::clamp(kNumbers / rows.channels, std::min(kLeastRows, rows.count), rows.count);
  std::vector<Follows> inputs;
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const bool bits = i < facts.forms.size() && !facts.forms[i].empty();
    if (facts.inputs[i].dtype != DType::kBFloat16) {
      inputs.push_back(Follows::kNot);
    } else if (facts.inputs[i] != y) {
      return rows;
    } else if (!bits) {
      inputs.push_back(Follows::kNumbers);
    } else if (facts.forms[i] == "positive_bits" && y.shape.elements_per_sample() % 8 == 0 &&
               rows.at_once * rows.channels % 8 == 0) {
      inputs.push_back(Follows::kBits);
    } else {
      return rows;
    }
  }
  rows.inputs = std::move(inputs);
  return rows;
}

// The node on so many rows of float32; what it takes from the whole batch stays.
NodeFacts facts_of_rows(const NodeFacts& facts, const Rows& rows, int64_t count) {
  NodeFacts part = facts;
  const int64_t samples = graph::find_axis(facts.axes, graph::kBatchAxis) < 0 ? 1 : facts.batch;
  const int64_t all = facts.whole_inputs[0].shape.elements_per_sample() / rows.channels * samples;
  const auto rows_of = [&](int64_t n) {
    return graph::ValueType{DType::kFloat32, Shape{Dim::constant(n), Dim::constant(rows.channels)}};
  };
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    if (rows.inputs[i] == Follows::kNot) continue;
    part.inputs[i] = rows_of(count);
    part.whole_inputs[i] = rows_of(all);
  }
  part.outputs[0] = rows_of(count);
  part.axes.clear();
  part.extents.clear();
  part.rows_axis = -1;
  part.batch = 1;
  return part;
}

class WidenedRows final : public Kernel {
 public:
  WidenedRows(CpuKernel full, CpuKernel tail, const Rows& rows, const CpuOptions& options)
      : full_(std::move(full)), tail_(std::move(tail)), rows_(rows), isa_(options.isa) {
    const int64_t numbers = rows.at_once * rows.channels;
    buffer_ = round_up(Bytes(numbers * kFloat), Bytes(64)).count();
    chunks_ = (rows.count + rows.at_once - 1) / rows.at_once;
    const auto followers = std::ranges::count(rows.inputs, Follows::kNumbers);
    part_ =
        buffer_ * (followers + 1) + round_up(max(full_.scratch, tail_.scratch), Bytes(64)).count();
    const int parts = parts_for(rows.count * rows.channels * 4, options.threads);
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
    const int64_t first = chunk * rows_.at_once * rows_.channels;
    const int64_t count =
        std::min(rows_.at_once, rows_.count - chunk * rows_.at_once) * rows_.channels;
    std::array<Operand, kMostOperands> inputs;
    std::copy(call.inputs.begin(), call.inputs.end(), inputs.begin());
    for (size_t i = 0; i < rows_.inputs.size(); ++i) {
      if (rows_.inputs[i] == Follows::kBits) inputs[i].data += first / 8;
      if (rows_.inputs[i] != Follows::kNumbers) continue;
      widen_numbers(reinterpret_cast<const uint16_t*>(inputs[i].data) + first,
                    reinterpret_cast<float*>(scratch), count, isa_);
      inputs[i].data = scratch;
      scratch += buffer_;
    }
    Operand output = call.outputs[0];
    output.data = scratch;
    KernelCall inner = call;
    inner.inputs = std::span(inputs).first(call.inputs.size());
    inner.outputs = std::span(&output, 1);
    inner.scratch = scratch + buffer_;
    const bool whole = count == rows_.at_once * rows_.channels;
    (whole ? full_ : tail_).kernel->run(inner);
    round_numbers(reinterpret_cast<const float*>(output.data),
                  reinterpret_cast<uint16_t*>(call.outputs[0].data) + first, count, isa_);
  }

  CpuKernel full_;
  CpuKernel tail_;  // of the last rows, where they are fewer
  Rows rows_;
  Isa isa_;
  int64_t buffer_ = 0;  // bytes
  int64_t part_ = 0;
  int64_t chunks_ = 0;
  int parts_ = 1;
};

}  // namespace

CpuKernel make_widened_rows(const NodeFacts& facts, const CpuOptions& options) {
  const Rows rows = read_rows(facts);
  if (rows.inputs.empty() || rows.count == 0) return {};
  const CpuOptions alone{options.isa, 1};
  CpuKernel full = make_cpu_kernel(facts_of_rows(facts, rows, rows.at_once), alone);
  if (full.kernel == nullptr) return {};
  CpuKernel tail;
  if (rows.count % rows.at_once != 0) {
    tail = make_cpu_kernel(facts_of_rows(facts, rows, rows.count % rows.at_once), alone);
  }
  auto kernel = std::make_unique<WidenedRows>(std::move(full), std::move(tail), rows, options);
  const Bytes scratch = kernel->scratch();
  return {std::move(kernel), scratch, false};
}

}  // namespace plimsoll::backend::cpu
