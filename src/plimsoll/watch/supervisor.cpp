#include "watch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "watch/child.h"

namespace plimsoll::watch {
namespace {

constexpr double kFastest = 0.02;        // seconds between light looks near the limit
constexpr double kUsual = 0.1;           // … elsewhere
constexpr double kCostShare = 0.005;     // of the time may go into samples, far from the limit
constexpr double kNearCostShare = 0.05;  // … near it
constexpr double kDrainSeconds = 0.25;   // output is waited for after the end of the command
constexpr size_t kMostEvents = 500;
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::string size(int64_t bytes) { return to_string(Bytes(bytes)); }

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kPassedOn) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGWINCH);
  return set;
}

}  // namespace

Supervisor::Supervisor(const WatchOptions& options, const std::function<void(const Event&)>& tell)
    : options_(options), tell_(tell) {
  run_.command = options.command;
  run_.limit = options.memory;
}

Supervisor::~Supervisor() {
  if (signals_ >= 0) ::close(signals_);
}

double Supervisor::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

void Supervisor::say(std::string kind, std::string text, bool aloud) {
  Event event{pid_ > 0 ? now() : 0, std::move(kind), std::move(text)};
  if (aloud) {
    erase_status();
    tell_(event);
  }
  if (run_.events.size() < kMostEvents) run_.events.push_back(std::move(event));
}

Run Supervisor::run() {
  // Descendants whose parents end come to the watcher, so the tree stays whole.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t handled = handled_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &handled, &before);
  signals_ = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) throw_io("signalfd", "make", errno);
  make_guard();
  guardian_.post(group_);
  if (start()) loop();
  conclude_run();
  guardian_.dismiss();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return std::move(run_);
}

void Supervisor::make_guard() {
  ancestors_before_ = read_ancestors();
  machine_kills_before_ = machine_oom_kills();
  warn_limit_ = options_.memory ? options_.memory : ancestors_before_.limit;
  if (!warn_limit_) warn_limit_ = physical_memory().count();
  std::string why_not = "asked for";
  if (options_.guard != GuardWish::kSampling) {
    GroupOutcome outcome = make_group(options_.memory);
    group_ = std::move(outcome.group);
    why_not = outcome.why_not;
  }
  if (group_.exists()) {
    const std::string version(to_string(group_.version()));
    run_.guard_kind = "cgroup_" + version;
    run_.guard =
        (options_.memory ? "the kernel holds the limit in a control group (" + version + ")"
                         : "a control group (" + version + ") keeps the account") +
        " " + group_.folder();
  } else {
    run_.guard_kind = "sampling";
    run_.guard = "sampling of /proc" +
                 std::string(options_.memory ? "; plimsoll watch holds the limit" : "") +
                 " (no control group: " + why_not + ")";
    if (options_.guard == GuardWish::kGroup) {
      throw Error(ErrorKind::kIo,
                  "--guard cgroup: expected a control group of the command's own, "
                  "received: " +
                      why_not +
                      ". Run as root or in a delegated scope (systemd-run --user "
                      "--scope -p Delegate=yes), or leave --guard out.");
    }
  }
}

bool Supervisor::start() {
  output_relay_ = std::make_unique<Relay>(STDOUT_FILENO);
  error_relay_ = std::make_unique<Relay>(STDERR_FILENO);
  started_ = std::chrono::steady_clock::now();
  const CommandMark mark = make_command_mark();
  std::vector<std::pair<std::string, std::string>> environment = options_.environment;
  environment.emplace_back(kMarkName, mark.value);
  const ChildSetup setup{options_.command, environment, group_.entrance(), output_relay_->inlet(),
                         error_relay_->inlet()};
  const ChildStart child = start_child(setup);
  pid_ = child.pid;
  output_relay_->close_inlet();
  error_relay_->close_inlet();
  if (child.error != 0) {
    start_error_ = child.error;
    ::waitpid(pid_, &status_, 0);
    return false;
  }
  say("started", run_.guard, options_.memory.has_value());
  const int64_t main_pid = pid_;
  guardian_.tell({&main_pid, 1});
  sampler_ = std::make_unique<Sampler>(pid_, group_, CommandTree(pid_, ::getpid(), mark.own),
                                       options_.with_gpu);
  return true;
}

