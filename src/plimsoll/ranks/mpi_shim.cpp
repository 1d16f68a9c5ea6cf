// The functions of one MPI library under plain types. Compiled against each implementation's own
// headers; nothing of Plimsoll is linked.

#include <mpi.h>

#include <array>

#include "ranks/mpi_functions.h"

namespace {

constexpr int kTag = 0x506c;

MPI_Comm& world() {
  static MPI_Comm own = MPI_COMM_NULL;
  return own;
}

bool& started_here() {
  static bool started = false;
  return started;
}

// In a process where somebody else (mpi4py) has begun, messages go their own ways, and the other's
// thread may be in the library at the same time as ours.
int start(int* rank, int* count, int* other_threads) {
  int there = 0;
  int provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&there);
  if (there == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return code;
    started_here() = true;
    *other_threads = provided >= MPI_THREAD_SERIALIZED ? 1 : 0;
  } else {
    const int code = MPI_Query_thread(&provided);
    if (code != MPI_SUCCESS) return code;
    *other_threads = provided >= MPI_THREAD_MULTIPLE ? 1 : 0;
  }
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &world());
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(world(), MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(world(), rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(world(), count);
  return code;
}

// One message is sent and one received at a time: a step allocates nothing for them.
void* send(const void* bytes, int count, int peer) {
  static MPI_Request sent = MPI_REQUEST_NULL;
  const int code = MPI_Isend(bytes, count, MPI_BYTE, peer, kTag, world(), &sent);
  return code == MPI_SUCCESS ? &sent : nullptr;
}

void* receive(void* bytes, int count, int peer) {
  static MPI_Request received = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(bytes, count, MPI_BYTE, peer, kTag, world(), &received);
  return code == MPI_SUCCESS ? &received : nullptr;
}

int poll(void* handle) {
  int done = 0;
  const int code = MPI_Test(static_cast<MPI_Request*>(handle), &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return -1;
  return done != 0 ? 1 : 0;
}

void end_all(int code) { MPI_Abort(world() == MPI_COMM_NULL ? MPI_COMM_WORLD : world(), code); }

void finish() {
  MPI_Comm_free(&world());
  if (started_here()) MPI_Finalize();
}

const char* version() {
  static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.data();
}

const char* host() {
  static std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return name.data();
}

constexpr plimsoll::ranks::MpiFunctions kFunctions = {start,   send,   receive, poll,
                                                      end_all, finish, version, host};

}  // namespace

const plimsoll::ranks::MpiFunctions* plimsoll_mpi_functions() { return &kFunctions; }
