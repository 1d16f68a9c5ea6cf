#include "explain/conclude/cause.h"

#include <array>

#include "base/format.h"
#include "explain/conclude/counter.h"
#include "explain/read/exception_line.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

Diagnosis say(const Case& found, Cause cause, double confidence, std::string sentence) {
  return {cause, confidence, std::move(sentence), {found.main.at}, false};
}

std::optional<Diagnosis> zero_bytes(const Case& found) {
  if (found.main.family != Family::kTfZeroBytes) return std::nullopt;
  return say(
      found, Cause::kNotMemory, 0.95,
      "A request for 0 bytes was answered with ResourceExhausted: a bug of the framework, no "
      "shortage of memory.");
}

std::optional<Diagnosis> service_quota(const Case& found) {
  if (found.main.note != "service_quota") return std::nullopt;
  return say(found, Cause::kNotMemory, 0.9,
             "A service on the network refused further requests (its quota or rate limit); nothing "
             "in this process or machine ran out.");
}

std::optional<Diagnosis> time_limit(const Case& found) {
  if (found.main.note != "time_limit") return std::nullopt;
  return say(found, Cause::kNotMemory, 0.9,
             "The scheduler ended the job at its time limit; nothing in the log speaks of memory.");
}

std::optional<Diagnosis> other_limits(const Case& found) {
  if (found.main.note == "static_tls") {
    return say(
        found, Cause::kNotMemory, 0.9,
        "The loader keeps a small block for variables of each thread, and libraries that were "
        "loaded before took all of it. The machine's memory is not concerned.");
  }
  if (found.main.note == "map_count") {
    std::string sentence =
        "The number of mappings that one process may have (vm.max_map_count, 65530 as a rule) is "
        "used up";
    if (found.main.bytes)
      sentence = size_words(found.main.bytes) + " are not what was missing: " + sentence;
    return say(found, Cause::kNotMemory, 0.85,
               sentence +
                   ". How much memory is free does not count here; one file per shared "
                   "tensor is the usual reason.");
  }
  if (found.main.note.starts_with("inotify")) {
    const bool watches = found.main.note == "inotify_watches";
    return say(found, Cause::kNotMemory, 0.9,
               std::string("The kernel's number of inotify ") +
                   (watches ? "watches" : "instances") + " per user (fs.inotify.max_user_" +
                   (watches ? "watches" : "instances") +
                   ") is used up. Neither disk nor descriptors nor memory is.");
  }
  if (found.main.family == Family::kProcessLimit) {
    const ThreadCounts counts = thread_counts(found);
    if (counts.limit) {
      std::string sentence =
          fmt::format("The limit of processes and threads (ulimit -u) is {} here and was reached",
                      *counts.limit);
      if (counts.threads) {
        sentence += fmt::format(": one process alone wanted {} threads", *counts.threads);
      }
      return say(found, Cause::kNotMemory, 0.9, sentence + ". Data do not count here.");
    }
    return say(found, Cause::kNotMemory, 0.8,
               "The limit of processes and threads (ulimit -u, a container's pids limit) was "
               "reached, or a thread's stack could not be mapped. Data do not count here.");
  }
  if (found.main.family != Family::kKernelResources) return std::nullopt;
  return say(found, Cause::kNotMemory, 0.9,
             "One GPU kernel was compiled to need " + size_words(found.main.bytes) +
                 " of the chip's own shared memory, more than a block may have. The card's memory "
                 "is not concerned.");
}

std::optional<Diagnosis> message_size(const Case& found) {
  if (found.main.family == Family::kGrpcMessageSize) {
    std::string sentence = "One gRPC message of " + size_words(found.main.bytes) + " was " +
                           found.main.note + " where at most " + size_words(found.main.line_limit) +
                           " are allowed";
    if (found.main.line_limit == 4194304) sentence += ", the default";
    return say(found, Cause::kMessageSizeLimit, 0.95, sentence + ". This is no memory shortage.");
  }
  if (found.main.family != Family::kProtobuf2Gb) return std::nullopt;
  return say(found, Cause::kProto2Gb, 0.95,
             "One protobuf message (a graph, or a constant in it) is over the format's limit of " +
                 size_words(found.main.line_limit) + ". This is no memory shortage.");
}

