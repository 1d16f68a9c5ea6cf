#pragma once

// Free heap goes back to the system where the process is a program of ours, and nowhere else.
//
// What the search for a plan has freed would stay with the C library and count at the run's peak.
// A program of ours says so when it starts (own_heap) and gives it back; in a process that belongs
// to somebody else how its heap behaves is the host's business, and what is not given back is
// counted instead (planning/memory_model.h).

namespace plimsoll {

// From now on give_back_free_heap does so. For the main function of a program.
void own_heap();
bool owns_heap();

// A long call (milliseconds, by the size of the heap); none where the heap is a host's.
void give_back_free_heap();

}  // namespace plimsoll
