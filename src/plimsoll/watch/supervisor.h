#pragma once

// The loop around a running command: its output, its signals, its samples, its limit.
//
// One thread, one poll. Nothing in it waits for anything but poll: output is passed on in pieces
// that cannot block, files of the kernel answer at once. How often is looked follows from how near
// the limit is and from what a look costs (at most half a percent of the time).

#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "watch/guardian.h"
#include "watch/measure/copies.h"
#include "watch/measure/group.h"
#include "watch/measure/kernel_log.h"
#include "watch/measure/sampler.h"
#include "watch/output.h"
#include "watch/relay.h"
#include "watch/run.h"

namespace plimsoll::watch {

class Supervisor {
 public:
  Supervisor(const WatchOptions& options, const std::function<void(const Event&)>& tell);
  ~Supervisor();

  Run run();

 private:
  using Time = std::chrono::steady_clock::time_point;

  void make_guard();
  bool start();
  void loop();
  int poll_timeout() const;
  double pace(double time) const;
  void handle_signals();
  void forward(int signal, bool from_terminal);
  void reap();
  void relay(Relay& relay, size_t stream, short source_events, short target_events);
  void draw_status();
  void erase_status();
  void look();
  void take(const Sample& sample);
  void follow_marks(Sample& sample);
  void check_events();
  void check_limit(const Sample& sample);
  void capture(const Sample& sample, const std::string& why);
  std::string time_to_limit() const;
  void stop_tree(const Sample& sample);
  void signal_tree(int signal);
  void conclude_run();
  Ending ending();
  double now() const;
  void say(std::string kind, std::string text, bool aloud = true);

  const WatchOptions& options_;
  std::function<void(const Event&)> tell_;
  Run run_;
  Group group_;
  Guardian guardian_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Relay> output_relay_, error_relay_;
  Output output_;
  KernelLog kernel_log_;
  AncestorReading ancestors_before_;
  std::optional<int64_t> machine_kills_before_;
  GroupEvents group_events_;
  std::optional<int64_t> warn_limit_;  // what the high mark is a part of
  int signals_ = -1;
  pid_t pid_ = -1;
  int start_error_ = 0;
  Time started_{};
  double ended_at_ = -1;
  double last_output_ = 0;
  double progress_at_ = -1;  // when the output first counted something
  int status_ = 0;
  int forwarded_ = 0;
  double next_full_ = 0, next_light_ = 0, next_slow_ = 0;
  CopyWatch copies_;
  Sample latest_;
  Sample since_added_;  // highest and lowest since the last one in the curve
  double next_add_ = 0;
  int64_t noted_peak_ = 0;  // of which Peak tells when it was and what was printed
  bool warned_ = false;
  bool status_drawn_ = false;
  double terminate_at_ = -1, kill_at_ = -1;
  std::optional<int64_t> shm_most_;
};

}  // namespace plimsoll::watch
