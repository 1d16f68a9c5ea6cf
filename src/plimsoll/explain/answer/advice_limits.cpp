// Advice for what is not memory, corrections of wrong advice, and what to collect.

#include "base/format.h"
#include "explain/answer/advice_impl.h"
#include "explain/conclude/counter.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

void descriptors(const Case& found, Explanation& explanation) {
  add_advice(explanation,
             "Raise the soft limit of descriptors, in the shell that starts the program.",
             "1024 is the usual default", "ulimit -n $(ulimit -Hn)");
  if (found.framework != "tensorflow") {
    add_advice(explanation,
               "Let PyTorch's workers share tensors by file name instead of descriptor.",
               "one descriptor per shared tensor less",
               "torch.multiprocessing.set_sharing_strategy(\"file_system\")");
  }
  add_advice(explanation,
             "Close files, pools and workers that each epoch opens anew; read through one "
             "pipeline that stays.",
             "",
             found.framework == "tensorflow" ? "tf.data.Dataset instead of a Sequence with workers"
                                             : "DataLoader(..., persistent_workers=True)");
}

void disk(const Case& found, Explanation& explanation) {
  if (explanation.cause_label == Cause::kDiskOrFdAmbiguous) {
    add_advice(explanation, "Look at both while it runs: space and inodes, and open descriptors.",
               "", "df -h DIR; df -i DIR; ls /proc/PID/fd | wc -l; ulimit -n");
    return;
  }
  if (found.main.note == "ephemeral") {
    add_advice(
        explanation, "Write data sets and checkpoints to a volume, or ask for more.",
        explanation.amounts.limit ? "the limit was " + size_words(explanation.amounts.limit) : "",
        "resources: {limits: {ephemeral-storage: ...}}");
    return;
  }
  add_advice(explanation, "See what is left where it writes, space as well as inodes and quota.",
             "", "df -h DIR; df -i DIR; quota -s");
  add_advice(explanation, "Keep fewer checkpoints, or write them elsewhere.",
             "each is weights plus optimizer slots: with Adam in float32, 12 bytes per parameter",
             found.framework == "tensorflow"
                 ? "tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)"
                 : "");
  if (found.main.note == "quota" && found.facts.context.windows_paths) {
    add_advice(explanation, "On Windows the same text has come from paths that were too long.", "",
               "");
  }
}

void shared_memory(const Case& found, Explanation& explanation) {
  if (explanation.cause_label == Cause::kAmbiguousBusError) {
    add_advice(explanation,
               "Find out which it is before changing anything: look at /dev/shm while the "
               "workers run.",
               "", "watch -n1 df -h /dev/shm");
    add_advice(explanation,
               "Check the mapped data files: length against what their index says, and "
               "whether something rewrites them meanwhile.",
               "", "");
    add_advice(explanation, "Run once without workers: if it dies all the same, it is the file.",
               "", "DataLoader(dataset, num_workers=0)");
    return;
  }
  if (found.main.note == "plasma") {
    add_advice(explanation, "Give the store more, or put fewer large objects into it at a time.",
               explanation.bytes ? size_words(explanation.bytes) + " in one object" : "",
               "ray.init(object_store_memory=16 * 1024**3)");
    return;
  }
  add_advice(explanation, "Give the container more of it, or share the host's.",
             "batches in flight = workers x prefetch_factor; each lies there once",
             "docker run --shm-size=8g ...   (or --ipc=host)");
  add_advice(explanation, "Or put less there.", "",
             "DataLoader(dataset, num_workers=2, prefetch_factor=2)");
  add_advice(explanation, "Kubernetes: mount a memory volume at /dev/shm.", "",
             "volumes: [{name: shm, emptyDir: {medium: Memory}}]");
}

void messages(const Case& found, Explanation& explanation) {
  if (explanation.cause_label == Cause::kProto2Gb) {
    add_advice(explanation, "Keep large arrays out of the graph: hand them in when it runs.",
               found.main.line_limit.value_or(0) < (int64_t{1} << 30)
                   ? size_words(found.main.line_limit) +
                         " is the old default of the parser; the format itself ends at 2 GiB"
                   : "2 GiB is a limit of the format; no setting lifts it",
               "tf.Variable loaded from a checkpoint, or tf.data instead of tf.constant(array)");
    return;
  }
  const int64_t bytes = explanation.bytes.value_or(0);
  add_advice(
      explanation, "Raise the limit on both sides.",
      size_words(explanation.bytes) + " needed, " + size_words(found.main.line_limit) + " allowed",
      fmt::format("grpc.insecure_channel(address, options=[(\"grpc.max_{}_message_length\", {})])",
                  found.main.note == "sent" ? "send" : "receive", bytes + bytes / 4));
  add_advice(explanation, "Or send it in parts.", "", "");
}

}  // namespace

