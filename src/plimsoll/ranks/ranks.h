#pragma once

// Joins the ranks that a launcher of MPI has started (`mpirun -n 4 plimsoll fit …`).
//
// MPI carries bytes and adds nothing up. Its library is loaded when a launcher's variables are
// there, by a shim for its implementation (mpi_functions.h): without a launcher nothing of it is
// touched. One thread joins and leaves; beside it a helper looks after what is on its way
// (base/ranks.h), where the library lets several threads call one after the other. Where somebody
// else has started the library (mpi4py), there is a helper only with MPI_THREAD_MULTIPLE, since
// that program's threads may be in it at the same time.

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/ranks.h"

namespace plimsoll::ranks {

// A rank that exchanges with the others by MPI, from joining until it ends.
class JoinedRanks : public Ranks {
 public:
  // The rank's host, and what the library says that it is.
  virtual std::string host() const = 0;
  virtual std::string library() const = 0;
  // What the library has taken of the process's memory, read after first exchanges.
  virtual Bytes held() const = 0;
  // Has the launcher end all ranks with that exit code; what failed here has been told.
  virtual void end_all(int code) = 0;
};

struct JoinOptions {
  // How long a rank waits for another one before it gives up.
  double timeout_seconds = 60;
  // Called on another thread, with the reason, where the library has not started within that time,
  // or 20 seconds where that is longer:
  // no call of it can be left from within, so the process is to be ended. Empty: it waits on.
  std::function<void(const std::string& why)> late = {};
};

// Which of several processes of a launcher this is, without joining; 0 where it is the only one.
int launched_rank();

// Null: this process was not started by such a launcher, or alone. Throws kBackend where it was and
// the library cannot be used, kConfig where the number of ranks is no power of two.
std::unique_ptr<JoinedRanks> join(const JoinOptions& options);

}  // namespace plimsoll::ranks
