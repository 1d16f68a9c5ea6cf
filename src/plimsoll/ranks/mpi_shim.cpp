// The functions of one MPI library under plain types. Compiled against each implementation's own
// headers; nothing of Plimsoll is linked.

#include <mpi.h>

#include <array>
#include <new>

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

// In a process where somebody else (mpi4py) has begun, messages go their own ways.
int start(int* rank, int* count) {
  int there = 0;
  MPI_Initialized(&there);
  if (there == 0) {
    int provided = 0;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS) return code;
    started_here() = true;
  }
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &world());
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(world(), MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(world(), rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(world(), count);
  return code;
}

void* send(const void* bytes, int count, int peer) {
  auto* request = new (std::nothrow) MPI_Request;
  if (request == nullptr) return nullptr;
  if (MPI_Isend(bytes, count, MPI_BYTE, peer, kTag, world(), request) == MPI_SUCCESS) {
    return request;
  }
  delete request;
  return nullptr;
}

void* receive(void* bytes, int count, int peer) {
  auto* request = new (std::nothrow) MPI_Request;
  if (request == nullptr) return nullptr;
  if (MPI_Irecv(bytes, count, MPI_BYTE, peer, kTag, world(), request) == MPI_SUCCESS) {
    return request;
  }
  delete request;
  return nullptr;
}

int poll(void* handle) {
  auto* const request = static_cast<MPI_Request*>(handle);
  int done = 0;
  const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && done == 0) return 0;
  delete request;
  return code == MPI_SUCCESS ? 1 : -1;
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
