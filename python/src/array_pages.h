// The pages of an array, shared with what refers to it.

#pragma once

#include <cstddef>

namespace plimsoll::python {

// A file in memory with the `size` bytes at `begin`, at the offset that `begin` has in its page; -1
// with errno where there is none. Whole pages are the file's from now on, seen at the same place:
// one that is written to is the writer's own copy, and the file keeps what it holds. The memory
// must be the process's own (not mapped from elsewhere), and nobody else may write to it meanwhile.
int share_pages(void* begin, size_t size);

}  // namespace plimsoll::python
