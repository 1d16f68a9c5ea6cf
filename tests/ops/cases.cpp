#include "ops/cases.h"

namespace plimsoll::ops_test {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& some :
       {accuracy_cases(),    activation_cases(), arithmetic_cases(), attention_cases(),
        batch_norm_cases(),  bias_cases(),       clip_cases(),       conv2d_cases(),
        conv2d_pool_cases(), conv3d_cases(),     dense_cases(),      dense_crossentropy_cases(),
        dropout_cases(),     embedding_cases(),  image_cases(),      initializer_cases(),
        layer_norm_cases(),  loss_cases(),       matrix_cases(),     optimizer_cases(),
        pool_cases(),        recurrent_cases(),  sequence_cases(),   shape_cases(),
        softmax_cases(),     state_cases(),      sum_cases(),        unary_cases()}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

}  // namespace plimsoll::ops_test