std::optional<Diagnosis> files(const Case& found) {
  switch (found.main.family) {
    case Family::kTooManyOpenFiles:
      if (found.main.note == "restore") {
        return say(found, Cause::kFdLimit, 0.6,
                   "Reading a checkpoint was refused with nothing but a path. Reading needs no "
                   "disk space, so descriptors are what is left.");
      }
      return say(found, Cause::kFdLimit, 0.95,
                 "The process has as many files, pipes and shared-memory objects open as its "
                 "descriptor limit allows. This is no memory shortage.");
    case Family::kDiskFull:
      if (found.main.note == "path") {
        return say(found, Cause::kDiskOrFdAmbiguous, 0.8,
                   "ResourceExhausted with only a path after it comes from the file system: no "
                   "space, no quota, or no descriptor left. The message does not say which.");
      }
      if (found.main.note == "ephemeral") {
        return say(found, Cause::kDiskFullOrQuota, 0.95,
                   "The pod was evicted for what it wrote to the node's disk, not for memory.");
      }
      if (found.main.note == "writer") {
        return say(found, Cause::kDiskFullOrQuota, 0.6,
                   "A checkpoint could not be written to its end. PyTorch's writer does not say "
                   "why; a full disk or quota is the usual reason.");
      }
      return say(found, Cause::kDiskFullOrQuota, 0.9,
                 found.main.note == "quota"
                     ? "The file system refused to write: the quota is used up."
                     : "The file system that was written to has no space or no inodes left.");
    case Family::kShmBusError:
      if (found.main.note == "plasma") {
        return say(
            found, Cause::kShmTooSmall, 0.8,
            "Ray's object store, which lies in shared memory, has no room for the object: it "
            "is a fixed part of the node's memory.");
      }
      if (found.main.note == "full") {
        return say(found, Cause::kShmTooSmall, 0.75,
                   "The pages of a shared-memory object could not be had: /dev/shm (the "
                   "kernel's, in a container 64 MiB by default) is used up.");
      }
      return say(
          found, Cause::kAmbiguousBusError, 0.6,
          std::string(found.main.note == "bus_process" ? "The process" : "A worker") +
              " died of SIGBUS: a mapped page could not be had. That is either /dev/shm "
              "that is used up or a mapped file (LMDB, memmap, HDF5) that is shorter than its "
              "index says; the message cannot tell them apart.");
    case Family::kWinPagefile:
      return say(found, Cause::kWindowsPagefile, 0.9,
                 "Windows error 1455: the commit limit (RAM + page file) was reached. Every worker "
                 "process that loads the CUDA libraries commits gigabytes of its own.");
    default:
      return std::nullopt;
  }
}

std::optional<Diagnosis> workspace(const Case& found) {
  if (found.main.family == Family::kTfAutotuneLimit) {
    return say(found, Cause::kConvWorkspace, 0.95,
               "The scratch space of a convolution (" + size_words(found.main.bytes) +
                   ") is over the fixed work-space limit of " + size_words(found.main.line_limit) +
                   "; the device's memory was not asked.");
  }
  const bool quiet =
      found.main.family == Family::kTfNonfatalWarning ||
      (found.main.family == Family::kTfDriverAlloc && found.has(Family::kTfNonfatalWarning));
  if (!quiet) return std::nullopt;
  Diagnosis result =
      say(found, Cause::kConvWorkspace, 0.9,
          "The search for a convolution algorithm asked for scratch space, was refused and took a "
          "slower one. By the log's own words this is not a failure.");
  if (const Finding* warning = found.first(Family::kTfNonfatalWarning)) {
    result.evidence = {warning->at, found.main.at};
  }
  return result;
}

std::optional<Diagnosis> pinned(const Case& found) {
  const bool host_pool = found.main.allocator.find("host_bfc") != std::string::npos;
  const bool by_frames = found.main.note == "pinned";
  if (found.main.family != Family::kTfPinnedHost && !host_pool && !by_frames) return std::nullopt;
  return say(found, Cause::kPinnedHostPool, 0.9,
             (found.main.bytes ? size_words(found.main.bytes) : "Page-locked host memory") +
                 (found.main.bytes ? " of page-locked host memory were" : " was") +
                 " refused. CUDA names the error, but it is the "
                 "machine's RAM that could not be locked.");
}

