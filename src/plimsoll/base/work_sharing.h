#pragma once

// Threads that somebody else has, offered to a folder that may not know whose they are.
//
// A training step reads its samples while the kernels' threads have nothing to do; exec lends them
// (exec/executor.h) and data takes them for large reads. What a part does is fixed by its number,
// so who runs it changes nothing. It owns no thread.

namespace plimsoll {

struct WorkSharing {
  using Part = void (*)(const void* body, int part);

  int threads = 1;
  // Runs part(body, i) for each i below `parts` and returns when all are done; nothing is thrown.
  // Null: there are no threads but the caller's.
  void (*run)(int parts, Part part, const void* body) noexcept = nullptr;
};

}  // namespace plimsoll
