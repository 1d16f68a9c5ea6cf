#pragma once

// One function per operator file; registry.cpp calls them all. Nothing registers itself.

#include "graph/op.h"

namespace plimsoll::ops {

void register_accuracy(graph::OpRegistry& registry);
void register_activation(graph::OpRegistry& registry);
void register_adam(graph::OpRegistry& registry);
void register_adam_rows(graph::OpRegistry& registry);
void register_adaptive_optimizers(graph::OpRegistry& registry);
void register_arithmetic(graph::OpRegistry& registry);
void register_attention(graph::OpRegistry& registry);
void register_avg_pool2d(graph::OpRegistry& registry);
void register_batch_matmul(graph::OpRegistry& registry);
void register_batch_max(graph::OpRegistry& registry);
void register_batch_norm(graph::OpRegistry& registry);
void register_batch_norm_groups(graph::OpRegistry& registry);
void register_batch_norm_inference(graph::OpRegistry& registry);
void register_batch_rows(graph::OpRegistry& registry);
void register_batch_sum(graph::OpRegistry& registry);
void register_bias(graph::OpRegistry& registry);
void register_binary(graph::OpRegistry& registry);
void register_binary_crossentropy(graph::OpRegistry& registry);
void register_broadcast(graph::OpRegistry& registry);
void register_cast(graph::OpRegistry& registry);
void register_categorical_crossentropy(graph::OpRegistry& registry);
void register_clip(graph::OpRegistry& registry);
void register_compare(graph::OpRegistry& registry);
void register_concat(graph::OpRegistry& registry);
void register_conv(graph::OpRegistry& registry);
void register_conv2d_pool(graph::OpRegistry& registry);
void register_count(graph::OpRegistry& registry);
void register_ctc(graph::OpRegistry& registry);
void register_dense(graph::OpRegistry& registry);
void register_dense_crossentropy(graph::OpRegistry& registry);
void register_dense_grad_update(graph::OpRegistry& registry);
void register_dense_loss(graph::OpRegistry& registry);
void register_directions(graph::OpRegistry& registry);
void register_divide(graph::OpRegistry& registry);
void register_dropout(graph::OpRegistry& registry);
void register_embedding(graph::OpRegistry& registry);
void register_extremum(graph::OpRegistry& registry);
void register_fold_batch(graph::OpRegistry& registry);
void register_gaussian_noise(graph::OpRegistry& registry);
void register_global_pool2d(graph::OpRegistry& registry);
void register_glu(graph::OpRegistry& registry);
void register_image_batches(graph::OpRegistry& registry);
void register_image_colors(graph::OpRegistry& registry);
void register_image_moves(graph::OpRegistry& registry);
void register_increment(graph::OpRegistry& registry);
void register_initializers(graph::OpRegistry& registry);
void register_integer_pair(graph::OpRegistry& registry);
void register_l2_normalize(graph::OpRegistry& registry);
void register_layer_norm(graph::OpRegistry& registry);
void register_literal(graph::OpRegistry& registry);
void register_loss_scale(graph::OpRegistry& registry);
void register_mask(graph::OpRegistry& registry);
void register_matrices(graph::OpRegistry& registry);
void register_singular_values(graph::OpRegistry& registry);
void register_max_pool2d(graph::OpRegistry& registry);
void register_max_pool3d(graph::OpRegistry& registry);
void register_norm_constraint(graph::OpRegistry& registry);
void register_order(graph::OpRegistry& registry);
void register_pad2d(graph::OpRegistry& registry);
void register_positive_bits(graph::OpRegistry& registry);
void register_rank_parts(graph::OpRegistry& registry);
void register_rank_sum(graph::OpRegistry& registry);
void register_recurrent(graph::OpRegistry& registry);
void register_regression_loss(graph::OpRegistry& registry);
void register_regularizer(graph::OpRegistry& registry);
void register_reshape(graph::OpRegistry& registry);
void register_resize2d(graph::OpRegistry& registry);
void register_rms_norm(graph::OpRegistry& registry);
void register_rmsprop(graph::OpRegistry& registry);
void register_running(graph::OpRegistry& registry);
void register_scale_shift(graph::OpRegistry& registry);
void register_schedule(graph::OpRegistry& registry);
void register_sgd(graph::OpRegistry& registry);
void register_softmax(graph::OpRegistry& registry);
void register_sparse_crossentropy(graph::OpRegistry& registry);
void register_spatial_dropout(graph::OpRegistry& registry);
void register_transpose(graph::OpRegistry& registry);
void register_unary(graph::OpRegistry& registry);
void register_upsample2d(graph::OpRegistry& registry);
void register_weight_average(graph::OpRegistry& registry);
void register_whole_optimizers(graph::OpRegistry& registry);

}  // namespace plimsoll::ops