std::optional<Diagnosis> library_init(const Case& found) {
  const Family family = found.main.family;
  if (family != Family::kCudnnInit && family != Family::kTorchCublas) return std::nullopt;
  const Context& context = found.facts.context;
  std::string sentence =
      "A CUDA library could not make its handle. Its memory comes from outside the framework's "
      "pool, and the pool had left too little";
  if (context.banner_free) sentence += " (" + size_words(context.banner_free) + " free at start)";
  sentence += ". Mismatched library versions give the same message.";
  Diagnosis result = say(found, Cause::kDriverOrLibraryInit, 0.7, sentence);
  if (context.banner_free) result.evidence.push_back(context.banner_at);
  return result;
}

std::optional<Diagnosis> context_creation(const Case& found) {
  if (found.main.family != Family::kCudaContext) return std::nullopt;
  Diagnosis result =
      say(found, Cause::kGpuHeldByOtherProcess, 0.7,
          "Not even a CUDA context fitted, before this program had asked for anything: the card "
          "was taken when it came.");
  result.inferred = true;
  return result;
}

std::optional<Diagnosis> cufft_padding(const Case& found) {
  if (found.main.family != Family::kTfCufft || !found.main.line_limit) return std::nullopt;
  const int64_t elements = *found.main.line_limit;
  if (elements < (1 << 20) || (elements & (elements - 1)) != 0) return std::nullopt;
  Diagnosis result = say(
      found, Cause::kPaddingOrDtypeBlowup, 0.6,
      fmt::format(
          "cuFFT's work area is for a transform of {} elements, a power of two: the volume "
          "was padded up to it. As complex64 that is {} for each copy.",
          elements,
          size_words(elements <= (int64_t{1} << 58) ? std::optional(elements * 8) : std::nullopt)));
  result.inferred = true;
  return result;
}

// What was survived before is not what ended the program, and is told beside it.
void tell_overcome(const Case& found, Diagnosis& diagnosis) {
  if (!found.overcome) return;
  diagnosis.sentence +=
      fmt::format(" A refusal before it (line {}) was survived: the program went on after it.",
                  found.document.number_at(found.overcome->at));
  diagnosis.evidence.push_back(found.overcome->at);
}

std::optional<Diagnosis> no_refusal(const Case& found) {
  std::optional<Diagnosis> result;
  if (found.main.family == Family::kDeviceFault) {
    result = say(found, Cause::kNotMemory, 0.9,
                 "The device reported a fault (" + found.main.note +
                     "): a kernel did what it may not, was built for another device, or the device "
                     "is broken. It did not run out of memory.");
  } else if (found.main.family == Family::kProgramError && is_consequence(found.main.note)) {
    result = say(found, Cause::kUnknown, 0,
                 found.main.note +
                     " reports that another process ended or no longer answers. The log does not "
                     "say what became of that one.");
  } else if (found.main.family == Family::kProgramError) {
    result = say(found, Cause::kNotMemory, 0.8,
                 "The program ended with " + found.main.note +
                     ", which nobody caught; nothing in the log says that a resource ran out.");
  } else if (found.main.family == Family::kCrash) {
    result = say(found, Cause::kUnknown, 0,
                 "The process died of " + found.main.note +
                     ", a crash in compiled code. The log does not say of what: a bug or libraries "
                     "that do not match are usual, and so is memory that was refused (ulimit -v) "
                     "and used all the same.");
  }
  if (!result) return result;
  // The frame that raised it.
  constexpr size_t kReach = 600;
  const size_t frame = found.document.find_back("file \"", found.main.at, kReach);
  const bool has_frame =
      frame != std::string::npos &&
      found.document.find("traceback (most", frame, found.main.at) == std::string::npos;
  if (found.main.family == Family::kProgramError && has_frame) result->evidence.push_back(frame);
  tell_overcome(found, *result);
  return result;
}

