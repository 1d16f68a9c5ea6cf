#pragma once

// Our own vectorized kernels, by operator name.
//
// They compute in float32 on dense operands, split their work by fixed rules of the shape, and sum
// in orders that do not depend on threads. What is not here (float64, operands cut inside of a
// sample, rare operators) is the reference kernels' business.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backend/cpu/node_facts.h"
#include "backend/cpu/simd/isa.h"
#include "backend/cpu/threads/threads.h"
#include "backend/kernel/kernel.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::cpu {

struct CpuOptions {
  Isa isa = Isa::kGeneric;
  int parts = 1;
  bool pairs = false;  // the processor multiplies pairs of bfloat16 numbers
  bool tiles = false;  // and has tiles that sum such products
  // No other backend adds products to ours, so that these compute what theirs would.
  bool alone = false;
};

// A kernel and the scratch that each call of it wants; no kernel: not ours.
struct CpuKernel {
  std::unique_ptr<Kernel> kernel;
  Bytes scratch;
  bool strided = false;  // operands may have gaps
};

// One line of a kernel file's table: an operator, and what makes its kernel. Nothing else here
// knows operators by name.
struct CpuEntry {
  std::string_view op;
  CpuKernel (*make)(const NodeFacts& facts, const CpuOptions& options);
};
// The operator's line; nullptr: there is none.
const CpuEntry* find_entry(std::span<const CpuEntry> entries, std::string_view op);
// The kernel of the operator's line; none where there is no line.
CpuKernel make_listed(std::span<const CpuEntry> entries, const NodeFacts& facts,
                      const CpuOptions& options);

CpuKernel make_cpu_kernel(const NodeFacts& facts, const CpuOptions& options);
// Over dense rows; no kernel: not ours.
std::unique_ptr<Kernel> make_cpu_encoder(const EncoderRequest& request, const CpuOptions& options);

// A kernel from a callable of (const KernelCall&) that does not throw.
template <typename Body>
class BodyKernel final : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  void run(const KernelCall& call) const noexcept override {
    const FlushDenormals flush;
    body_(call);
  }

 private:
  Body body_;
};
template <typename Body>
CpuKernel kernel_of(Body body, Bytes scratch = Bytes(0)) {
  return {std::make_unique<BodyKernel<Body>>(std::move(body)), scratch, false};
}

// Operands as numbers: float, or uint16_t for bfloat16.
template <typename T>
const T* input_as(const KernelCall& call, size_t i) {
  return reinterpret_cast<const T*>(call.inputs[i].data);
}
template <typename T>
T* output_as(const KernelCall& call, size_t i) {
  return reinterpret_cast<T*>(call.outputs[i].data);
}
inline const float* input_floats(const KernelCall& call, size_t i) {
  return input_as<float>(call, i);
}
inline float* output_floats(const KernelCall& call, size_t i) { return output_as<float>(call, i); }

}  // namespace plimsoll::backend::cpu
