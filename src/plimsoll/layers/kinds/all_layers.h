#pragma once

// One maker per layer file; layer_registry.cpp lists them. Nothing registers itself.

#include "layers/model/layer.h"

namespace plimsoll::layers {

using LayerMaker = std::shared_ptr<const Layer> (*)(const Config& config);

std::shared_ptr<const Layer> make_activation(const Config& config);
std::shared_ptr<const Layer> make_activity_regularization(const Config& config);
std::shared_ptr<const Layer> make_adaptive_average_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_adaptive_average_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_adaptive_average_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_adaptive_max_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_adaptive_max_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_adaptive_max_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_add(const Config& config);
std::shared_ptr<const Layer> make_attention(const Config& config);
std::shared_ptr<const Layer> make_auto_contrast(const Config& config);
std::shared_ptr<const Layer> make_average(const Config& config);
std::shared_ptr<const Layer> make_average_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_average_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_average_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_batch_normalization(const Config& config);
std::shared_ptr<const Layer> make_bidirectional(const Config& config);
std::shared_ptr<const Layer> make_center_crop(const Config& config);
std::shared_ptr<const Layer> make_concatenate(const Config& config);
std::shared_ptr<const Layer> make_conv1d(const Config& config);
std::shared_ptr<const Layer> make_conv1d_transpose(const Config& config);
std::shared_ptr<const Layer> make_conv2d(const Config& config);
std::shared_ptr<const Layer> make_conv2d_transpose(const Config& config);
std::shared_ptr<const Layer> make_conv3d(const Config& config);
std::shared_ptr<const Layer> make_conv3d_transpose(const Config& config);
std::shared_ptr<const Layer> make_cropping1d(const Config& config);
std::shared_ptr<const Layer> make_cropping2d(const Config& config);
std::shared_ptr<const Layer> make_cropping3d(const Config& config);
std::shared_ptr<const Layer> make_dense(const Config& config);
std::shared_ptr<const Layer> make_depthwise_conv1d(const Config& config);
std::shared_ptr<const Layer> make_depthwise_conv2d(const Config& config);
std::shared_ptr<const Layer> make_dot(const Config& config);
std::shared_ptr<const Layer> make_dropout(const Config& config);
std::shared_ptr<const Layer> make_elu(const Config& config);
std::shared_ptr<const Layer> make_embedding(const Config& config);
std::shared_ptr<const Layer> make_flatten(const Config& config);
std::shared_ptr<const Layer> make_gaussian_dropout(const Config& config);
std::shared_ptr<const Layer> make_gaussian_noise(const Config& config);
std::shared_ptr<const Layer> make_global_average_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_global_average_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_global_average_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_global_max_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_global_max_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_global_max_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_group_normalization(const Config& config);
std::shared_ptr<const Layer> make_gru(const Config& config);
std::shared_ptr<const Layer> make_identity(const Config& config);
std::shared_ptr<const Layer> make_input_layer(const Config& config);
std::shared_ptr<const Layer> make_layer_normalization(const Config& config);
std::shared_ptr<const Layer> make_leaky_re_lu(const Config& config);
std::shared_ptr<const Layer> make_lstm(const Config& config);
std::shared_ptr<const Layer> make_masking(const Config& config);
std::shared_ptr<const Layer> make_max_pooling1d(const Config& config);
std::shared_ptr<const Layer> make_max_pooling2d(const Config& config);
std::shared_ptr<const Layer> make_max_pooling3d(const Config& config);
std::shared_ptr<const Layer> make_maximum(const Config& config);
std::shared_ptr<const Layer> make_minimum(const Config& config);
std::shared_ptr<const Layer> make_multi_head_attention(const Config& config);
std::shared_ptr<const Layer> make_multiply(const Config& config);
std::shared_ptr<const Layer> make_normalization(const Config& config);
std::shared_ptr<const Layer> make_operation(const Config& config);
std::shared_ptr<const Layer> make_p_re_lu(const Config& config);
std::shared_ptr<const Layer> make_permute(const Config& config);
std::shared_ptr<const Layer> make_random_brightness(const Config& config);
std::shared_ptr<const Layer> make_random_color_degeneration(const Config& config);
std::shared_ptr<const Layer> make_random_color_jitter(const Config& config);
std::shared_ptr<const Layer> make_random_contrast(const Config& config);
std::shared_ptr<const Layer> make_random_crop(const Config& config);
std::shared_ptr<const Layer> make_random_erasing(const Config& config);
std::shared_ptr<const Layer> make_random_flip(const Config& config);
std::shared_ptr<const Layer> make_random_gaussian_blur(const Config& config);
std::shared_ptr<const Layer> make_random_grayscale(const Config& config);
std::shared_ptr<const Layer> make_random_hue(const Config& config);
std::shared_ptr<const Layer> make_random_invert(const Config& config);
std::shared_ptr<const Layer> make_random_posterization(const Config& config);
std::shared_ptr<const Layer> make_random_rotation(const Config& config);
std::shared_ptr<const Layer> make_random_saturation(const Config& config);
std::shared_ptr<const Layer> make_random_sharpness(const Config& config);
std::shared_ptr<const Layer> make_random_shear(const Config& config);
std::shared_ptr<const Layer> make_random_translation(const Config& config);
std::shared_ptr<const Layer> make_random_zoom(const Config& config);
std::shared_ptr<const Layer> make_re_lu(const Config& config);
std::shared_ptr<const Layer> make_repeat_vector(const Config& config);
std::shared_ptr<const Layer> make_rescaling(const Config& config);
std::shared_ptr<const Layer> make_reshape(const Config& config);
std::shared_ptr<const Layer> make_resizing(const Config& config);
std::shared_ptr<const Layer> make_rms_normalization(const Config& config);
std::shared_ptr<const Layer> make_separable_conv1d(const Config& config);
std::shared_ptr<const Layer> make_separable_conv2d(const Config& config);
std::shared_ptr<const Layer> make_simple_rnn(const Config& config);
std::shared_ptr<const Layer> make_softmax(const Config& config);
std::shared_ptr<const Layer> make_solarization(const Config& config);
std::shared_ptr<const Layer> make_spatial_dropout1d(const Config& config);
std::shared_ptr<const Layer> make_spatial_dropout2d(const Config& config);
std::shared_ptr<const Layer> make_spatial_dropout3d(const Config& config);
std::shared_ptr<const Layer> make_subtract(const Config& config);
std::shared_ptr<const Layer> make_time_distributed(const Config& config);
std::shared_ptr<const Layer> make_unit_normalization(const Config& config);
std::shared_ptr<const Layer> make_up_sampling1d(const Config& config);
std::shared_ptr<const Layer> make_up_sampling2d(const Config& config);
std::shared_ptr<const Layer> make_up_sampling3d(const Config& config);
std::shared_ptr<const Layer> make_zero_padding1d(const Config& config);
std::shared_ptr<const Layer> make_zero_padding2d(const Config& config);
std::shared_ptr<const Layer> make_zero_padding3d(const Config& config);

}  // namespace plimsoll::layers
