#pragma once

// Which kernel runs a node: what another backend adds, our own loops, or the reference's.
//
//   conv2d of 3 × 3 windows without strides, 16 channels and 7 columns or more, and its gradients;
//   conv2d_pool of such and 2 × 2    conv/winograd.h; float32
//   conv2d_grad_kernel of single points, of few channels and filters over many positions
//                                    product/small_gradient.h; float32
//   conv2d_grad_kernel of 8 channels and 12 filters or more, undivided (without AVX-512: of 3); the
//   gradient through strided single points; without AVX-512 all of single points
//                                    conv/kernel_grad.h, product/dense_shape.h; float32, and
//                                    bfloat16 where it is multiplied in pairs
//   gradients of conv2d channel by channel: to the kernel, and to the source of more than 3 × 3
//   points without strides           conv/depthwise.h; float32, bfloat16 widened
//   other conv2d, conv2d_pool and gradients
//                                    what is added; alone: conv/patches.h, conv/depthwise.h
//   gradients of conv2d_pool, and with few channels all of it
//                                    conv/conv_pool.h, conv/few_channels.h
//   dense and its gradient to the source over few rows with many weights
//                                    product/few_rows.h; float32
//   dense, its gradients             with AVX-512 and more units than a vector has lanes what is
//                                    added; else, or alone, product/dense_shape.h
//   pack                             of its own layouts, or what is added
//   broadcast, sum_to, apply_mask, select, dropout of channels
//                                    our own: pointwise/stretch.h, pointwise/masks.cpp
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
//                                    the reference; by samples on all threads where it maps them
//                                    (shared_reference.h)
//
// The choice is a function of the node and the extents of the call. Alone means that no backend
// adds anything: then no product of a network is left to the reference.

#include <memory>
#include <optional>
#include <string>

#include "backend/cpu/blocks.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/kernel/backends.h"
#include "base/cpu.h"

namespace plimsoll::backend::cpu {

// The form that a node wants its weight packed to: its name, and what it takes.
struct WantedLayout {
  std::string name;
  Bytes bytes;
};

// A node of bfloat16 as one of float32, where that computes; nullopt: none, or it only moves.
std::optional<NodeFacts> widened_facts(const NodeFacts& facts);
// Throws kModel unless the node packs so many elements to so many bytes.
void check_pack(const NodeFacts& facts, int64_t elements, Bytes bytes, DType dtype);

class KernelLibrary {
 public:
  // `alone`: nothing is added to it.
  KernelLibrary(const CpuInfo& cpu, const KernelSetOptions& options, bool alone);
  virtual ~KernelLibrary() = default;
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const Blocks& blocks() const { return blocks_; }
  Isa isa() const { return options_.isa; }

  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents, std::span<const std::string> forms) const;
  // Whether the call would run on a kernel that is not the reference's.
  bool own(const graph::Graph& graph, graph::NodeId node, int64_t batch,
           std::span<const int64_t> extents) const;
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const;
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) const;
  std::optional<WantedLayout> wanted_layout(const graph::Graph& graph, graph::NodeId node) const;

 protected:
  const CpuOptions& options() const { return options_; }
  // What a kernel that is not the reference's needs; none: there is none for these types.
  std::optional<Bytes> own_scratch(const graph::Graph& graph, graph::NodeId node,
                                   const NodeFacts& facts) const;

  // What a backend adds goes before our own. The facts are of one call.
  virtual bool adds(const graph::Graph&, graph::NodeId, const NodeFacts&) const { return false; }
  virtual std::optional<Bytes> added_scratch(const graph::Graph&, graph::NodeId,
                                             const NodeFacts&) const {
    return std::nullopt;
  }
  virtual std::unique_ptr<Kernel> make_added(const KernelRequest&, const NodeFacts&) const {
    return nullptr;
  }
  // This is asked for a full block at the smallest batch that holds one.
  virtual std::optional<WantedLayout> added_layout(const graph::Graph&, graph::NodeId,
                                                   const NodeFacts&) const {
    return std::nullopt;
  }
  // Null: the layout is not its own.
  virtual std::unique_ptr<Kernel> make_added_pack(const NodeFacts&) const { return nullptr; }

 private:
  // The operands have no gaps.
  std::unique_ptr<Kernel> make_dense(const KernelRequest& request) const;
  std::unique_ptr<Kernel> make_pack(const NodeFacts& facts) const;
  // A kernel that is not the reference's; null: there is none for these types.
  std::unique_ptr<Kernel> make_own(const KernelRequest& request, const NodeFacts& facts) const;
  void check_packed(const KernelRequest& request, const NodeFacts& facts) const;
  Bytes scratch_at(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                   std::span<const int64_t> extents, std::span<const std::string> forms,
                   std::span<const int64_t> begin) const;

  CpuOptions options_;
  Blocks blocks_;
};

}  // namespace plimsoll::backend::cpu
