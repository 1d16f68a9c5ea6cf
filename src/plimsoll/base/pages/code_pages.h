#pragma once
// How much of the files of programs and libraries is mapped into this process.
//
// A fault on a page of code maps the whole piece (folio) in which the page cache holds it, since
// Linux 6.18 whatever its size, and files that were written or read in large pieces lie in pieces
// of up to 2 MiB. The same start then took 27 to 42 MiB, which nobody can predict. A piece is
// mapped as a whole only where it lies inside of one mapping, so code is cut into mappings of 32
// KiB, half of what faults reach around them anyway. What tells neighbours apart is a flag without
// meaning for code: whether core dumps hold it (they never do).
//
// Nothing here allocates, and where the kernel refuses a cut, more is mapped.

#include <span>

namespace plimsoll {

// Cuts all that is loaded. For a program's first function, ahead of the libraries' initializers,
// which walk through their code.
void cut_loaded_code();

// Cuts the binaries and libraries in which the addresses lie, and takes what is mapped of them out
// of this process's memory; what is needed comes back from the page cache. For a library in a
// process that is somebody else's, where faults have mapped large pieces by then.
void cut_code_of(std::span<const void* const> addresses);

// Whether the binary or library that this function is part of is cut.
bool code_is_cut();

// Takes code and constants of the binary or library in which `address` lies out of this process's
// memory. They are clean, so nothing is lost. Does nothing where `but_not` lies in the same one,
// nor where code was relocated when it was loaded.
void drop_code_of(const void* address, const void* but_not = nullptr) noexcept;

}  // namespace plimsoll
