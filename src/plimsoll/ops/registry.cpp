#include "ops/registry.h"

#include "graph/core_ops.h"
#include "ops/register.h"

namespace plimsoll::ops {
namespace {

// Those of the room `training`.
void register_training(graph::OpRegistry& registry) {
  register_accuracy(registry);
  register_adam(registry);
  register_adam_rows(registry);
  register_adaptive_optimizers(registry);
  register_binary_crossentropy(registry);
  register_categorical_crossentropy(registry);
  register_count(registry);
  register_ctc(registry);
  register_dense_crossentropy(registry);
  register_dense_grad_update(registry);
  register_dense_loss(registry);
  register_increment(registry);
  register_initializers(registry);
  register_loss_scale(registry);
  register_positive_bits(registry);
  register_rank_parts(registry);
  register_rank_sum(registry);
  register_regression_loss(registry);
  register_regularizer(registry);
  register_rmsprop(registry);
  register_schedule(registry);
  register_sgd(registry);
  register_sparse_crossentropy(registry);
  register_weight_average(registry);
  register_whole_optimizers(registry);
}

graph::OpRegistry make_registry() {
  graph::OpRegistry registry;
  graph::register_core_ops(registry);
  register_training(registry);
  register_activation(registry);
  register_arithmetic(registry);
  register_attention(registry);
  register_avg_pool2d(registry);
  register_batch_matmul(registry);
  register_batch_max(registry);
  register_batch_norm(registry);
  register_batch_norm_groups(registry);
  register_batch_norm_inference(registry);
  register_batch_rows(registry);
  register_batch_sum(registry);
  register_bias(registry);
  register_binary(registry);
  register_broadcast(registry);
  register_cast(registry);
  register_clip(registry);
  register_compare(registry);
  register_concat(registry);
  register_conv(registry);
  register_conv2d_pool(registry);
  register_dense(registry);
  register_directions(registry);
  register_divide(registry);
  register_dropout(registry);
  register_embedding(registry);
  register_extremum(registry);
  register_fold_batch(registry);
  register_gaussian_noise(registry);
  register_global_pool2d(registry);
  register_glu(registry);
  register_image_batches(registry);
  register_image_colors(registry);
  register_image_moves(registry);
  register_integer_pair(registry);
  register_l2_normalize(registry);
  register_layer_norm(registry);
  register_literal(registry);
  register_mask(registry);
  register_matrices(registry);
  register_singular_values(registry);
  register_max_pool2d(registry);
  register_max_pool3d(registry);
  register_norm_constraint(registry);
  register_order(registry);
  register_pad2d(registry);
  register_recurrent(registry);
  register_reshape(registry);
  register_resize2d(registry);
  register_rms_norm(registry);
  register_running(registry);
  register_scale_shift(registry);
  register_softmax(registry);
  register_spatial_dropout(registry);
  register_transpose(registry);
  register_unary(registry);
  register_upsample2d(registry);
  return registry;
}

}  // namespace

const graph::OpRegistry& registry() {
  static const graph::OpRegistry instance = make_registry();
  return instance;
}

}  // namespace plimsoll::ops
