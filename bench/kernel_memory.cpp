// What the backend holds outside of any arena: process memory before it is made, after, and as the
// kernels of a training step of S0a are made and run. The numbers behind onednn/resident.cpp.
//
//   kernel_memory [threads]
//
// Prints one JSON line.

#include <cstdio>
#include <cstdlib>

#include "backend/backends.h"
#include "base/process_memory.h"
#include "networks.h"
#include "node_bench.h"

namespace {

using namespace plimsoll;

struct Reading {
  const char* what;
  ProcessMemory memory;
};

}  // namespace

int main(int argc, char** argv) {
  backend::KernelSetOptions options;
  if (argc > 1) options.threads = std::atoi(argv[1]);
  return 0;
}