std::optional<Diagnosis> plimsoll_limit(const Case& found) {
  if (found.main.family != Family::kPlimsollLimit) return std::nullopt;
  return say(found, Cause::kMemoryLimitTooSmall, 0.95,
             "Plimsoll was given a memory limit of " + size_words(found.main.amounts.limit) +
                 ", which is too small: this model at this batch needs " +
                 size_words(found.main.amounts.program) +
                 ". It refused before anything was trained; nothing ran out.");
}

// Smaller and smaller requests are one failure: its first and its last size tell how much there was
// not.
void tell_tries(const Case& found, Diagnosis& diagnosis) {
  if (!found.tries) return;
  diagnosis.sentence += fmt::format(
      " {} sizes were tried in a row and refused, from {} down to {}.", found.tries->sizes,
      size_words(found.tries->first), size_words(found.tries->last));
  diagnosis.evidence.push_back(found.tries->last_at);
}

constexpr Rule kStatedRules[] = {
    no_refusal, vetoed,        killed_by_somebody, bogus_size,   plimsoll_limit, time_limit,
    zero_bytes, service_quota, other_limits,       message_size, files,          workspace,
    pinned,     library_init,  context_creation,   cufft_padding};

std::optional<Diagnosis> first_of(std::span<const Rule> rules, const Case& found) {
  for (Rule rule : rules) {
    if (std::optional<Diagnosis> result = rule(found)) return result;
  }
  return std::nullopt;
}

std::string unknown_sentence(const Case& found) {
  switch (found.main.family) {
    case Family::kKilled:
      if (found.main.note == "notebook") {
        return "The notebook's kernel ended without a word. RAM that was used up is the most "
               "frequent reason, a crash in compiled code the next; the log does not say which.";
      }
      if (found.main.note == "worker_gone") {
        return "A data-loader worker ended without a word: killed from outside (RAM or shared "
               "memory), or a crash of its own. The log does not say which.";
      }
      return "The process got SIGKILL, which leaves it no time to say anything; the log does not "
             "say "
             "from whom.";
    case Family::kJaxOomLine:
      if (found.main.note == "no_result") {
        return "XLA's search for the fastest kernel got no result to compare with. That is so when "
               "every candidate was refused scratch memory (JAX takes most of the device at its "
               "start), and for other reasons; the log does not say which.";
      }
      break;
    case Family::kJaxBufferAssignment:
      if (found.main.note == "table") {
        return "The table of the program's largest buffers, which XLA prints when memory was "
               "refused; how much was refused is not in this part of the log.";
      }
      break;
    case Family::kErrno12:
      if (found.main.note != "library") break;
      return "A library could not be mapped into the process. The usual reason is a limit of its "
             "address space (ulimit -v, a scheduler's virtual memory); the log does not say.";
    case Family::kOtherHost:
      if (found.request) break;
      return "The program was refused host memory and does not say how much.";
    case Family::kNccl:
      return "NCCL could not get its buffers from the device, outside the framework's allocator. "
             "The log does not say what holds the memory.";
    default:
      break;
  }
  const std::optional<int64_t> program = found.facts.program.total;
  if (program && found.main.resource == Resource::kGpuMemory) {
    return "The program itself needs only " + size_words(program) +
           ": it was the last straw, and the memory was full before. The log does not say what "
           "fills it.";
  }
  if (found.request && *found.request < (int64_t{1} << 20)) {
    return "The refused request is tiny (" + size_words(found.request) +
           "): the memory was full before it came. The log does not say what fills it.";
  }
  return found.request ? "The log names the refused request but not what holds the memory."
                       : "The log says that a request was refused, neither its size nor what holds "
                         "the memory.";
}

}  // namespace

std::optional<Diagnosis> diagnose_stated(const Case& found) {
  return first_of(kStatedRules, found);
}

Diagnosis diagnose(const Case& found) {
  static constexpr Rule kAll[] = {diagnose_stated, diagnose_host, diagnose_tensor, diagnose_device};
  if (!found.found) return {};
  std::optional<Diagnosis> result = first_of(kAll, found);
  if (!result) result = {Cause::kUnknown, 0, unknown_sentence(found), {found.main.at}, false};
  tell_tries(found, *result);
  return *result;
}

}  // namespace plimsoll::explain
