#pragma once

// What a reference kernel is made for, and the table of kernels by operator name.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/kernel/row_block.h"
#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::backend::reference {

// A block of an image's rows stands here as an image (backend/kernel/row_block.h).
struct Problem : NodeProblem {
  const graph::Node& node;
  int64_t batch = 1;
  std::vector<std::string> forms;  // one per input; "" plain

  graph::NodeTypes types() const { return {attributes, inputs, outputs}; }
  // Position of the axis, −1: there is none.
  int axis(std::string_view name) const { return find_axis(axes, name); }
  // Extent of that axis in a call; `whole` where there is no such axis.
  int64_t extent(std::string_view name, int64_t whole) const {
    const int at = axis(name);
    return at < 0 ? whole : extents[static_cast<size_t>(at)];
  }
};

// `begin`: of the block; empty: the first.
Problem make_problem(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                     std::span<const int64_t> extents, std::span<const std::string> forms,
                     std::span<const int64_t> begin);

// One operator's kernel. Kernels are row-exact on map axes unless `row_exact` is false.
struct KernelEntry {
  std::string_view op;
  std::unique_ptr<Kernel> (*make)(const Problem&);
  Bytes (*scratch)(const Problem&) = nullptr;  // null: none
  bool row_exact = true;
  bool moves = false;  // bits of elements of any size; the others compute in float32 or float64
};

// Kernels of one family each; table.cpp lists them all.
std::span<const KernelEntry> activation_kernels();
std::span<const KernelEntry> adaptive_optimizer_kernels();
std::span<const KernelEntry> attention_kernels();
std::span<const KernelEntry> batch_matmul_kernels();
std::span<const KernelEntry> categorical_kernels();
std::span<const KernelEntry> constraint_kernels();
std::span<const KernelEntry> conv_kernels();
std::span<const KernelEntry> conv2d_pool_kernels();
std::span<const KernelEntry> ctc_kernels();
std::span<const KernelEntry> dense_crossentropy_kernels();
std::span<const KernelEntry> dense_grad_update_kernels();
std::span<const KernelEntry> dense_kernels();
std::span<const KernelEntry> dense_loss_kernels();
std::span<const KernelEntry> eigenvector_kernels();
std::span<const KernelEntry> elementwise_kernels();
std::span<const KernelEntry> embedding_kernels();
std::span<const KernelEntry> image_batch_kernels();
std::span<const KernelEntry> image_kernels();
std::span<const KernelEntry> initializer_kernels();
std::span<const KernelEntry> layer_norm_kernels();
std::span<const KernelEntry> logic_kernels();
std::span<const KernelEntry> loss_kernels();
std::span<const KernelEntry> matrix_kernels();
std::span<const KernelEntry> max_pool3d_kernels();
std::span<const KernelEntry> metric_kernels();
std::span<const KernelEntry> move_kernels();
std::span<const KernelEntry> norm_groups_kernels();
std::span<const KernelEntry> norm_kernels();
std::span<const KernelEntry> optimizer_kernels();
std::span<const KernelEntry> pool_kernels();
std::span<const KernelEntry> rank_part_kernels();
std::span<const KernelEntry> rank_sum_kernels();
std::span<const KernelEntry> recurrent_kernels();
std::span<const KernelEntry> sequence_kernels();
std::span<const KernelEntry> singular_value_kernels();
std::span<const KernelEntry> singular_vector_kernels();
std::span<const KernelEntry> softmax_kernels();
std::span<const KernelEntry> sum_kernels();
std::span<const KernelEntry> training_kernels();
std::span<const KernelEntry> unary_kernels();
std::span<const KernelEntry> upsample_kernels();

// nullptr: none.
const KernelEntry* find_kernel(std::string_view op);

// A kernel from a callable (const KernelCall&) that neither throws nor allocates.
template <typename Body>
class BodyKernel final : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  void run(const KernelCall& call) const noexcept override { body_(call); }

 private:
  Body body_;
};
template <typename Body>
std::unique_ptr<Kernel> kernel_of(Body body) {
  return std::make_unique<BodyKernel<Body>>(std::move(body));
}

// Calls make(float()) or make(double()).
template <typename Make>
std::unique_ptr<Kernel> for_float(DType dtype, Make make) {
  if (dtype == DType::kFloat32) return make(float());
  if (dtype == DType::kFloat64) return make(double());
  throw Error(ErrorKind::kBackend, "reference: expected float32 or float64, received " +
                                       std::string(to_string(dtype)) + ". Put a cast before it.");
}

}  // namespace plimsoll::backend::reference
