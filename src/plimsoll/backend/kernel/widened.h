#pragma once

// Kernels of bfloat16 operands made of kernels that know float32 alone.
//
// A call's bfloat16 inputs are widened into scratch, which is exact; the float32 kernel runs there;
// what it wrote is rounded on its way out, once for each element. So whatever has a float32 kernel
// has a bfloat16 one, and a value has the same bits whether it is kept or computed again. Operands
// of other types, packed weights and saved forms pass as they are. This is a way to be right, not
// to be fast: kernels that read bfloat16 themselves are asked first (onednn/kernel_library.cpp).
//
//   scratch  [widened inputs] [outputs before rounding] [scratch of the float32 kernel]

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/kernel/row_block.h"
#include "graph/op.h"

namespace plimsoll::backend {

// How a backend converts `count` dense numbers: numbers[i] = bits[i], and bits[i] = numbers[i]
// rounded (base/bfloat16.h). Neither throws; every backend's gives the same bits.
struct Bfloat16Conversion {
  std::function<void(const uint16_t* bits, float* numbers, int64_t count)> widen;
  std::function<void(const float* numbers, uint16_t* bits, int64_t count)> round;
};

// Whether an operand (in its plain form) is bfloat16.
bool has_bfloat16(std::span<const graph::ValueType> inputs,
                  std::span<const graph::ValueType> outputs);
// The same node over float32.
void widen(NodeProblem& problem);

// Scratch in front of the float32 kernel's, enough for any block of these extents.
Bytes widened_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::span<const std::string> forms);

// `kernel` is made for dense float32 operands of the request's regions.
std::unique_ptr<Kernel> make_widened(std::unique_ptr<Kernel> kernel, const KernelRequest& request,
                                     Bfloat16Conversion conversion);
// The request as `kernel` sees it: bfloat16 operands are dense in scratch.
KernelRequest widened_request(const KernelRequest& request);

}  // namespace plimsoll::backend
