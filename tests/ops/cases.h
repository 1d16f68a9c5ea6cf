#pragma once

// All cases, by the file that holds them; all_cases() lists them one after the other.

#include <vector>

#include "ops/case.h"

namespace plimsoll::ops_test {

std::vector<Case> accuracy_cases();
std::vector<Case> activation_cases();
std::vector<Case> arithmetic_cases();
std::vector<Case> attention_cases();
std::vector<Case> batch_norm_cases();
std::vector<Case> bias_cases();
std::vector<Case> clip_cases();
std::vector<Case> conv2d_cases();
std::vector<Case> conv2d_pool_cases();
std::vector<Case> conv3d_cases();
std::vector<Case> dense_cases();
std::vector<Case> dense_crossentropy_cases();
std::vector<Case> dropout_cases();
std::vector<Case> embedding_cases();
std::vector<Case> image_cases();
std::vector<Case> initializer_cases();
std::vector<Case> layer_norm_cases();
std::vector<Case> loss_cases();
std::vector<Case> matrix_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> pool_cases();
std::vector<Case> recurrent_cases();
std::vector<Case> sequence_cases();
std::vector<Case> shape_cases();
std::vector<Case> softmax_cases();
std::vector<Case> state_cases();
std::vector<Case> sum_cases();
std::vector<Case> unary_cases();

std::vector<Case> all_cases();

}  // namespace plimsoll::ops_test
