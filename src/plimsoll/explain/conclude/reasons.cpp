#include "explain/conclude/cause.h"

namespace plimsoll::explain {
namespace {

std::vector<std::string> host_reasons(const Case& found) {
  if (found.main.family == Family::kKilled) {
    return {"the machine's or container's RAM was full and the kernel chose this process",
            "a job scheduler's, container's or notebook's own limit (memory or time)",
            "someone or something sent SIGKILL"};
  }
  if (found.main.family == Family::kBadAlloc) {
    return {"one very large request (a wrong size computed from data counts too)",
            "RAM or the process's address-space limit (ulimit -v) full",
            "slow growth over many steps"};
  }
  if (found.main.family == Family::kErrno12) {
    return {"a large parent process forks workers and the kernel refuses to promise its size twice",
            "RAM full, often with data loaded by every worker",
            "the limit of processes or memory maps"};
  }
  return {"the data set or a copy of it held in RAM", "every worker process holding a copy",
          "a container's limit below the machine's RAM"};
}

}  // namespace

bool is_plain_program(const Case& found) {
  const bool plain =
      found.main.family == Family::kOtherGpu || found.main.family == Family::kTorchPlain;
  return plain && (found.framework.empty() || found.framework == "numba") &&
         found.main.note.find("ggml") == std::string::npos;
}

std::vector<std::string> usual_reasons(const Case& found) {
  if (found.main.resource == Resource::kHostMemory) return host_reasons(found);
  if (found.main.resource != Resource::kGpuMemory) return {};
  if (found.main.family == Family::kTorchMps) {
    return {"blocks that the allocator keeps and does not give back",
            "graphs that Metal compiled for every new shape and keeps",
            "the step's own peak: activations kept for the backward pass"};
  }
  if (found.main.note == "no_result") {
    return {"the pool was filled before, and no scratch memory was left beside it",
            "a fault of that version's search"};
  }
  if (is_plain_program(found)) {
    return {"what the program itself took before and still holds",
            "another program, notebook kernel or earlier run on the same device",
            "free memory in pieces that are too small (fragmentation)"};
  }
  const bool tiny = found.request && *found.request < (int64_t{1} << 20);
  std::vector<std::string> reasons;
  if (found.weights || tiny) {
    reasons = {"the device was already full: weights and optimizer slots, or another program on it",
               "an earlier model or session in the same process that still holds its memory"};
  } else {
    reasons = {"the step's own peak: activations kept for the backward pass",
               "another program, notebook kernel or earlier run on the same device",
               "an earlier model in the same process that still holds its memory"};
  }
  reasons.push_back("free memory in pieces that are too small (fragmentation)");
  return reasons;
}

}  // namespace plimsoll::explain