namespace {

// What tells more depends on the fault and on whose device it is.
void advise_fault(const Case& found, Explanation& explanation) {
  const std::string& fault = found.main.note;
  if (fault.find("no kernel image") != std::string::npos) {
    add_advice(explanation, "Install a build of the framework that was made for this device.", "",
               "nvidia-smi --query-gpu=name,compute_cap --format=csv");
    return;
  }
  if (fault.find("ecc") != std::string::npos || fault.find("fallen off") != std::string::npos) {
    add_advice(explanation,
               "Have the device looked at, and run on another one: no program mends it.", "",
               "nvidia-smi -q -d ECC,PAGE_RETIREMENT; dmesg -T | grep -i xid");
    return;
  }
  switch (vendor_of(found)) {
    case Vendor::kNvidia:
      add_advice(explanation,
                 "Run it once with launches that wait, so that the failing call is named.", "",
                 "CUDA_LAUNCH_BLOCKING=1 python train.py");
      return;
    case Vendor::kAmd:
      add_advice(explanation,
                 "Run it once with launches that wait, so that the failing call is named.", "",
                 "AMD_SERIALIZE_KERNEL=3 python train.py");
      return;
    default:
      add_advice(explanation, "Look at the system's log for the driver's own words.", "",
                 "dmesg -T | tail -50");
  }
}

// "Please try again in 20s", "retry in 34.5s": how long the service asks to wait, "" unsaid.
std::string wait_words(const Case& found) {
  constexpr size_t kReach = 1500;
  const size_t from = found.main.at > kReach ? found.main.at - kReach : 0;
  for (std::string_view label : {"try again in ", "retry in ", "retry after "}) {
    const size_t at = found.document.find(label, from, found.main.at + kReach);
    if (at == std::string::npos) continue;
    Cursor cursor(found.document, found.document.match(label, at));
    std::string wait = cursor.until(" ,;'\"\n", 16);
    while (!wait.empty() && wait.back() == '.') wait.pop_back();
    if (!wait.empty() && is_digit(wait.front())) return wait;
  }
  return "";
}

// Counts that the kernel limits; doubled from what is set, whatever that is.
void kernel_counts(const Case& found, Explanation& explanation) {
  const std::string& note = found.main.note;
  if (note == "map_count") {
    add_advice(explanation, "Raise the number of mappings.", "",
               "sudo sysctl -w vm.max_map_count=$((4 * $(sysctl -n vm.max_map_count)))");
    add_advice(explanation,
               "Or make fewer: tensors of workers that are stacked before they are "
               "sent, or no workers.",
               "one mapping for each shared tensor", "DataLoader(..., num_workers=0)");
    add_not_worth(explanation, "more RAM, a larger /dev/shm", "0: neither was full");
    return;
  }
  if (note.starts_with("inotify")) {
    const std::string name = "fs.inotify.max_user_" + note.substr(note.find('_') + 1);
    add_advice(explanation, "Raise the number.", "",
               "sudo sysctl -w " + name + "=$((4 * $(sysctl -n " + name + ")))");
    add_advice(explanation,
               "Or watch fewer files: leave data, checkpoints and packages out of what the program "
               "watches.",
               "", "");
    return;
  }
  const ThreadCounts counts = thread_counts(found);
  add_advice(explanation, "Fewer threads and worker processes.",
             counts.threads ? fmt::format("{} threads were wanted by one process", *counts.threads)
                            : "each worker starts as many threads as there are processors",
             "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1");
  if (counts.limit && counts.hard_limit && *counts.limit == *counts.hard_limit) {
    add_advice(explanation, "Or have the limit raised by whoever runs the machine.",
               fmt::format("{} is the hard limit too: ulimit -u cannot raise it", *counts.limit),
               "");
  } else {
    add_advice(explanation, "Or raise the limit.", "",
               "ulimit -u $(ulimit -Hu); docker run --pids-limit=-1 ...");
  }
}

// Where the log rules memory out: what to look at instead.
bool advise_against_veto(const Case& found, Explanation& explanation) {
  switch (veto_of(found)) {
    case Veto::kNone:
      return false;
    case Veto::kAssertion:
      add_advice(explanation,
                 "Run it once with launches that wait, or on the CPU: the message then names the "
                 "line. Compare labels and ids with the size of the table that they index.",
                 "", "CUDA_LAUNCH_BLOCKING=1 python train.py");
      break;
    default:
      add_advice(explanation,
                 "Compare the versions of driver, CUDA and cuDNN with those that the framework was "
                 "built for, and bring the older side up.",
                 "",
                 "nvidia-smi; pip list | grep -i -E \"nvidia|cuda|cudnn|jax|torch|tensorflow\"");
      break;
  }
  add_not_worth(explanation, "a smaller batch or model, memory settings",
                "0 B: the log rules a shortage of memory out");
  return true;
}

}  // namespace

