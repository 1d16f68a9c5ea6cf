#pragma once

// What this process takes, read while an array is being made.
//
// Two readings: a quick one that is never below the truth, and an exact one, of which pages of
// mapped data files are not part: the kernel takes those back when it needs them, so an array that
// was opened by `np.load(mmap_mode="r")` leaves room for others. Where /proc is not mounted both
// are 0, and nothing is refused.

#include <cstddef>
#include <cstdint>

namespace plimsoll::python {

// Resident pages, with what tables of them take at most. One small file.
int64_t taken_at_most();

// Resident pages, page tables and kernel stacks, without pages of mapped data files. Those are
// looked for, which takes some ms in a process with many libraries, where the rest is more than
// `enough`.
int64_t taken_exactly(int64_t enough = 0);

// Bytes of [begin, begin + size) that are not in memory yet.
int64_t untouched(const void* begin, size_t size);

// Gives free pages of the heap back to the kernel.
void give_back_free_pages();

}  // namespace plimsoll::python
