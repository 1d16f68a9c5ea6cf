#pragma once

// Images resized, cropped, flipped, warped and recoloured, as loops over units of work that need
// nothing of each other: rows of an output, or whole samples.
//
// The reference runs all units of a call one after the other; the cpu backend shares the same loops
// out among threads. A unit's bits depend on its operands, on the draws of its sample
// (ops/image/image_draws.h) and on nothing else.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "backend/kernel/kernel.h"
#include "backend/kernel/row_block.h"
#include "ops/image/image_draws.h"

namespace plimsoll::backend::reference {

struct ImageLoop {
  // Units [begin, end) of a call; empty: the operator has no such loop.
  std::function<void(const KernelCall&, int64_t begin, int64_t end)> run;
  int64_t units_per_row = 1;  // of the batch

  int64_t units(const KernelCall& call) const { return call.outputs[0].dims[0] * units_per_row; }
};

// Takes float32 and float64.
ImageLoop image_loop(std::string_view op, const NodeProblem& problem);

// One family each.
using ImageLoopMaker = ImageLoop (*)(const NodeProblem& problem);
struct ImageLoopEntry {
  std::string_view op;
  ImageLoopMaker make;
};
std::span<const ImageLoopEntry> image_color_loops();
std::span<const ImageLoopEntry> image_move_loops();
ImageLoop make_equalized_tiles(const NodeProblem& problem);

// Who draws in a call: the numbers of the step, and the first row of the call in the batch.
struct CallDraws {
  ops::ImageDraws draws;
  int64_t first_row;
};
// Reads {site}; what it returns makes a call's draws.
class DrawSource {
 public:
  explicit DrawSource(const NodeProblem& problem);
  CallDraws of(const KernelCall& call) const;

 private:
  int64_t site_;
  int batch_axis_;
  int64_t rows_per_sample_;
};

// make(float()) or make(double()), by the first operand.
template <typename Make>
ImageLoop image_loop_of(const NodeProblem& problem, Make make) {
  return problem.inputs[0].dtype == DType::kFloat64 ? make(double()) : make(float());
}

}  // namespace plimsoll::backend::reference
