#pragma once

// The files that a run writes as it goes (LogRequest).
//
// A log that cannot be written any more (a full disk) ends there, which is said, and the run goes
// on.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "report/event_file.h"
#include "run/listener.h"
#include "run/request.h"
#include "trace/csv_log.h"
#include "trace/run_log.h"
#include "train/session.h"

namespace plimsoll::run {

class Logs {
 public:
  // Opens what is asked for, to be gone on with from `start`. `plan` is shown as a text among
  // TensorBoard's, beside the memory at the session's peak by layer and kind. Throws kIo.
  Logs(const LogRequest& request, const train::Position& start, const std::string& plan,
       const train::Session& session, Listener& listener);

  bool wants_steps() const { return lines_ != nullptr && request_.steps; }
  void step(int64_t step, double loss);
  // Beside the metrics: what was planned and what the kernel counts, in MiB; now and then the
  // weights' histograms.
  void epoch(const train::EpochResult& result, train::Session& session);

  // Whether every log is written to its end.
  bool whole() const { return !lines_ended_ && !csv_ended_ && !events_ended_; }

 private:
  template <typename Write>
  void attempt(bool& ended, const Write& write) {
    if (ended) return;
    try {
      write();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
      ended = true;
      listener_.notice(std::string("this log ends here, the run goes on: ") + error.what());
    }
  }

  LogRequest request_;
  Listener& listener_;
  std::unique_ptr<trace::RunLog> lines_;
  std::unique_ptr<trace::CsvLog> csv_;
  std::unique_ptr<report::EventFile> events_;
  bool lines_ended_ = false;
  bool csv_ended_ = false;
  bool events_ended_ = false;
};

}  // namespace plimsoll::run
