#include "train/limit_check.h"

#include "planning/memory_model.h"

namespace plimsoll::train {
namespace {

constexpr double kReadAgainSeconds = 0.05;

}  // namespace

LimitCheck::LimitCheck(std::optional<Bytes> limit, Bytes arena, bool whole_process)
    : limit_(limit) {
  const ProcessMemory memory = read_process_memory();
  if (!whole_process) before_ = memory.peak_resident;
  beside_ = memory.page_tables + memory.kernel_stacks + planning::page_tables_of(arena);
}

bool LimitCheck::look() {
  if (!limit_ || passed_ || peak_resident_at_most() + beside_ <= *limit_ + peak_uncertainty()) {
    return false;
  }
  const double now = clock_.seconds();
  if (now < next_) return false;
  next_ = now + kReadAgainSeconds;
  return look_closely();
}

bool LimitCheck::look_closely() {
  if (!limit_ || passed_) return false;
  const Bytes most = peak();
  if (most > *limit_ + peak_uncertainty()) passed_ = most;
  return passed();
}

Bytes LimitCheck::peak() const {
  const ProcessMemory memory = read_process_memory();
  return memory.peak_resident > before_ ? memory.peak() : memory.now();
}

}  // namespace plimsoll::train
