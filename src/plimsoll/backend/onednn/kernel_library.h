#pragma once

// Which kernel runs a node: the vendor's primitives, our own loops, or the reference's.
//
//   conv2d, its gradients            the vendor        float32; bfloat16 where it is multiplied in
//                                                      pairs
//   conv2d of 3 × 3 windows without strides, 16 channels and 7 columns or more, and its gradients;
//   conv2d_pool of such and 2 × 2    our own           float32 (cpu/winograd.h)
//   conv2d_grad_kernel of 8 channels and 12 filters or more, undivided (without AVX-512: of 3); the
//   gradient through strided single points; without AVX-512 all of single points
//                                    our own           the same
//   conv2d_pool                      the vendor and our own pooling; its gradients, and with few
//                                    channels all of it: our own
//   dense, its gradients             the vendor        float32, with AVX-512, more units than a
//                                                      vector has lanes
//   other dense, pack                our own           float32; bfloat16 in pairs, more units
//   elementwise, poolings, BatchNormalization, bias, casts to float32, dropout, optimizers,
//   lstm, gru and simple_rnn with Keras's activations, attention, embeddings, layer_norm, softmax,
//   cross-entropy on class numbers, dense_crossentropy
//                                    our own           float32, dense operands (dense, attention
//                                                      and cross-entropy: cut inside of samples
//                                                      too); elementwise, poolings and
//                                                      BatchNormalization: bfloat16 too
//   float64; other losses, metrics, global maximum, concat and the other moves, initializers,
//   recurrent layers with other activations or recurrent dropout, RMSprop with momentum or centred;
//   poolings of windows above 256 positions
//                                    the reference
//
// The choice is a function of the node and the extents of the call.

#include "backend/kernel/backends.h"
#include "backend/onednn/blocks.h"
#include "backend/onednn/convolution.h"
#include "backend/onednn/dense.h"
#include "backend/onednn/primitive_cache.h"
#include "base/cpu.h"

namespace plimsoll::backend::onednn {

class KernelLibrary {
 public:
  KernelLibrary(const CpuInfo& cpu, const KernelSetOptions& options);
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const Blocks& blocks() const { return blocks_; }
  cpu::Isa isa() const { return options_.isa; }

  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents, std::span<const std::string> forms) const;
  // Whether the call would run on a kernel that is not the reference's.
  bool own(const graph::Graph& graph, graph::NodeId node, int64_t batch,
           std::span<const int64_t> extents) const;
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const;
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) const;
  // The vendor's primitives that the node's kernels run at block and tail.
  std::vector<PrimitiveUse> primitives(const graph::Graph& graph, graph::NodeId node,
                                       int64_t batch) const;
  // The form that the node wants its weight packed to: its name, and what it takes.
  struct WantedLayout {
    std::string name;
    Bytes bytes;
  };
  std::optional<WantedLayout> wanted_layout(const graph::Graph& graph, graph::NodeId node) const;

 private:
  // Of operands without gaps.
  std::unique_ptr<Kernel> make_dense(const KernelRequest& request) const;
  // A kernel that is not the reference's, and its scratch; none: there is none for these types.
  std::unique_ptr<Kernel> make_own(const KernelRequest& request, const cpu::NodeFacts& facts) const;
  void check_packed(const KernelRequest& request, const cpu::NodeFacts& facts) const;
  std::optional<Bytes> own_scratch(const graph::Graph& graph, graph::NodeId node,
                                   const cpu::NodeFacts& facts) const;
  std::optional<Dense> dense(const cpu::NodeFacts& facts) const;
  std::optional<Convolution> convolution(const graph::Graph& graph, graph::NodeId node,
                                         const cpu::NodeFacts& facts) const;
  std::optional<ops::Window> model_rows(const graph::Graph& graph, graph::NodeId node,
                                        int64_t batch) const;
  Bytes scratch_at(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                   std::span<const int64_t> extents, std::span<const std::string> forms,
                   std::span<const int64_t> begin) const;
  void add_primitives(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::vector<PrimitiveUse>& uses) const;

  cpu::CpuOptions options_;
  Blocks blocks_;
  // Grows under const calls: answers are kept, and the backend is used from one host thread.
  mutable PrimitiveCache cache_;
  Convolutions convolutions_;
  DenseLayers dense_layers_;
};

}  // namespace plimsoll::backend::onednn
