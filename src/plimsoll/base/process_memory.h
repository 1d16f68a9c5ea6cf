#pragma once

// What the process has in memory, read from the kernel.
//
// *Process memory* is what the kernel cannot take back plus our own code: resident pages
// (anonymous, shared, and of mapped binaries), page tables and kernel stacks. Its peak is
// VmHWM + VmPTE + kernel stacks. Page cache of files that are read or written (not mapped) is not
// part of it. Readings are of whole pages; they cost a file under /proc each and may allocate, so
// they belong between steps, not inside one. (This process's own read_process_memory() and
// peak_resident_at_most() allocate nothing.)

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/cgroup.h"

namespace plimsoll {

struct ProcessMemory {
  Bytes peak_resident;  // VmHWM: largest `resident` so far
  Bytes resident;       // VmRSS = anonymous + file + shared
  Bytes anonymous;      // RssAnon: heap, stacks, arena
  Bytes file;           // RssFile: pages of binaries and of mapped files
  Bytes shared;         // RssShmem
  Bytes page_tables;    // VmPTE
  Bytes swapped;        // VmSwap
  int64_t threads = 0;
  Bytes kernel_stacks;  // threads × 16 KiB, the size on x86-64 and arm64

  Bytes now() const { return resident + page_tables + kernel_stacks; }
  Bytes peak() const { return peak_resident + page_tables + kernel_stacks; }
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

// `root` as in cgroup.h. Throws kIo where /proc is not mounted.
ProcessMemory read_process_memory(const std::string& root = "");
// The same of another process.
ProcessMemory read_process_memory_of(int64_t process_id, const std::string& root = "");

// Largest process memory so far: VmHWM + page tables + kernel stacks, of this process. Page tables
// and threads are those of now: the kernel keeps no high-water mark of them.
Bytes process_memory_peak();

// How far VmHWM may lie above what was ever resident. The kernel marks it by counters of which each
// processor keeps a part, up to 31 pages, of anonymous pages and of those of files (percpu_counter
// in mm_struct, Linux 6.2 and later; threads kept as many before). 16 processors are counted at
// most: a run does not spread further between two marks.
Bytes peak_uncertainty();

// VmHWM of this process is no more than this, which costs a system call and no file. It may be far
// less: what the process was started from counts here too.
Bytes peak_resident_at_most();

// What this process may use: the smallest of its groups' limits and the machine's memory.
Bytes memory_available_to_process(const std::string& root = "");
// What this process may have in memory without taking from others what they hold now: its own, and
// what is left in its group and on the machine. Page cache counts as left.
Bytes memory_safe_for_process(const std::string& root = "");
// MemTotal of /proc/meminfo.
Bytes physical_memory(const std::string& root = "");

struct PageFaults {
  int64_t major = 0;  // had to read from a device
  int64_t minor = 0;
  friend bool operator==(const PageFaults&, const PageFaults&) = default;
};
// Those of this process since its start, all threads.
PageFaults page_faults();

Bytes page_size();

// Which pages of [address, address + length) are in memory: one flag a page, the first and last
// page counted whole. A page that was only read and never written counts (the kernel maps its zero
// page there). Throws kIo.
std::vector<bool> resident_pages(const void* address, Bytes length);
Bytes resident_bytes(const void* address, Bytes length);

// Resident pages in this process of the binaries or libraries in which the addresses lie, each
// counted once, code and data. Throws kIo.
Bytes resident_of_objects(std::span<const void* const> addresses);

// Free heap goes back to the system where the process is a program of ours, and nowhere else.
//
// What the search for a plan has freed would stay with the C library and count at the run's peak.
// A program of ours says so when it starts (own_heap) and gives it back; in a process that belongs
// to somebody else how its heap behaves is the host's business, and what is not given back is
// counted instead (planning/memory_model.h).

// From now on give_back_free_heap does so. For the main function of a program.
void own_heap();
bool owns_heap();

// A long call (milliseconds, by the size of the heap); none where the heap is a host's.
void give_back_free_heap();

}  // namespace plimsoll