int Supervisor::poll_timeout() const {
  double wait = std::min({next_full_, next_light_, next_slow_}) - now();
  if (ended_at_ >= 0) wait = std::min(wait, last_output_ + kDrainSeconds - now());
  if (kill_at_ >= 0) wait = std::min(wait, kill_at_ - now());
  return std::clamp(static_cast<int>(std::ceil(wait * 1000)), 0, 1000);
}

void Supervisor::loop() {
  while (true) {
    if (ended_at_ < 0) look();
    std::array<pollfd, 5> waits{};
    waits[0] = {signals_, POLLIN, 0};
    Relay* relays[] = {output_relay_.get(), error_relay_.get()};
    for (size_t i = 0; i < 2; ++i) {
      waits[1 + 2 * i] = {relays[i]->wants_read() ? relays[i]->source() : -1, POLLIN, 0};
      waits[2 + 2 * i] = {relays[i]->wants_write() ? relays[i]->target() : -1, POLLOUT, 0};
    }
    ::poll(waits.data(), waits.size(), poll_timeout());
    for (size_t i = 0; i < 2; ++i) {
      relay(*relays[i], i, waits[1 + 2 * i].revents, waits[2 + 2 * i].revents);
    }
    if (waits[0].revents != 0) handle_signals();
    if (kill_at_ >= 0 && now() >= kill_at_) {
      kill_at_ = -1;
      say("killed", "grace time is over: SIGKILL");
      if (group_.exists()) group_.kill();
      signal_tree(SIGKILL);
    }
    if (ended_at_ < 0) continue;
    const bool all_read = !relays[0]->is_open() && !relays[1]->is_open();
    const bool all_written = !relays[0]->wants_write() && !relays[1]->wants_write();
    if (all_written && (all_read || now() > last_output_ + kDrainSeconds)) return;
  }
}

void Supervisor::relay(Relay& relay, size_t stream, short source_events, short target_events) {
  if (source_events != 0) {
    const std::string_view block = relay.read();
    if (!block.empty()) {
      last_output_ = now();
      output_.feed(stream, block);
    }
  }
  if (target_events == 0) return;
  if (relay.is_terminal()) erase_status();
  relay.write();
}

// One line below the output on a terminal, redrawn, and gone before anything else is written there.
void Supervisor::draw_status() {
  if (!options_.live || ended_at_ >= 0) return;
  const Relay& out = *output_relay_;
  const Relay& error = *error_relay_;
  if (!out.at_line_start() || !error.at_line_start() || out.wants_write() || error.wants_write()) {
    return;
  }
  std::string text = fmt::format("\r\x1b[2K[{} s  {}", std::lround(now()), size(latest_.held));
  if (options_.memory) text += " of " + size(*options_.memory);
  if (latest_.processes > 1) text += fmt::format("  {} processes", latest_.processes);
  if (latest_.gpu_bytes) text += "  GPU " + size(*latest_.gpu_bytes);
  if (latest_.epochs > 0) text += fmt::format("  epoch {}", latest_.epochs);
  text += "  peak " + size(run_.peak.held_bytes) + "]";
  status_drawn_ = ::write(STDERR_FILENO, text.data(), text.size()) > 0;
}

void Supervisor::erase_status() {
  if (!status_drawn_) return;
  status_drawn_ = false;
  constexpr std::string_view kErase = "\r\x1b[2K";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kErase.data(), kErase.size());
}

void Supervisor::handle_signals() {
  signalfd_siginfo info = {};
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else if (signal == SIGWINCH) {
      output_relay_->copy_window_size();
      error_relay_->copy_window_size();
    } else {
      forward(signal, info.ssi_code == SI_KERNEL);
    }
  }
}

void Supervisor::forward(int signal, bool from_terminal) {
  if (ended_at_ >= 0) return;
  forwarded_ = signal;
  say("signal", signal_name(signal) + (from_terminal ? " from the terminal" : " passed on"), false);
  // The terminal has sent it to the command too.
  if (!from_terminal) ::kill(pid_, signal);
}