void advise_limits(const Case& found, Explanation& explanation) {
  switch (explanation.cause_label) {
    case Cause::kFdLimit:
      return descriptors(found, explanation);
    case Cause::kDiskFullOrQuota:
    case Cause::kDiskOrFdAmbiguous:
      return disk(found, explanation);
    case Cause::kShmTooSmall:
    case Cause::kAmbiguousBusError:
      return shared_memory(found, explanation);
    case Cause::kMessageSizeLimit:
    case Cause::kProto2Gb:
      return messages(found, explanation);
    case Cause::kNotMemory:
      if (advise_against_veto(found, explanation)) return;
      if (sender_of_kill(found)) {
        add_advice(explanation,
                   "Look why it took so long or did not answer, or have that limit raised.", "",
                   "");
        add_not_worth(explanation, "a smaller batch or model, more memory",
                      "0 B: nothing speaks of memory");
        return;
      }
      if (found.main.family == Family::kDeviceFault) {
        advise_fault(found, explanation);
        add_not_worth(explanation, "fewer samples per step",
                      "0 B: the device did not run out of memory");
      } else if (found.main.family == Family::kProgramError) {
        add_advice(explanation,
                   "Mend what the message names, at the last frame of its traceback that is yours.",
                   "", "");
      } else if (found.main.note == "time_limit") {
        add_advice(explanation, "Ask for more time, and write checkpoints to go on from.", "",
                   "#SBATCH --time=24:00:00");
      } else if (found.main.note == "static_tls") {
        add_advice(explanation, "Load that library first: import its module before the others.", "",
                   "LD_PRELOAD=/path/to/the/library python train.py");
      } else if (found.main.family == Family::kProcessLimit) {
        kernel_counts(found, explanation);
      } else if (found.main.family == Family::kKernelResources) {
        add_advice(explanation, "Make the kernel's tile smaller: block sizes, or num_stages.",
                   size_words(explanation.bytes) + " needed on the chip",
                   "BLOCK_M=64, BLOCK_N=64, num_stages=2");
        add_not_worth(explanation, "a smaller batch or model",
                      "0 B: the tile's size does not depend on them");
      } else if (found.main.family == Family::kTfZeroBytes) {
        add_advice(explanation,
                   "Turn XLA's jit off for this part, or change the framework's version.", "",
                   "tf.config.optimizer.set_jit(False)");
      } else {
        const std::string wait = wait_words(found);
        add_advice(explanation,
                   "Wait and try again, with pauses that double, or with fewer and smaller "
                   "requests.",
                   wait.empty() ? "" : "the service names " + wait, "");
        add_advice(explanation, "Or have the quota of the account or project raised.", "", "");
        add_not_worth(explanation, "memory, disk space, a smaller batch",
                      "0 B: nothing of this machine ran out");
      }
      return;
    default:
      if (found.main.family == Family::kProgramError) {
        add_advice(explanation,
                   "Look at the log of the process that ended first: the other ranks' output, or "
                   "what the scheduler and the kernel say of its node.",
                   "", "");
      }
      if (found.main.family == Family::kCrash) {
        add_advice(explanation, "Let Python print where it was when it crashed.", "",
                   "PYTHONFAULTHANDLER=1 python train.py");
      }
      add_advice(explanation,
                 "Run it again under a guard that records memory, descriptors and disk.", "",
                 "plimsoll watch -- python train.py");
  }
}

