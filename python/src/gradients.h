#pragma once

// Steps of a loop that is somebody's own, on state that lies in Keras's variables: gradients are
// added up over calls, read, and applied (train/accumulator.h).

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_io.h"
#include "data/dataset.h"
#include "run/run.h"
#include "state.h"
#include "train/accumulator.h"

namespace plimsoll::python {

class Gradients {
 public:
  using Given = std::vector<std::pair<std::string, Array>>;  // by the weight's name

  // Whether calls count by their samples, or each alike; the next draws are those of `step`.
  void begin(bool sums, int64_t step);

  // The loss of all rows of `dataset`; `state` holds the weights. Data that are refused change
  // nothing; an error on the way forgets what was added up.
  double accumulate(run::Run& run, const run::StepsRequest& request, TensorSource& state,
                    data::Dataset& dataset, run::Listener& listener);
  // One update of what `state` holds, weights and the optimizer's variables, by what was added up,
  // or by `given`. Sample weights are those of the last batch.
  void apply(run::Run& run, run::StepsRequest request, TensorSource& state, const Given& given,
             run::Listener& listener);
  // What apply will use, as arrays of their own by the weight's name. With the interpreter's lock.
  nanobind::dict read(run::Run& run, const std::map<std::string, std::vector<int64_t>>& shapes);
  void forget(run::Run& run);
  bool pending() const { return sums_.pending(); }

 private:
  train::Accumulator sums_{train::Accumulation::kMean};
  run::StepsRequest request_;  // of the session that holds them
};

}  // namespace plimsoll::python