void Supervisor::reap() {
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended <= 0) return;
    if (ended != pid_) continue;
    status_ = status;
    ended_at_ = now();
    last_output_ = ended_at_;
    // What filled it within the last interval may still lie there.
    if (const auto used = read_shared_memory().used)
      shm_most_ = std::max(shm_most_.value_or(0), *used);
  }
}

// Seconds between two points of the curve: short at the start of the command and again when its
// output begins to count, so that short runs have enough points to be judged by.
double Supervisor::pace(double time) const {
  const double since = progress_at_ >= 0 ? time - progress_at_ : time;
  return std::clamp(since / 40, kFastest, std::max(kFastest, options_.interval_seconds));
}

void Supervisor::look() {
  const double time = now();
  if (time >= next_full_) {
    take(sampler_->full(time));
    guardian_.tell(sampler_->pids());
    copies_.look(sampler_->largest_now().pid, sampler_->largest_now().anonymous, time);
    next_full_ = now() + std::max({pace(time), 0.05, sampler_->cost_seconds() / kCostShare});
    next_light_ = now() + kFastest;
  } else if (time >= next_light_) {
    // Processor time: that others run meanwhile is no reason to look more rarely.
    const double begin = own_cpu_seconds();
    take(sampler_->light(time));
    const double cost = own_cpu_seconds() - begin;
    const bool near = options_.memory && latest_.held > *options_.memory / 2;
    next_light_ = now() + std::max(near ? kFastest : std::min(pace(time), kUsual),
                                   cost / (near ? kNearCostShare : kCostShare));
  }
  if (time >= next_slow_) {
    check_events();
    draw_status();
    next_slow_ = now() + 0.5;
  }
}

void Supervisor::take(const Sample& read) {
  Sample sample = read;
  follow_marks(sample);
  if (sample.held > run_.peak.held_bytes) {
    // A hundredth more is worth a new note of what was printed.
    if (sample.held > noted_peak_ + noted_peak_ / 100) {
      noted_peak_ = sample.held;
      run_.peak.printed = output_.last_line();
      run_.peak.seconds = sample.seconds;
    }
    run_.peak.held_bytes = sample.held;
  }
  if (sample.gpu_bytes) {
    run_.peak.gpu_bytes = std::max(run_.peak.gpu_bytes.value_or(0), *sample.gpu_bytes);
  }
  if (sample.shm_used) shm_most_ = std::max(shm_most_.value_or(0), *sample.shm_used);
  latest_ = sample;
  ++run_.own.samples;
  // Looks between two points of the curve lift the later point's highest and lower its lowest.
  const bool fresh = since_added_.seconds == 0 && since_added_.held == 0;
  const int64_t high = fresh ? sample.held : std::max(since_added_.held, sample.held);
  const int64_t low = fresh ? sample.held : std::min(since_added_.held_low, sample.held);
  const std::optional<int64_t> usage = std::max(since_added_.group_usage, sample.group_usage);
  since_added_ = sample;
  since_added_.group_usage = usage;
  since_added_.held = high;
  since_added_.held_low = low;
  if (sample.seconds >= next_add_) {
    run_.curve.add(since_added_);
    since_added_ = Sample();
    next_add_ = sample.seconds + pace(sample.seconds);
  }
  check_limit(sample);
}

void Supervisor::follow_marks(Sample& sample) {
  const ProgressMarks& marks = output_.marks();
  sample.steps = marks.steps();
  sample.epochs = marks.epochs();
  sample.fits = marks.fits();
  if (progress_at_ < 0 && (sample.steps > 0 || sample.epochs > 0)) progress_at_ = sample.seconds;
  if (marks.epochs() > latest_.epochs) {
    const bool fit = marks.fits() > latest_.fits && marks.fits() > 1;
    // The line was printed since the last sample; a command that ends gives back what it held.
    const int64_t held = std::max(sample.held, latest_.held);
    say(fit ? "fit" : "epoch",
        fmt::format("{}{} at {}",
                    fit ? fmt::format("fit {}, epoch ", marks.fits()) : std::string("epoch "),
                    marks.epochs(), size(held)),
        false);
  }
}

