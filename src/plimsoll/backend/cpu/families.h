#pragma once

// The kernels of this folder by family. A maker answers with no kernel where the node is not its
// own, or asks for something that it does not have; operands are dense unless it says
// otherwise.

#include "backend/cpu/cpu_kernels.h"

namespace plimsoll::backend::cpu {

// add, subtract, multiply, accumulate, scale_shift, bias_add, cast, dropout.
CpuKernel make_elementwise(const NodeFacts& facts, const CpuOptions& options);
// Activations and their gradients, from ReLU's bits too.
CpuKernel make_activations(const NodeFacts& facts, const CpuOptions& options);
// concat, slice, zero_pad2d, crop2d; of any element.
CpuKernel make_moving(const NodeFacts& facts, const CpuOptions& options);
// broadcast, of any element, and sum_to.
CpuKernel make_stretched(const NodeFacts& facts, const CpuOptions& options);
// apply_mask and select, of any element; spatial_dropout.
CpuKernel make_masks(const NodeFacts& facts, const CpuOptions& options);
// Images resized, cropped, flipped, warped and recoloured.
CpuKernel make_images(const NodeFacts& facts, const CpuOptions& options);
// max_pool2d, avg_pool2d and their gradients.
CpuKernel make_pooling(const NodeFacts& facts, const CpuOptions& options);
// Per-channel reductions and maps: bias_grad, BatchNormalization, global poolings.
CpuKernel make_channels(const NodeFacts& facts, const CpuOptions& options);
// BatchNormalization by groups of samples, of float32 and bfloat16.
CpuKernel make_channel_groups(const NodeFacts& facts, const CpuOptions& options);
// conv2d_pool_grad_kernel and conv2d_pool_grad_input, undilated.
CpuKernel make_conv_pool(const NodeFacts& facts, const CpuOptions& options);
// conv2d, conv2d_pool and conv2d_grad_input of 3 × 3 windows (winograd.h).
CpuKernel make_winograd(const NodeFacts& facts, const CpuOptions& options);
// conv2d_grad_kernel of 3 × 3 windows (winograd.h).
CpuKernel make_winograd_kernel_grad(const NodeFacts& facts, const CpuOptions& options);
// conv2d_grad_kernel (kernel_grad.h).
CpuKernel make_kernel_grad(const NodeFacts& facts, const CpuOptions& options);
// conv2d and its gradients of single channels, where these kernels are alone (depthwise.h).
CpuKernel make_depthwise(const NodeFacts& facts, const CpuOptions& options);
// conv2d and its gradients and conv2d_pool of any shape, where these kernels are alone; beside
// others those of sequences (patches.h).
CpuKernel make_patch_convolution(const NodeFacts& facts, const CpuOptions& options);
// lstm, gru, simple_rnn and their gradients.
CpuKernel make_recurrent(const NodeFacts& facts, const CpuOptions& options);
// embedding, the gradient of its table, adam_rows.
CpuKernel make_embedding(const NodeFacts& facts, const CpuOptions& options);
// attention and its gradients; operands may be cut along queries and keys.
CpuKernel make_attention(const NodeFacts& facts, const CpuOptions& options);
// Activations of bfloat16 that have no loop of vectors.
CpuKernel make_widened_rows(const NodeFacts& facts, const CpuOptions& options);
// layer_norm, softmax and their gradients.
CpuKernel make_rows(const NodeFacts& facts, const CpuOptions& options);
// log_sum_exp and softmax_crossentropy_grad; operands may be cut along the classes.
CpuKernel make_class_rows(const NodeFacts& facts, const CpuOptions& options);
// dense_crossentropy and its gradient.
CpuKernel make_dense_crossentropy(const NodeFacts& facts, const CpuOptions& options);
// conv2d_pool over few channels (few_channels.h).
CpuKernel make_few_channels(const NodeFacts& facts, const CpuOptions& options);
// dense with at most so many units, not cut, and its gradients.
int64_t most_units(Isa isa);
CpuKernel make_few_units(const NodeFacts& facts, const CpuOptions& options);
// dense with more units, or cut along them, convolutions of single points, and their gradients:
// what read_packed_dense (dense_shape.h) says.
CpuKernel make_packed_dense(const NodeFacts& facts, const CpuOptions& options);
// dense_grad_input over at most so many rows, not cut, with AVX-512.
inline constexpr int64_t kMostTransposedRows = 128;
CpuKernel make_transposed_dense(const NodeFacts& facts, const CpuOptions& options);
// dense_grad_update.
CpuKernel make_dense_grad_update(const NodeFacts& facts, const CpuOptions& options);
// Optimizer updates.
CpuKernel make_optimizer(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
