#pragma once

// What a shim of an MPI library offers: the few functions that exchanging bytes takes, without
// MPI's own types, which every implementation has others of.
//
// A shim is a library of its own (mpi_shim.cpp, compiled once for each implementation) that is
// loaded where a launcher of that implementation started the process, and nowhere else. One thread
// at a time calls; it is the one that called `start`, unless `start` said that others may.
// Counts of bytes are below 2^31.

namespace plimsoll::ranks {

struct MpiFunctions {
  // Once a process; who this is, how many there are, and whether other threads may call, too (1 or
  // 0). 0 where all went well, MPI's code otherwise.
  int (*start)(int* rank, int* count, int* other_threads);
  // Begin to send to a rank and to receive from it, one message each at a time; null where that
  // failed.
  void* (*send)(const void* bytes, int count, int peer);
  void* (*receive)(void* bytes, int count, int peer);
  // 1: it is done; 0: not yet; anything else: it failed. Nobody asks again after the first and
  // last.
  int (*poll)(void* request);
  // Ends all ranks with that exit code.
  void (*end_all)(int code);
  // After the last exchange.
  void (*finish)();
  // The version as the library tells it, and the name of the host.
  const char* (*version)();
  const char* (*host)();
};

}  // namespace plimsoll::ranks

// The one symbol that a shim exports.
extern "C" __attribute__((visibility("default"))) const plimsoll::ranks::MpiFunctions*
plimsoll_mpi_functions();
