#pragma once

// conv2d, conv3d, their two gradients, and conv2d_pool on the vendor's primitives, channels last,
// of float32 or of bfloat16 factors: then sums, biases and weight gradients are float32, and what
// is written to images is rounded once.
//
// The weight is plain, (sizes…, channels / groups, filters), or packed. It is packed where
// the layout that the primitive likes runs on another implementation than the plain one does: that
// is where packing pays (measured: first layers and data gradients; elsewhere plain weights are as
// fast). The layout is that of a full block; tails use it too, and where the library has no fast
// kernel for that, the tail runs as a full block with zero rows after it. Shares that would be slow
// with it get theirs at the start of the call (repack.h).
//
// Threads share a call's work (convolution_shares.h), each with primitives for one thread.
//
//   scratch  conv2d, …_grad_input   [primitive] a share [weights laid out anew]
//                                   [padded input, output: such tails]
//            …_grad_kernel          [primitive] [dw as the primitive lays it out] [db] a share
//
//            conv2d_pool            [primitive] [rows of the convolution's result]
//                                   [bfloat16: pooled rows before rounding] a share
//
// The vendor's weight gradient overwrites, so it goes to scratch and is then stored or added. In
// front of a pooling a convolution is computed some rows at a time, which are pooled while they lie
// in a thread's cache.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/onednn/packed_layout.h"
#include "backend/onednn/primitive_cache.h"
#include "ops/image/conv.h"

namespace plimsoll::backend::onednn {

enum class ConvolutionKind { kForward, kGradInput, kGradKernel };

// All that a convolution's primitive depends on, but for the weight's layout.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  ops::ConvGeometry geometry;
  int64_t samples = 1;        // in this call
  int64_t block_samples = 1;  // in a full block of the kernel set
  bool bias = false;
  bool relu = false;
  bool packed = false;
  bool bf16 = false;  // images and weights are bfloat16
  // Sizes of the pooling after it; 0: none.
  int64_t pool_rows = 0;
  int64_t pool_columns = 0;

  // Rows (slabs) of the block that the packed weight's layout is chosen for; none: this one's.
  std::optional<ops::Window> model_rows = {};

  bool pools() const { return pool_rows > 0; }
};

// nullopt: another operator, or one of other operands (float64; bfloat16 unless `bf16`).
std::optional<Convolution> read_convolution(const cpu::NodeFacts& facts, int64_t block_samples,
                                            bool bf16);

// Columns of the source of a convolution's primitive, from its key; 0: another key.
int64_t columns_of_key(std::string_view key);

class Convolutions {
 public:
  Convolutions(PrimitiveCache& cache, int most_parts) : cache_(cache), most_parts_(most_parts) {}

  // The layout that the weight should be packed to; nullopt: plain.
  std::optional<PackedLayout> wanted_layout(const Convolution& convolution) const;
  Bytes scratch(const Convolution& convolution) const;
  // Its primitives.
  std::vector<PrimitiveUse> uses(const Convolution& convolution, cpu::Isa isa) const;
  std::unique_ptr<Kernel> make(const Convolution& convolution, cpu::Isa isa) const;

 private:
  // One for each size of share of a call.
  using AllCompiled = std::vector<std::shared_ptr<Compiled>>;
  AllCompiled compiled(const Convolution& convolution, const std::vector<Convolution>& works) const;
  struct Prepared;
  Prepared prepare(const Convolution& convolution) const;
  // What all shares take, without the weights laid out anew.
  Bytes share_scratch(const Convolution& convolution, const Prepared& prepared) const;
  Bytes passing(const Convolution& convolution, const Prepared& prepared) const;
  std::unique_ptr<Kernel> make_pooled(const Convolution& convolution, cpu::Isa isa) const;
  std::shared_ptr<Compiled> compiled_with(const Convolution& convolution,
                                          const dnnl::memory::desc& weights,
                                          std::string_view weights_key) const;
  // Whether a tail must run as a full block.
  bool runs_padded(const Convolution& convolution) const;

  PrimitiveCache& cache_;
  int most_parts_;
};

}  // namespace plimsoll::backend::onednn
