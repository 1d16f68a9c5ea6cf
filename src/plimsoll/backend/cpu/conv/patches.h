#pragma once

// Convolutions of any shape as products of matrices: what the windows of some positions hold is
// copied to the rows of a matrix, which stays in a cache while it meets the kernel.
//
//   y[position][f] = Σ over (s, i, j, c) of patch[position][(s, i, j, c)] · kernel[(s, i, j, c)][f]
//
// The gradient to the source is a convolution of dy with the kernel rotated by 180 degrees. Under
// strides it is one for each phase: the positions of the source that are as far past the last
// position of a window's first point meet the same points of the kernel, no others, and among
// themselves there are no strides.
//
// An element is the sum of a patch in its order, whatever the other positions are
// (product/packed_product.h).

#include <cstdint>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/packed_product.h"
#include "ops/image/windows.h"

namespace plimsoll::backend::cpu {

// Windows over images, channels last, of which `count` neighbouring channels are looked at. An
// image is a volume of one slab.
struct Patches {
  ops::Window rows, columns;
  int64_t channels = 1;
  int64_t count = 1;
  ops::Window slabs = ops::kOnePosition;

  // How many numbers a patch has.
  int64_t numbers() const { return slabs.size * rows.size * columns.size * count; }
  // How many positions an image has.
  int64_t positions() const { return slabs.output * rows.output * columns.output; }
  // Positions [begin, end), counted through all images. Padding is zeros. `images`: of the first
  // channel that is looked at.
  void copy(const float* images, int64_t begin, int64_t end, float* to) const noexcept;

 private:
  void copy_rows(const float* slab, int64_t row, int64_t left, float* to) const noexcept;
};

// Fewer positions would not pay for the panels of the kernel.
inline constexpr int64_t kLeastPositions = 96;
// Positions that are copied at once.
int64_t patch_positions(int64_t numbers);

// The products of patches with a kernel, `transposed` as PackedProduct says.
class PatchProduct {
 public:
  // `positions` are all that there are.
  PatchProduct(const Patches& patches, int64_t positions, int64_t columns, bool transposed,
               Isa isa);

  // What one thread needs.
  int64_t scratch_floats() const { return patch_floats_ + packed_floats_; }

  struct Target {
    const float* kernel = nullptr;
    int64_t kernel_row = 0;
    const float* bias = nullptr;
    bool relu = false;
    float* y = nullptr;  // of position `begin`
    int64_t y_row = 0;
  };
  void run(const float* images, int64_t begin, int64_t end, const Target& target,
           float* scratch) const noexcept;

 private:
  Patches patches_;
  int64_t columns_;
  bool transposed_;
  int64_t at_once_;
  int64_t patch_floats_;
  int64_t packed_floats_;
  PackedMultiplyFunction multiply_;
};

// Rows or columns of a source that meet the same points of a kernel.
struct GradientPhase {
  int64_t first = 0, step = 1;    // positions of the source: first, first + step, …
  int64_t tap = 0, tap_step = 1;  // points of the kernel, as the window has them: its last first
  ops::Window window;             // over dy; `size` of 0: nothing reaches them
};
// The phases of a dimension of a convolution: one for each that has positions.
std::vector<GradientPhase> gradient_phases(const ops::Window& window);

// conv2d and conv2d_grad_input over the steps of sequences, as Conv1D has them: vendors take one
// column of a row at a time there, or tables for each step. Not where patches are long, since each
// thread holds some of them: a window of 1024 steps and 64 channels is the vendor's.
bool is_sequence_convolution(const NodeFacts& facts, const CpuOptions& options);

// conv2d of a kernel that no second cache holds, over images whose rows have few positions, with
// AVX-512: vendors read the kernel anew for every few positions. Here a call has some images, whose
// positions share what is read.
bool is_heavy_convolution(const NodeFacts& facts, const CpuOptions& options);
// So many images, of a node that is one.
int64_t heavy_convolution_samples(const NodeFacts& facts, const CpuOptions& options);

// Either of them.
bool is_patch_convolution(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
