#pragma once

// The kernels of this backend: the vendor's primitives in front of our own (cpu/kernel_library.h).
//
//   conv2d, conv3d, their gradients  float32; bfloat16 where it is multiplied in pairs
//   conv2d_pool                      the convolution; the pooling is our own
//   dense, its gradients             float32, with AVX-512, more units than a vector has lanes
//
// but where our own are faster: see there.

#include "backend/cpu/kernel_library.h"
#include "backend/onednn/convolution.h"
#include "backend/onednn/dense.h"
#include "backend/onednn/primitive_cache.h"

namespace plimsoll::backend::onednn {

class PrimitiveLibrary final : public cpu::KernelLibrary {
 public:
  PrimitiveLibrary(const CpuInfo& cpu, const KernelSetOptions& options);

  // The vendor's primitives that the node's kernels run at block and tail.
  std::vector<PrimitiveUse> primitives(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                                       int64_t lanes) const;

 private:
  bool adds(const graph::Graph& graph, graph::NodeId node,
            const cpu::NodeFacts& facts) const override;
  std::optional<Bytes> added_scratch(const graph::Graph& graph, graph::NodeId node,
                                     const cpu::NodeFacts& facts) const override;
  std::unique_ptr<Kernel> make_added(const KernelRequest& request,
                                     const cpu::NodeFacts& facts) const override;
  std::optional<cpu::WantedLayout> added_layout(const graph::Graph& graph, graph::NodeId node,
                                                const cpu::NodeFacts& facts) const override;
  std::unique_ptr<Kernel> make_added_pack(const cpu::NodeFacts& facts) const override;

  std::optional<Dense> dense(const cpu::NodeFacts& facts) const;
  std::optional<Convolution> convolution(const graph::Graph& graph, graph::NodeId node,
                                         const cpu::NodeFacts& facts) const;
  std::optional<ops::Window> model_rows(const graph::Graph& graph, graph::NodeId node,
                                        int64_t batch) const;
  void add_primitives(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                      std::span<const int64_t> extents, std::vector<PrimitiveUse>& uses) const;

  // Grows under const calls: answers are kept, and the backend is used from one host thread.
  mutable PrimitiveCache cache_;
  Convolutions convolutions_;
  DenseLayers dense_layers_;
};

}  // namespace plimsoll::backend::onednn
