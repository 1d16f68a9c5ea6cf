#include "watch/verdict.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"

namespace plimsoll::watch {
namespace {

using explain::Resource;

std::string size(int64_t bytes) { return to_string(Bytes(bytes)); }

std::string times(int64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

// A shell reports a child that died of signal N as exit code 128 + N.
int signal_of(const Ending& ending) {
  if (ending.signal != 0) return ending.signal;
  return ending.exit_code > 128 && ending.exit_code < 128 + 65 ? ending.exit_code - 128 : 0;
}

std::string how_it_ended(const Ending& ending) {
  if (ending.signal != 0) return "died of " + signal_name(ending.signal);
  return fmt::format("ended with exit code {}", ending.exit_code);
}

bool contains(const std::vector<int64_t>& sorted, int64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

class Concluder {
 public:
  explicit Concluder(const Ending& ending) : e_(ending) {}

  Verdict run() {
    if (!not_started() && !killed_by_kernel() && !stopped() && !succeeded() && !interrupted() &&
        !said_so() && !measured() && !by_signal()) {
      by_itself();
    }
    advise_on_copies();
    advise_on_leak();
    return std::move(verdict_);
  }

 private:
  void set(VerdictKind kind, double confidence, std::string sentence) {
    verdict_.kind = kind;
    verdict_.confidence = confidence;
    verdict_.sentence = std::move(sentence);
  }
  void prove(std::string text) { verdict_.evidence.push_back(std::move(text)); }
  void advise(std::string text) { verdict_.advice.push_back(std::move(text)); }

  // What every step adds to no limit is large enough for. A run that ended well in time has it too.
  void advise_on_leak() {
    const bool well = verdict_.kind == VerdictKind::kDone;
    if (e_.leak_per_step <= 0 || !(well || is_memory_death(verdict_))) return;
    if (!well && verdict_.resource != "host_memory") return;
    if (dominate(e_.copies, e_.peak_held)) return;
    const int64_t step = std::llround(e_.leak_per_step);
    if (well) {
      verdict_.sentence = "The command finished, but its memory kept growing, by " + size(step) +
                          " a step, to the end: a longer run would run out of it.";
    }
    prove("measured: memory rose by " + size(step) + " a step, " + size(std::llround(e_.leaked)) +
          " in all, and did not slow down");
    if (verdict_.kind != VerdictKind::kOutOfMemory) verdict_.advice.clear();
    const std::vector<std::string> find = {
        "Find what every step keeps. A list of losses: write history.append(float(loss)) in place "
        "of history.append(loss). Models and tf.functions belong before the loop.",
        "To see what else is kept: import tracemalloc; tracemalloc.start() before the loop, "
        "and in it, every 100 steps: "
        "print(tracemalloc.take_snapshot().statistics(\"lineno\")[:3])"};
    verdict_.advice.insert(verdict_.advice.begin(), find.begin(), find.end());
    verdict_.not_worth.emplace_back("more memory, or a smaller batch: it only fails later");
  }

  // Where copies of the data fill the memory, neither batch nor model is what to look at.
  void advise_on_copies() {
    const bool host = verdict_.resource.empty() || verdict_.resource == "host_memory";
    if (!host || !dominate(e_.copies, e_.peak_held)) return;
    verdict_.advice.clear();
    const int64_t one = e_.copies.equal > 0 ? e_.copies.array_bytes : e_.copies.array_bytes / 2;
    advise("Hold the data once, which saves " + size(e_.copies.total_bytes() - one) +
           ": read slices from a file when they are needed (np.load(\"x.npy\", mmap_mode=\"r\") "
           "behind tf.data.Dataset.from_generator or a torch Dataset) instead of handing the whole "
           "array to from_tensor_slices or fit, and `del` what the framework has copied.");
    advise("Or let plimsoll fit --data x.npy --labels y.npy read it in slices.");
    const int64_t rest = std::max<int64_t>(e_.peak_held - e_.copies.total_bytes(), 0);
    const std::string all_else =
        "everything but these data, the program's libraries included, is " + size(rest) + " of " +
        size(e_.peak_held);
    verdict_.not_worth = {"a smaller batch: " + all_else, "a smaller model: " + all_else};
  }

  bool not_started() {
    if (e_.start_error == 0) return false;
    set(VerdictKind::kNotStarted, 1,
        e_.start_path + " could not be started: " + std::strerror(e_.start_error) + ".");
    return true;
  }

  bool succeeded() {
    if (e_.signal != 0 || e_.exit_code != 0) return false;
    set(VerdictKind::kDone, 1, "The command ended well.");
    return true;
  }

  // An exit code of its own; an exception that it printed says why.
  void by_itself() {
    const explain::Explanation& said = e_.explanation;
    const bool named = said.verdict == explain::Verdict::kFailure && !said.evidence.empty() &&
                       said.family != "killed";
    if (!named) {
      set(VerdictKind::kFailed, 1,
          "The command " + how_it_ended(e_) +
              "; nothing that was printed or measured speaks of an "
              "exhausted resource.");
      return;
    }
    const explain::Evidence& error = said.evidence.front();
    std::string message = error.text;
    while (!message.empty() && message.back() == '.') message.pop_back();
    set(VerdictKind::kFailed, 1,
        "The command " + how_it_ended(e_) + " after it printed: " + message + ". " + said.cause);
    for (const explain::Evidence& evidence : said.evidence) {
      prove(fmt::format("line {} of the output: {}", evidence.line, evidence.text));
      if (verdict_.evidence.size() == 3) break;
    }
    for (const explain::Advice& advice : said.advice) {
      advise(advice.action + (advice.code.empty() ? "" : " " + advice.code));
    }
  }

  // The kernel's log names a process of the tree as its victim.
  const OomRecord* record_of_tree() const {
    for (const OomRecord& record : e_.kernel_log) {
      if (contains(e_.pids, record.pid)) return &record;
    }
    return nullptr;
  }

  bool killed_by_kernel() {
    const OomRecord* record = record_of_tree();
    const bool killed = signal_of(e_) == SIGKILL;
    if (e_.group_oom_kills == 0 && record == nullptr) {
      if (!killed) return false;
      return killed_around();
    }
    if (e_.group_oom_kills > 0) {
      prove(fmt::format("the kernel's oom_kill counter of the command's own group went up by {}",
                        e_.group_oom_kills));
    }
    if (record != nullptr) prove("kernel log: " + record->text);
    const bool named = record != nullptr && !record->group.empty();
    const bool own_limit =
        e_.limit && e_.kernel_holds_limit && (record == nullptr || record->in_group) &&
        (named ? record->group.ends_with("/" + e_.group_name) : reached_own_limit());
    if (own_limit) {
      at_own_limit(killed, record);
    } else if (record != nullptr && !record->in_group) {
      by_system(0.95);
    } else if (e_.container_limit_hits > 0 || (record != nullptr && record->in_group)) {
      by_container(0.95);
    } else {
      by_system(0.8);
    }
    return true;
  }

  // The kernel charges a group for many pages at a time, so its highest use ends a little below.
  bool reached_own_limit() const {
    constexpr int64_t kChargedAtOnce = 1 << 20;
    return e_.group_limit_hits > 0 || e_.group_high_water.value_or(0) >= *e_.limit - kChargedAtOnce;
  }

  void at_own_limit(bool killed, const OomRecord* record) {
    verdict_.resource = to_string(Resource::kHostMemory);
    if (e_.group_limit_hits > 0) prove("the limit was reached " + times(e_.group_limit_hits));
    const std::string limit = "the memory limit of " + size(*e_.limit) + " was reached";
    const std::string victim =
        record == nullptr || record->pid == e_.main_pid
            ? std::string()
            : fmt::format(" chose {} (process {})", record->name, record->pid);
    if (!killed) {
      set(VerdictKind::kWorkerKilled, 0.95,
          "A process below the command was killed for memory: " + limit +
              " and the kernel's OOM killer" + (victim.empty() ? " chose it" : victim) +
              ". The command itself " + how_it_ended(e_) + ".");
      advise(
          "The processes of the command share the limit: fewer workers, or less prefetched by "
          "each, lowers the sum.");
    } else {
      set(VerdictKind::kKilledByLimit, 0.98,
          "Killed by the kernel's OOM killer" + (victim.empty() ? "" : ", which" + victim) + ": " +
              limit + ". Such a process gets no chance to print anything.");
    }
    advise(
        "Give it more (--memory), or a smaller step: the batch's activations are usually what "
        "can be made smaller.");
  }

  // SIGKILL, and no count of the command's own that says why.
  bool killed_around() {
    if (e_.kernel_holds_limit) return false;  // an own group counts exactly: it was not memory
    if (e_.container_oom_kills > 0) {
      prove(fmt::format("the oom_kill counter around the watcher went up by {}",
                        e_.container_oom_kills));
      by_container(0.9);
      return true;
    }
    if (e_.machine_oom_kills > 0 && (!e_.kernel_log_readable || e_.kernel_log.empty())) {
      prove(fmt::format("the machine's oom_kill counter (/proc/vmstat) went up by {}",
                        e_.machine_oom_kills));
      by_system(0.7);
      return true;
    }
    return false;
  }

  void by_container(double confidence) {
    verdict_.resource = to_string(Resource::kHostMemory);
    std::string limit = "a memory limit around the watcher was reached";
    if (e_.container_limit) limit += " (" + size(*e_.container_limit) + ")";
    set(VerdictKind::kKilledByContainer, confidence,
        "Killed by the kernel's OOM killer: " + limit + ". The command " + how_it_ended(e_) + ".");
    if (!e_.container_folder.empty()) prove("the limit is that of " + e_.container_folder);
    advise("Raise the container's or job's limit, or lower the peak.");
  }

  void by_system(double confidence) {
    verdict_.resource = to_string(Resource::kHostMemory);
    set(VerdictKind::kKilledBySystem, confidence,
        "Killed by the kernel's OOM killer: the machine's memory was full. The command " +
            how_it_ended(e_) + ".");
    advise("See what else holds memory on the machine; then lower the command's peak.");
  }

  bool stopped() {
    if (!e_.stopped_for_limit) return false;
    verdict_.resource = to_string(Resource::kHostMemory);
    set(VerdictKind::kStoppedAtLimit, 1,
        "Stopped by plimsoll watch: it held " + size(e_.peak_held) + " and the limit is " +
            size(e_.limit.value_or(0)) + ".");
    prove("no group of its own could be made, so the limit was held by sampling");
    return true;
  }

  bool interrupted() {
    if (e_.forwarded_signal == 0) return false;
    if (signal_of(e_) != e_.forwarded_signal && e_.exit_code != 1) return false;
    set(VerdictKind::kInterrupted, 0.95,
        "Interrupted: " + signal_name(e_.forwarded_signal) +
            " was sent to plimsoll watch and passed on; the command " + how_it_ended(e_) + ".");
    return true;
  }

  // What the program printed tells which resource it was refused.
  bool said_so() {
    const explain::Explanation& said = e_.explanation;
    if (said.verdict != explain::Verdict::kFailure) return false;
    const bool only_a_kill = said.family == "killed";
    if (only_a_kill) return false;
    const VerdictKind kind = kind_of(said.resource);
    if (kind == VerdictKind::kFailed) return false;
    verdict_.resource = to_string(said.resource);
    std::string sentence = headline(kind);
    if (said.bytes) sentence += " It asked for " + size(*said.bytes) + ".";
    const bool limited = kind == VerdictKind::kOutOfMemory && e_.address_space_limit;
    if (limited) sentence += address_space_text();
    set(kind, std::max(0.6, said.confidence), sentence + " The command " + how_it_ended(e_) + ".");
    for (const explain::Evidence& evidence : said.evidence) {
      prove("printed: " + evidence.text);
      if (verdict_.evidence.size() == 3) break;
    }
    support(kind);
    if (limited) {
      advise(
          "Raise or lift the limit in the shell that starts the command (ulimit -v unlimited), or "
          "hold less: what was held so far is the least that it needs.");
    }
    for (const explain::Advice& advice : said.advice) {
      if (advice.code.starts_with("plimsoll watch")) continue;  // it just did
      advise(advice.action + (advice.code.empty() ? "" : " " + advice.code));
      if (verdict_.advice.size() == 3) break;
    }
    return true;
  }

  // What was held tells whether the limit was filled or one request alone went beyond it.
  std::string address_space_text() const {
    const int64_t limit = *e_.address_space_limit;
    const std::string figures = " The process may map " + size(limit) + " (ulimit -v)";
    const std::string held =
        size(e_.address_space_used) + " of that was in use and " + size(e_.peak_held) + " was held";
    if (e_.address_space_used <= 0) return figures + " and no more, whatever is free.";
    if (e_.address_space_used < limit / 2) {
      return figures + "; only " + held + ", so one request alone went beyond it.";
    }
    return figures + "; " + held + " when it was refused: that limit was full, not the machine.";
  }

  static VerdictKind kind_of(Resource resource) {
    switch (resource) {
      case Resource::kGpuMemory:
        return VerdictKind::kOutOfDeviceMemory;
      case Resource::kHostMemory:
        return VerdictKind::kOutOfMemory;
      case Resource::kShm:
        return VerdictKind::kSharedMemoryFull;
      case Resource::kFileDescriptors:
        return VerdictKind::kDescriptors;
      case Resource::kDisk:
        return VerdictKind::kDiskFull;
      case Resource::kMessageSize:
        return VerdictKind::kMessageTooLarge;
      case Resource::kOther:
      case Resource::kNone:
        return VerdictKind::kFailed;
    }
    return VerdictKind::kFailed;
  }

  std::string headline(VerdictKind kind) const {
    switch (kind) {
      case VerdictKind::kOutOfDeviceMemory:
        return "Out of device memory: the program was refused it and said so.";
      case VerdictKind::kSharedMemoryFull:
        return "Shared memory (/dev/shm) is full; this is not the program's own memory.";
      case VerdictKind::kDescriptors:
        return "Too many open files: the limit of descriptors was reached, not one of memory.";
      case VerdictKind::kDiskFull:
        return "The disk is full (space, inodes or quota); this is no shortage of memory.";
      case VerdictKind::kMessageTooLarge:
        return "A message was larger than its limit; this is no shortage of memory.";
      default:
        return "Out of host memory: " + teller() + " was refused memory and said so.";
    }
  }

  std::string teller() const {
    const std::string& family = e_.explanation.family;
    if (family == "numpy_memoryerror") return "numpy (Python's MemoryError)";
    if (family == "memoryerror") return "Python (MemoryError)";
    if (family == "bad_alloc") return "C++ (std::bad_alloc)";
    if (family == "torch_cpu") return "PyTorch";
    if (family == "errno12_fork") return "a system call (errno 12)";
    return "the program";
  }

  // Measurements that agree with what was printed.
  void support(VerdictKind kind) {
    if (kind == VerdictKind::kOutOfMemory && e_.address_space_limit) {
      prove("the process has an address-space limit (RLIMIT_AS, ulimit -v) of " +
            size(*e_.address_space_limit) + ": the kernel refuses beyond it whatever is free");
    }
    // A command that ends at once may have opened them between two looks.
    const bool seen = e_.open_files && e_.file_limit && 2 * *e_.open_files >= *e_.file_limit;
    if (kind == VerdictKind::kDescriptors && seen) prove(files_text());
    // One object larger than all that is left leaves nothing to be measured.
    const bool filled = e_.shm_used && e_.shm_size && 2 * *e_.shm_used >= *e_.shm_size;
    if (kind == VerdictKind::kSharedMemoryFull && filled) prove(shm_text());
  }

  std::string files_text() const {
    return fmt::format("measured: up to {} of {} descriptors in use by one process", *e_.open_files,
                       *e_.file_limit);
  }
  std::string shm_text() const {
    return "measured: up to " + size(*e_.shm_used) + " of " + size(*e_.shm_size) +
           " in use in /dev/shm";
  }

  // Nothing was printed, but a measurement stood at its end.
  bool measured() {
    const int signal = signal_of(e_);
    if (e_.shm_used && e_.shm_size && *e_.shm_size > 0 &&
        *e_.shm_used >= *e_.shm_size - *e_.shm_size / 20 && signal == SIGBUS) {
      verdict_.resource = to_string(Resource::kShm);
      set(VerdictKind::kSharedMemoryFull, 0.85,
          "Shared memory (/dev/shm) is full: the command " + how_it_ended(e_) +
              ", as a write into a full shared memory does.");
      prove(shm_text());
      return true;
    }
    if (e_.open_files && e_.file_limit && *e_.open_files >= *e_.file_limit - 1 && signal == 0) {
      verdict_.resource = to_string(Resource::kFileDescriptors);
      set(VerdictKind::kDescriptors, 0.6,
          "Probably the limit of descriptors: the command " + how_it_ended(e_) + " at that limit.");
      prove(files_text());
      return true;
    }
    return false;
  }

  bool by_signal() {
    const int signal = signal_of(e_);
    if (signal == 0) return false;
    if (signal == SIGKILL) {
      plain_kill();
      return true;
    }
    // What was printed of another end is no shell's report of a signal.
    const std::string& family = e_.explanation.family;
    const bool spoke = e_.explanation.verdict == explain::Verdict::kFailure &&
                       family != "program_error" && family != "device_fault";
    if (e_.signal == 0 && !spoke && signal_name(signal).starts_with("signal ")) {
      return false;  // an exit code above 128 that is no signal's
    }
    set(VerdictKind::kSignal, e_.signal != 0 ? 1 : 0.7,
        "The command " + how_it_ended(e_) +
            (e_.signal == 0 ? ", which is how a shell reports " + signal_name(signal) : "") + ".");
    if (signal == SIGSEGV || signal == SIGABRT) suspect_address_space();
    if (signal == SIGBUS) {
      prove(
          "a bus error has several reasons: /dev/shm full (it was not), a mapped file that was "
          "cut or lies on a full disk, a fault of the device");
    }
    return true;
  }

  // A program that does not look whether it got the memory it asked for uses what it did not get.
  void suspect_address_space() {
    const std::optional<int64_t> limit = e_.address_space_limit;
    if (!limit || e_.address_space_used < *limit / 4 * 3) return;
    prove("the process has an address-space limit (RLIMIT_AS, ulimit -v) of " + size(*limit) +
          ", of which " + size(e_.address_space_used) +
          " were in use: libraries that do not check for a refusal die like this");
    advise("Run it once without that limit (ulimit -v unlimited); if it ends well, it was memory.");
  }

  void plain_kill() {
    set(VerdictKind::kKilled, e_.kernel_holds_limit ? 0.97 : 0.8,
        "Killed by SIGKILL, and no oom event was counted, so this is a kill and not a shortage of "
        "memory; whoever sent it, the kernel's OOM killer did not. The command " +
            how_it_ended(e_) + ".");
    if (e_.kernel_holds_limit) {
      prove("the oom_kill counter of the command's own group did not move");
    } else {
      prove("neither the groups around the watcher nor the machine counted an oom kill");
    }
    if (e_.kernel_log_readable) prove("the kernel's log has no oom record of its processes");
    advise(
        "Look for who sends it: the program itself or its launcher (os.kill, a timeout, "
        "Process.kill), a job's time limit, a supervisor, another user's pkill.");
  }

  const Ending& e_;
  Verdict verdict_;
};

}  // namespace

std::string_view to_string(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kDone:
      return "done";
    case VerdictKind::kFailed:
      return "failed";
    case VerdictKind::kKilledByLimit:
      return "killed_by_limit";
    case VerdictKind::kWorkerKilled:
      return "worker_killed_by_limit";
    case VerdictKind::kKilledByContainer:
      return "killed_by_container_limit";
    case VerdictKind::kKilledBySystem:
      return "killed_by_system";
    case VerdictKind::kStoppedAtLimit:
      return "stopped_at_limit";
    case VerdictKind::kOutOfMemory:
      return "out_of_memory";
    case VerdictKind::kOutOfDeviceMemory:
      return "out_of_device_memory";
    case VerdictKind::kSharedMemoryFull:
      return "shared_memory_full";
    case VerdictKind::kDescriptors:
      return "too_many_open_files";
    case VerdictKind::kDiskFull:
      return "disk_full";
    case VerdictKind::kMessageTooLarge:
      return "message_too_large";
    case VerdictKind::kKilled:
      return "killed";
    case VerdictKind::kInterrupted:
      return "interrupted";
    case VerdictKind::kSignal:
      return "signal";
    case VerdictKind::kNotStarted:
      return "not_started";
  }
  return "failed";
}

Verdict conclude(const Ending& ending) { return Concluder(ending).run(); }

bool is_memory_death(const Verdict& verdict) {
  switch (verdict.kind) {
    case VerdictKind::kKilledByLimit:
    case VerdictKind::kWorkerKilled:
    case VerdictKind::kKilledByContainer:
    case VerdictKind::kKilledBySystem:
    case VerdictKind::kStoppedAtLimit:
    case VerdictKind::kOutOfMemory:
    case VerdictKind::kOutOfDeviceMemory:
      return true;
    default:
      return false;
  }
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", signal);
}

}  // namespace plimsoll::watch
