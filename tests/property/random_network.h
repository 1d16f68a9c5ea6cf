#pragma once

// Random training programs over the real operators.
//
// A seed gives the same network in every program of its set: a training step, a short last batch,
// and an evaluation (dropout off, moving statistics). Layers, shapes, branches, shared weights,
// losses, regularizers, optimizer and metrics are drawn; everything is small, so that thousands of
// steps run in seconds.

#include <cstdint>
#include <string>

#include "graph/program.h"

namespace plimsoll::property {

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t next();
  // From least to most, both included.
  int64_t between(int64_t least, int64_t most);
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  uint64_t state_;
};

struct NetworkOptions {
  bool one_image = false;  // training on one sample at a time, and no other program
  bool mixed = false;      // values and the factors of products are bfloat16
  // Every network normalizes its batch, by groups of a few samples, one size a network.
  bool groups = false;
};
graph::ProgramSet random_network(uint64_t seed, const NetworkOptions& options = {});

}  // namespace plimsoll::property
