#include <algorithm>
#include <array>

#include "backend/kernel/widened.h"
#include "backend/reference/problem.h"
#include "backend/reference/reference.h"
#include "base/bfloat16.h"

namespace plimsoll::backend {
namespace reference {

const KernelEntry* find_kernel(std::string_view op) {
  const std::array families = {activation_kernels(),
                               adaptive_optimizer_kernels(),
                               attention_kernels(),
                               batch_matmul_kernels(),
                               categorical_kernels(),
                               constraint_kernels(),
                               conv_kernels(),
                               conv2d_pool_kernels(),
                               ctc_kernels(),
                               dense_crossentropy_kernels(),
                               dense_grad_update_kernels(),
                               dense_kernels(),
                               dense_loss_kernels(),
                               eigenvector_kernels(),
                               elementwise_kernels(),
                               embedding_kernels(),
                               image_batch_kernels(),
                               image_kernels(),
                               initializer_kernels(),
                               layer_norm_kernels(),
                               logic_kernels(),
                               loss_kernels(),
                               matrix_kernels(),
                               max_pool3d_kernels(),
                               metric_kernels(),
                               move_kernels(),
                               norm_groups_kernels(),
                               norm_kernels(),
                               optimizer_kernels(),
                               pool_kernels(),
                               rank_part_kernels(),
                               rank_sum_kernels(),
                               recurrent_kernels(),
                               sequence_kernels(),
                               singular_value_kernels(),
                               singular_vector_kernels(),
                               softmax_kernels(),
                               sum_kernels(),
                               training_kernels(),
                               unary_kernels(),
                               upsample_kernels()};
  for (std::span<const KernelEntry> family : families) {
    for (const KernelEntry& entry : family) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

Problem make_problem(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                     std::span<const int64_t> extents, std::span<const std::string> forms,
                     std::span<const int64_t> begin) {
  const graph::Node& n = graph.node(node);
  Problem problem{{n.attributes,
                   input_types(graph, node),
                   output_types(graph, node),
                   axes_of(graph, node),
                   {extents.begin(), extents.end()},
                   {}},
                  n,
                  batch,
                  {forms.begin(), forms.end()}};
  take_row_block(begin, problem);
  return problem;
}

namespace {

const KernelEntry& get_kernel(const graph::Node& node) {
  if (const KernelEntry* entry = find_kernel(node.op->name())) return *entry;
  throw Error(ErrorKind::kModel, node.name +
                                     ": expected an operator with a reference kernel, "
                                     "received \"" +
                                     std::string(node.op->name()) + "\". Use another backend.");
}

Bfloat16Conversion plain_conversion() {
  return {.widen =
              [](const uint16_t* bits, float* numbers, int64_t count) {
                std::transform(bits, bits + count, numbers, float_of_bfloat16);
              },
          .round =
              [](const float* numbers, uint16_t* bits, int64_t count) {
                std::transform(numbers, numbers + count, bits, bfloat16_of_float);
              }};
}

// Kernels compute in float32 and float64: bfloat16 is widened around them.
bool is_widened(const KernelEntry& entry, const Problem& problem) {
  return !entry.moves && has_bfloat16(problem.inputs, problem.outputs);
}

}  // namespace
}  // namespace reference

bool reference_moves(std::string_view op) {
  const reference::KernelEntry* entry = reference::find_kernel(op);
  return entry != nullptr && entry->moves;
}

bool has_reference_kernel(std::string_view op) { return reference::find_kernel(op) != nullptr; }

std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request) {
  const graph::Node& node = request.graph.node(request.node);
  const reference::KernelEntry& entry = reference::get_kernel(node);
  return with_context("while making the kernel of " + node.name, [&] {
    reference::Problem problem = reference::make_problem(
        request.graph, request.node, request.batch, request.extents, request.forms, request.begin);
    if (!reference::is_widened(entry, problem)) return entry.make(problem);
    widen(problem);
    return make_widened(entry.make(problem), request, reference::plain_conversion());
  });
}

Bytes reference_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                        std::span<const int64_t> extents, std::span<const std::string> forms) {
  const reference::KernelEntry& entry = reference::get_kernel(graph.node(node));
  // None of these kernels asks where in an image its rows lie.
  reference::Problem problem = reference::make_problem(graph, node, batch, extents, forms, {});
  if (!reference::is_widened(entry, problem)) {
    return entry.scratch == nullptr ? Bytes(0) : entry.scratch(problem);
  }
  widen(problem);
  return widened_scratch(graph, node, batch, extents, forms) +
         (entry.scratch == nullptr ? Bytes(0) : entry.scratch(problem));
}

bool reference_row_exact(const graph::Graph& graph, graph::NodeId node, int axis) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  return reference::get_kernel(graph.node(node)).row_exact &&
         axes[static_cast<size_t>(axis)].kind == graph::AxisKind::kMap;
}

}  // namespace plimsoll::backend
