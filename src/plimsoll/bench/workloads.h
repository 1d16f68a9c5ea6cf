#pragma once

// The workloads that speed is measured on, built in: networks that people ask about when memory
// runs out, and five larger ones. `tools/bench` measures the same ones from files, beside other
// frameworks; here no Python and no file is needed.

#include <string>
#include <string_view>
#include <vector>

#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::bench {

struct Workload {
  std::string name;
  layers::Model model;
  layers::CompileOptions compile;  // Adam, and the workload's loss and metrics
  int64_t batch = 32;
  int64_t steps = 10;              // of a short measurement
  DType stored = DType::kFloat32;  // how its samples lie in a file, where they are no tokens
};

// The small ones first, in the order in which they are run.
const std::vector<std::string>& workload_names();
// Throws kConfig with a did-you-mean.
Workload make_workload(std::string_view name);

// networks.cpp: with Keras's own sizes. GPT-small's and GPT's positions, which the Keras
// networks hold as constants, are left out: one addition.
layers::Model resnet50();
layers::Model mobilenet_v2();
layers::Model unet(int64_t side, int64_t filters);
layers::Model gpt(int64_t blocks, int64_t width, int64_t heads, int64_t length, int64_t vocabulary);

}  // namespace plimsoll::bench
