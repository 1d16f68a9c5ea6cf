// mean_squared_error and mean_absolute_error over the last dimension.

#include "ops/register.h"
#include "ops/training/sample_loss.h"

namespace plimsoll::ops {

void register_regression_loss(OpRegistry& registry) {
  add_sample_loss(registry, "mean_squared_error", "mean_squared_error_grad", TargetKind::kDense,
                  3.0);
  add_sample_loss(registry, "mean_absolute_error", "mean_absolute_error_grad", TargetKind::kDense,
                  3.0);
}

}  // namespace plimsoll::ops
