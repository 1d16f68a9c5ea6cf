#include "base/heap.h"

#include <malloc.h>

#include <atomic>

namespace plimsoll {
namespace {

std::atomic<bool> owned{false};

}  // namespace

void own_heap() { owned = true; }
bool owns_heap() { return owned; }

void give_back_free_heap() {
  if (owned) malloc_trim(0);
}

}  // namespace plimsoll