void Supervisor::check_events() {
  kernel_log_.poll();
  if (!group_.exists()) return;
  const GroupEvents events = group_.events();
  if (events.oom_kills > group_events_.oom_kills) {
    say("oom_kill", "the kernel killed a process of the command for memory");
  }
  group_events_ = events;
}

void Supervisor::check_limit(const Sample& sample) {
  if (!warn_limit_) return;
  const auto limit = static_cast<double>(*warn_limit_);
  if (!warned_ && static_cast<double>(sample.held) > options_.high_mark * limit) {
    warned_ = true;
    const std::string whose = options_.memory           ? ""
                              : ancestors_before_.limit ? " that the container allows"
                                                        : " that the machine has";
    say("high_mark",
        size(sample.held) + " of " + size(*warn_limit_) + whose + " are held" + time_to_limit());
    capture(sample, "high_mark");
  }
  const bool ours = options_.memory && !group_.exists();
  if (ours && terminate_at_ < 0 && sample.held > *options_.memory) stop_tree(sample);
}

std::string Supervisor::time_to_limit() const {
  const std::vector<Sample>& samples = run_.curve.samples();
  if (samples.size() < 8) return "";
  const Sample& before = samples[samples.size() - 8];
  const double seconds = latest_.seconds - before.seconds;
  const double rise = static_cast<double>(latest_.held - before.held) / seconds;
  const double left = static_cast<double>(*warn_limit_ - latest_.held);
  if (seconds <= 0 || rise <= 0 || left <= 0 || left / rise > 86400) return "";
  return fmt::format("; at this rate the limit is reached in {:.0f} s", std::ceil(left / rise));
}

void Supervisor::stop_tree(const Sample& sample) {
  terminate_at_ = now();
  kill_at_ = terminate_at_ + options_.grace_seconds;
  run_.limit_passed = true;
  if (run_.captures.size() < 2) capture(sample, "limit");
  say("limit",
      fmt::format("{} are held and the limit is {}: SIGTERM, then SIGKILL in {} s",
                  size(sample.held), size(*options_.memory), std::lround(options_.grace_seconds)));
  signal_tree(SIGTERM);
}

void Supervisor::signal_tree(int signal) {
  if (!sampler_) return;
  // Not those of the latest look: numbers of processes that ended since may be others' by now.
  sampler_->find_tree();
  for (const int64_t pid : sampler_->pids()) {
    if (pid > 1) ::kill(static_cast<pid_t>(pid), signal);
  }
}

void Supervisor::capture(const Sample& sample, const std::string& why) {
  Capture capture;
  capture.seconds = sample.seconds;
  capture.why = why;
  capture.held = sample.held;
  capture_processes(sampler_->pids(), capture);
  const std::deque<std::string>& lines = output_.last_lines();
  capture.last_lines.assign(lines.size() > 10 ? lines.end() - 10 : lines.begin(), lines.end());
  if (!capture.processes.empty() && capture.processes.front().name.starts_with("python")) {
    capture.stack = python_stack(capture.processes.front().pid, 1.0);
  }
  run_.captures.push_back(std::move(capture));
}

