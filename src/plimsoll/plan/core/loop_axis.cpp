#include "plan/core/loop_axis.h"

#include "graph/state_rows.h"
#include "graph/value_axes.h"

namespace plimsoll::plan {

LoopAxis::LoopAxis(std::string_view name)
    : name_(name),
      of_samples_(name == graph::kBatchAxis),
      of_states_(name == graph::kStateRowsAxis) {}

graph::AxisUse LoopAxis::use_in(const graph::ValueType& type) const {
  return of_samples_ ? graph::batch_use(type) : graph::AxisUse{};
}

}  // namespace plimsoll::plan