void correct(const Case& found, Explanation& explanation) {
  const Context& context = found.facts.context;
  const auto note = [&](bool seen, size_t at, std::string text) {
    if (!seen) return;
    explanation.corrections.push_back(
        fmt::format("line {}: {}", found.document.number_at(at), std::move(text)));
  };
  note(context.growth_late, context.growth_late_at,
       "memory growth was set after the device was in use and had no effect; it must come before "
       "anything runs");
  const bool peak =
      explanation.cause_label == Cause::kTruePeak || explanation.cause_label == Cause::kGpuTooSmall;
  if (peak && context.growth_on) {
    explanation.corrections.push_back(
        "memory growth is on: it changes when memory is taken, and cannot cure a true peak");
  }
  const bool memory =
      explanation.resource == Resource::kGpuMemory || explanation.resource == Resource::kHostMemory;
  if (!memory) return;
  note(context.xla_on, context.xla_at,
       "XLA by itself does not lower the peak of a training step; the activations kept for the "
       "backward pass stay");
  note(context.separable, context.separable_at,
       "separable convolutions have fewer weights but keep more activations; they do not lower the "
       "training peak by themselves");
  note(context.pruning, context.pruning_at,
       "pruning sets weights to zero and keeps a mask beside them; training needs more, not less");
  note(context.quantization, context.quantization_at,
       "post-training quantization makes the finished model smaller; training is over by then");
  note(context.keras_exception, context.keras_exception_at,
       "there is no tf.keras.ResourceExhaustedError; catch tf.errors.ResourceExhaustedError");
}

void ask_for_more(const Case& found, Explanation& explanation) {
  if (found.survived) return;
  std::vector<std::string>& collect = explanation.collect;
  const bool unknown = explanation.cause_label == Cause::kUnknown;
  // On Apple's devices the limit counts this process alone.
  const bool device =
      explanation.resource == Resource::kGpuMemory && found.main.family != Family::kTorchMps;
  if (explanation.family == "killed") {
    collect.push_back(
        found.facts.context.is_mac
            ? "Who sent the kill: `log show --last 1h --predicate 'eventMessage CONTAINS "
              "\"memorystatus\"'` "
              "on this Mac. SIGKILL alone proves nothing."
            : "Who sent the kill: most often the kernel's OOM killer, else a time limit, a "
              "supervisor "
              "or a hand. `dmesg -T | grep -i -E \"oom|killed process\"` on the host tells, or the "
              "cgroup's counter in memory.events (oom_kill). Exit 137 alone proves nothing.");
  }
  if (explanation.family == "tf_cpu_warning") {
    collect.push_back("Whether and how the process ended: its exit code, and the kernel's log.");
  }
  if (!explanation.bytes && !explanation.tensor_bytes_from_shape && unknown && device) {
    collect.push_back("The size that was refused: the whole message, from its first line on.");
  }
  if (unknown && device && found.framework == "tensorflow" && !found.pool.limit) {
    collect.push_back(
        "The allocator's dump after the message (lines with \"Limit:\", \"InUse:\", "
        "\"Chunks of size\"): it tells a full pool from one in pieces.");
  }
  if (unknown && device && found.framework == "pytorch" && !explanation.amounts.capacity) {
    collect.push_back(
        "torch.cuda.memory_summary() just before the failing step, or a snapshot: "
        "torch.cuda.memory._record_memory_history(), then _dump_snapshot().");
  }
  if (unknown && device && found.framework == "jax") {
    collect.push_back(
        "The program's own need: compiled.memory_analysis(), or the \"Peak buffers\" "
        "lines after the message; and jax.devices()[0].memory_stats().");
  }
  if (unknown && device) {
    collect.push_back(
        std::string("Who was on the device before the start (") +
        (vendor_of(found) == Vendor::kNvidia ? "nvidia-smi on the host" : "from the host") +
        ", not inside a container, and not after the process has ended).");
  }
  if (unknown && explanation.resource == Resource::kHostMemory && explanation.family != "killed") {
    collect.push_back(
        "Memory of the process and its workers over time: "
        "`plimsoll watch -- COMMAND` writes it down.");
  }
  if (found.main.family == Family::kCrash) {
    collect.push_back(
        "Where it crashed (PYTHONFAULTHANDLER=1, or a debugger with the core file), and whether "
        "`ulimit -v` limits the process.");
  } else if (found.main.family == Family::kProgramError && unknown) {
    collect.push_back("The output of all ranks and workers from before this message.");
  } else if (explanation.resource == Resource::kNone && unknown) {
    collect.push_back("On which device it happened: the message names none.");
  }
  if (explanation.when == When::kUnknown && unknown) {
    collect.push_back("When it happens: the lines of progress before the message (epoch, step).");
  }
}

}  // namespace plimsoll::explain