Ending Supervisor::ending() {
  Ending ending;
  ending.start_error = start_error_;
  ending.start_path = options_.command.front();
  if (WIFSIGNALED(status_)) ending.signal = WTERMSIG(status_);
  if (WIFEXITED(status_)) ending.exit_code = WEXITSTATUS(status_);
  ending.forwarded_signal = forwarded_;
  ending.stopped_for_limit = terminate_at_ >= 0;
  ending.limit = options_.memory;
  ending.kernel_holds_limit = group_.exists();
  ending.peak_held = run_.peak.held_bytes;
  ending.copies = copies_.found();
  add_alike(ending.copies, run_.curve.samples());
  tell_loading_from_leaks(run_.curve.samples(), ending.copies, run_.growth);
  constexpr double kSurely = 0.8;
  if (run_.growth.form == CurveForm::kGrowth && run_.growth.confidence >= kSurely) {
    ending.leak_per_step = run_.growth.bytes_per_step;
    ending.leaked = run_.growth.rise_bytes;
  }
  if (group_.exists()) {
    const GroupEvents events = group_.events();
    ending.group_oom_kills = events.oom_kills;
    ending.group_name = group_.folder().substr(group_.folder().rfind('/') + 1);
    ending.group_limit_hits = events.limit_hits;
    ending.group_high_water = group_.high_water();
  }
  const AncestorReading ancestors = read_ancestors();
  ending.container_oom_kills = ancestors.oom_kills - ancestors_before_.oom_kills;
  ending.container_limit_hits = ancestors.limit_hits - ancestors_before_.limit_hits;
  ending.container_limit = ancestors.limit;
  ending.container_folder = ancestors.limit_folder;
  if (const std::optional<int64_t> kills = machine_oom_kills(); kills && machine_kills_before_) {
    ending.machine_oom_kills = *kills - *machine_kills_before_;
  }
  kernel_log_.poll();
  ending.kernel_log_readable = kernel_log_.is_readable();
  ending.kernel_log = kernel_log_.records();
  ending.main_pid = pid_;
  if (sampler_) {
    ending.pids = sampler_->all_pids();
    ending.address_space_limit = sampler_->address_space_limit();
    ending.address_space_used = sampler_->address_space_used();
    ending.open_files = sampler_->most_open_files();
    ending.file_limit = sampler_->file_limit();
    ending.shm_used = shm_most_;
    ending.shm_size = sampler_->shm_size();
  }
  ending.explanation = run_.explanation;
  return ending;
}

void Supervisor::conclude_run() {
  erase_status();
  run_.seconds = ended_at_ >= 0 ? ended_at_ : 0;
  run_.explanation = output_.finish();
  if (since_added_.held > 0) run_.curve.add(since_added_);
  run_.growth = find_growth(run_.curve.samples());
  const Ending ended = ending();
  run_.verdict = conclude(ended);
  const bool at_limit = is_memory_death(run_.verdict) && run_.verdict.resource == "host_memory";
  if (at_limit) {
    // The last look may lie before the last rise; a limit that killed was reached.
    const VerdictKind kind = run_.verdict.kind;
    const bool reached = kind == VerdictKind::kKilledByLimit ||
                         kind == VerdictKind::kWorkerKilled || kind == VerdictKind::kStoppedAtLimit;
    const int64_t limit = reached ? options_.memory.value_or(0) : 0;
    forget_calm_before_limit(std::max(run_.peak.held_bytes, limit), run_.growth);
  }
  run_.copies = ended.copies;
  run_.signal = ended.signal;
  run_.exit_code = ended.signal != 0 ? 128 + ended.signal : ended.exit_code;
  if (start_error_ != 0) run_.exit_code = start_error_ == ENOENT ? 127 : 126;
  if (group_.exists()) {
    run_.peak.group_bytes = group_.high_water();
    run_.limit_passed = run_.limit_passed || ended.group_oom_kills > 0;
  }
  if (sampler_) {
    const ProcessReading& largest = sampler_->largest();
    if (largest.peak_resident > 0) run_.peak.process_bytes = largest.peak_resident;
    run_.peak.process_name = clean_line(largest.name, 32);
    run_.peak.process_pid = largest.pid;
    run_.gpu_name = sampler_->gpu_name();
  }
  const CpuInfo cpu = read_cpu_info();
  run_.cpus = cpu.cpu_quota ? std::min(*cpu.cpu_quota, static_cast<double>(cpu.allowed_cpus))
                            : static_cast<double>(cpu.allowed_cpus);
  run_.bound = find_bound(run_.curve.samples(), run_.cpus);
  run_.last_lines.assign(output_.last_lines().begin(), output_.last_lines().end());
  run_.output_bytes = output_.bytes();
  say("ended", std::string(to_string(run_.verdict.kind)), false);
  run_.survivors = group_.close();
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  run_.own.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  run_.own.peak_resident = read_process_memory().peak_resident.count();
}

Run watch_command(const WatchOptions& options, const std::function<void(const Event&)>& tell) {
  return Supervisor(options, tell).run();
}

}  // namespace plimsoll::watch
