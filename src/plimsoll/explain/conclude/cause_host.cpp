// Rules for host memory: refused in the process, or the process killed from outside.

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr size_t npos = std::string_view::npos;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

// " Largest in the kernel's table: python3 (5249) 1.27 GiB, loader (5163) 686 MiB."
std::string largest_tasks(const Case& found) {
  const TaskTable& table = found.facts.kernel_tasks;
  std::string words;
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(table.largest.size(), kMost); ++i) {
    const TaskRow& row = table.largest[i];
    if (row.resident_bytes * 20 < table.largest.front().resident_bytes) break;
    words +=
        words.empty()
            ? fmt::format(" Largest in the kernel's table of {} tasks (pages of files included): ",
                          table.rows)
            : ", ";
    words += fmt::format("{} (process {}) {}", clean_line(row.name), row.pid,
                         size_words(row.resident_bytes));
  }
  return words.empty() ? "" : words + ".";
}

Diagnosis killed_by_kernel(const Case& found) {
  if (found.main.note == "cgroup") {
    Diagnosis result =
        reading(found, Cause::kHostRamContainerLimit, 0.95,
                "The kernel killed the process" +
                    (found.main.victim.empty() ? "" : " (" + found.main.victim + ")") +
                    " because its memory cgroup (a container's or job's limit" +
                    (found.main.amounts.limit ? ", " + size_words(found.main.amounts.limit)
                                              : std::string()) +
                    ") was full." + largest_tasks(found));
    result.inferred = false;
    return result;
  }
  if (found.main.note == "unit") {
    Diagnosis result =
        reading(found, Cause::kHostRamContainerLimit, 0.55,
                "systemd says that the kernel's OOM killer ended a process of this unit: most "
                "often the unit's own MemoryMax was reached, else the whole machine was full.");
    return result;
  }
  if (found.main.note == "daemon") {
    Diagnosis result = reading(found, Cause::kHostRamBatchOrDataset, 0.6,
                               "A daemon that watches memory ended the program because the machine "
                               "was nearly full. It chose the largest; others may hold as much.");
    result.inferred = false;
    return result;
  }
  if (found.main.note == "nodes") {
    Diagnosis result =
        reading(found, Cause::kHostRamContainerLimit, 0.8,
                "The memory nodes that the process may use (its cpuset or NUMA policy) were full "
                "and the kernel killed a process" +
                    (found.main.victim.empty() ? "" : " (" + found.main.victim + ")") +
                    "; other nodes of the machine may have had memory." + largest_tasks(found));
    result.inferred = false;
    return result;
  }
  Diagnosis result = reading(
      found, Cause::kHostRamBatchOrDataset, 0.6,
      "The whole machine ran out of RAM and the kernel killed a process" +
          (found.main.victim.empty() ? "" : " (" + found.main.victim + ")") +
          ". The one that "
          "\"invoked oom-killer\" only asked at that moment; it need not be the one to blame." +
          largest_tasks(found));
  result.inferred = false;
  return result;
}

std::optional<Diagnosis> killed_by_limit(const Case& found) {
  switch (found.main.family) {
    case Family::kOomKiller:
      return killed_by_kernel(found);
    case Family::kSlurmOom: {
      const Amounts& amounts = found.main.amounts;
      std::string figures;
      if (amounts.limit) figures = " It had asked for " + size_words(amounts.limit);
      if (amounts.limit && amounts.in_use) {
        figures += " and was seen with " + size_words(amounts.in_use);
      }
      Diagnosis result =
          reading(found, Cause::kHostRamContainerLimit, 0.95,
                  "Slurm's cgroup for the job step was full: the job used more RAM than "
                  "it had asked for." +
                      (figures.empty() ? "" : figures + "."));
      result.inferred = false;
      if (const Finding* shell = found.first(Family::kKilled)) result.evidence.push_back(shell->at);
      return result;
    }
    case Family::kK8s: {
      std::string evicted =
          "The node was low on memory and the pod was evicted: it used more than it had requested";
      if (found.main.amounts.in_use && found.main.requested) {
        evicted += " (" + size_words(found.main.amounts.in_use) + " of " +
                   size_words(found.main.requested) + ")";
      }
      Diagnosis result =
          reading(found, Cause::kHostRamContainerLimit, found.main.note == "evicted" ? 0.85 : 0.95,
                  found.main.note == "evicted"
                      ? evicted + "."
                      : "The container reached its memory limit and the kernel killed it.");
      result.inferred = false;
      return result;
    }
    case Family::kSchedulerLimit: {
      const bool service = found.main.note == "service";
      Diagnosis result = reading(
          found, Cause::kHostRamContainerLimit, 0.95,
          service ? "The service ended the program at the memory that it was given; it says so "
                    "itself."
                  : "The job was ended because it used more memory than it had asked for; the "
                    "scheduler says so itself.");
      result.inferred = false;
      return result;
    }
    default:
      return std::nullopt;
  }
}

// Runtimes with a limit of their own, programs that name what they were refused.
std::optional<Diagnosis> other_programs(const Case& found) {
  if (found.main.family != Family::kOtherHost) return std::nullopt;
  if (found.main.note == "arena") {
    return reading(found, Cause::kMemoryLimitTooSmall, 0.8,
                   "The arena that the program gave the interpreter is smaller than the model's "
                   "tensors; its size is a constant of the program.");
  }
  if (found.main.note == "own_pool") {
    return reading(
        found, Cause::kMemoryLimitTooSmall, 0.75,
        "A pool whose size the program reckons in advance is smaller than what it then puts "
        "into it; the machine's memory has nothing to do with it.");
  }
  if (found.main.note.starts_with("ggml_")) {
    return reading(
        found, Cause::kWeightsOrOptimizer, 0.7,
        "One buffer of " + size_words(found.main.bytes) +
            " for the model was refused in host memory: weights that are not on a device, "
            "or read without a mapping, lie in RAM.");
  }
  if (found.framework == "dask") {
    std::string sentence = "A worker passed the memory that Dask gives it";
    if (found.main.amounts.limit) sentence += " (" + size_words(found.main.amounts.limit) + ")";
    return reading(found, Cause::kMemoryLimitTooSmall, 0.8,
                   sentence +
                       ", and its nanny started it anew; the kernel has no part in it. One task "
                       "or partition needs more than a worker has.");
  }
  if (found.main.note == "heap") {
    return reading(
        found, Cause::kMemoryLimitTooSmall, 0.75,
        "The runtime's own limit was reached, whatever the machine has: it is set when the "
        "program is started.");
  }
  if (found.main.note == "model") {
    return reading(found, Cause::kWeightsOrOptimizer, 0.75,
                   "The model needs " + size_words(found.main.bytes) +
                       " of host memory for its weights and its context" +
                       (found.main.amounts.free
                            ? ", and " + size_words(found.main.amounts.free) + " are free: " +
                                  size_words(std::max<int64_t>(
                                      found.main.bytes.value_or(0) - *found.main.amounts.free, 0)) +
                                  " are missing."
                            : ", more than is free."));
  }
  if (!found.main.bytes || found.main.note == "compiler") return std::nullopt;
  if (!found.tries && *found.main.bytes >= 64 * kGiB) {
    return reading(found, Cause::kSingleTensorTooLarge, 0.7,
                   "One block of " + size_words(found.main.bytes) + " was asked for.");
  }
  return reading(found, Cause::kHostRamBatchOrDataset, 0.5,
                 "One block of " + size_words(found.main.bytes) +
                     " was asked for and host memory did not have it; the GPU has no part in it.");
}

std::optional<Diagnosis> growth(const Case& found) {
  const SeriesTrend& series = found.facts.series;
  if (!series.grows) return std::nullopt;
  const bool host = found.main.resource == Resource::kHostMemory;
  if (!host) return std::nullopt;
  Diagnosis result =
      reading(found, Cause::kLeakOverTime, 0.8,
              fmt::format("The memory that the program itself prints grows from {} to {} over {} "
                          "readings, about {} per reading, and does not level off.",
                          size_words(round_to_bytes(series.first_bytes)),
                          size_words(round_to_bytes(series.last_bytes)), series.points,
                          size_words(round_to_bytes(std::max(series.slope_bytes, 0.0)))));
  quote_series(found, series, result);
  return result;
}

std::optional<Diagnosis> pipeline_marks(const Case& found) {
  const Context& context = found.facts.context;
  if (found.main.resource != Resource::kHostMemory) return std::nullopt;
  if (!context.shuffle_buffer && !context.cache_dataset) return std::nullopt;
  Diagnosis result = reading(
      found, Cause::kShuffleBufferOrCache, 0.75,
      context.shuffle_buffer
          ? "The input pipeline was filling its shuffle buffer when it happened: the buffer "
            "holds whole samples in RAM."
          : "The input pipeline caches the data set in RAM, and was not finished with it.");
  result.evidence.push_back(context.shuffle_buffer ? context.shuffle_at : context.cache_at);
  return result;
}

std::optional<Diagnosis> notebook_or_node(const Case& found) {
  if (found.main.family == Family::kColab) {
    return reading(found, Cause::kHostRamBatchOrDataset, 0.6,
                   "The notebook's machine ran out of RAM, not its GPU. What is loaded or built in "
                   "memory, the data first of all, is larger than the machine.");
  }
  if (found.main.family != Family::kRayOom) return std::nullopt;
  std::string sentence = "The node was nearly full and Ray killed its most recent task";
  if (found.main.amounts.in_use) {
    sentence += ", which itself used " + size_words(found.main.amounts.in_use) + " of " +
                size_words(found.main.bytes) +
                ": the killed task is not necessarily the one that fills the node";
  }
  return reading(found, Cause::kHostRamBatchOrDataset, 0.5, sentence + ".");
}

// Whether the dimensions look like samples (one long axis) or like a table of pairs (two).
bool is_table(const std::vector<int64_t>& shape) {
  return shape.size() == 2 && shape[0] > 10000 && shape[1] > 10000;
}

// Three axes of one length in one array: an axis was made twice.
std::optional<Diagnosis> repeated_axis(const Case& found) {
  if (found.main.family != Family::kNumpyMemoryError || !found.main.shape) return std::nullopt;
  constexpr int64_t kLong = 64;
  for (const int64_t length : *found.main.shape) {
    const auto count = std::count(found.main.shape->begin(), found.main.shape->end(), length);
    if (length < kLong || count < 3) continue;
    return reading(
        found, Cause::kSingleTensorTooLarge, 0.65,
        fmt::format(
            "One array of {} with {} axes of {}: one of them is probably too many. Without "
            "it the array has {}.",
            size_words(found.request), count, length,
            size_words(found.request ? std::optional(*found.request / length) : std::nullopt)));
  }
  return std::nullopt;
}

// A file that is mapped with the right to write counts as a promise of its whole size.
std::optional<Diagnosis> mapped_file(const Case& found) {
  if (found.main.family != Family::kErrno12 || found.main.note != "mmap" || !found.main.bytes) {
    return std::nullopt;
  }
  return reading(
      found, Cause::kHostRamBatchOrDataset, 0.65,
      "A file was to be mapped whole (" + size_words(found.main.bytes) +
          ") and the kernel refused to promise that much: its overcommit accounting sets a "
          "private mapping against RAM and swap before a single page is read.");
}

std::optional<Diagnosis> array_refused(const Case& found) {
  const Family family = found.main.family;
  if (family != Family::kNumpyMemoryError && family != Family::kMemoryErrorBare) {
    return std::nullopt;
  }
  const std::optional<int64_t> bytes = found.request;
  if (family == Family::kMemoryErrorBare && !found.main.shape) {
    const std::string code = found.code_text();
    const bool array = contains(code, "np.") || contains(code, "numpy.") || contains(code, "pd.") ||
                       contains(code, "load") || contains(code, "read");
    if (!array) return std::nullopt;
    Diagnosis result =
        reading(found, Cause::kHostRamBatchOrDataset, 0.6,
                "Python could not get host memory for the array made in the line above "
                "the error. GPU memory has no part in it.");
    if (found.code) result.evidence.insert(result.evidence.begin(), found.code->at);
    return result;
  }
  if (found.main.shape && is_table(*found.main.shape)) {
    return reading(
        found, Cause::kSingleTensorTooLarge, 0.6,
        fmt::format("One array of {} with two long axes ({} x {}): a table of pairs grows "
                    "with the product of both.",
                    size_words(bytes), (*found.main.shape)[0], (*found.main.shape)[1]));
  }
  if (contains(found.document.text(), "ulimit -v ")) {
    return reading(
        found, Cause::kMemoryLimitTooSmall, 0.7,
        "One array of " + size_words(bytes) +
            " was refused in a process whose address space is limited (ulimit -v, in the "
            "log): that limit, not the machine's memory, is what it met.");
  }
  if (bytes && *bytes < kGiB / 4) {
    return reading(
        found, Cause::kHostRamBatchOrDataset, 0.45,
        "Only " + size_words(bytes) +
            " were asked for: the RAM was full before, with data loaded earlier or results "
            "collected so far.");
  }
  return reading(found, Cause::kHostRamBatchOrDataset, 0.65,
                 "One array of " + size_words(bytes) +
                     " was to hold the data at once in host memory, and RAM does not have it.");
}

std::optional<Diagnosis> torch_cpu(const Case& found) {
  if (found.main.family != Family::kTorchCpu) return std::nullopt;
  const int64_t bytes = found.main.bytes.value_or(0);
  if (bytes >= 32 * kGiB) {
    return reading(found, Cause::kSingleTensorTooLarge, 0.75,
                   "One CPU tensor of " + size_words(bytes) +
                       " was asked for in one piece; the log does not say how much RAM there is.");
  }
  if (found.main.note == "windows" && bytes < 8 * kGiB) {
    return reading(found, Cause::kWindowsPagefile, 0.75,
                   "This is the Windows form of the message, and only " + size_words(bytes) +
                       " were asked for: the commit limit (RAM + page file) was reached, which can "
                       "happen with RAM still free.");
  }
  if (bytes >= 4 * kGiB) {
    return reading(
        found, Cause::kHostRamBatchOrDataset, 0.5,
        "One CPU tensor of " + size_words(bytes) +
            " did not fit into what RAM was left; the message is about RAM, not the GPU.");
  }
  return reading(
      found, Cause::kHostRamBatchOrDataset, 0.45,
      "RAM was full when the last " + size_words(bytes) +
          " were asked for. Checkpoints and data sets that every process loads for itself "
          "are the usual holders; the log does not say which.");
}

// [416,416,3], [3,416,416] or [1,416,416,3]: a single image, not a batch of activations.
bool is_one_image(const std::vector<int64_t>& shape) {
  const bool image = shape.size() == 3 || (shape.size() == 4 && shape[0] == 1);
  return image && (shape.back() <= 4 || shape[shape.size() - 3] <= 4);
}

// TensorFlow on the CPU.
std::optional<Diagnosis> cpu_tensor(const Case& found) {
  if (found.main.family != Family::kTfOomLine) return std::nullopt;
  if (found.main.resource != Resource::kHostMemory) return std::nullopt;
  if (found.main.shape && is_one_image(*found.main.shape)) {
    return reading(
        found, Cause::kShuffleBufferOrCache, 0.5,
        "The refused tensor is one image of " + size_words(found.request) +
            " without a batch axis, in the input pipeline on the CPU: host RAM was full of "
            "samples that are held there (cache, shuffle buffer, prefetch).");
  }
  if (found.request && *found.request >= 32 * kGiB) {
    return reading(found, Cause::kSingleTensorTooLarge, 0.7,
                   "One tensor of " + size_words(found.request) + " on the CPU.");
  }
  return reading(found, Cause::kHostRamBatchOrDataset, 0.6,
                 "The step runs on the CPU (allocator " + found.main.allocator +
                     "): host RAM, not GPU memory, did not have the " + size_words(found.request) +
                     " of this tensor.");
}

std::optional<Diagnosis> announced(const Case& found) {
  const Finding* warning = found.first(Family::kTfCpuWarning);
  if (warning == nullptr || found.main.resource != Resource::kHostMemory) return std::nullopt;
  if (found.main.family == Family::kTfCpuWarning) {
    return reading(
        found, Cause::kHostRamBatchOrDataset, 0.4,
        "TensorFlow announces a single host allocation of " + size_words(found.main.bytes) +
            ". That is a warning, nothing was refused; where RAM runs out the kernel kills "
            "the process without a further word.");
  }
  if (found.main.family != Family::kKilled) return std::nullopt;
  Diagnosis result =
      reading(found, Cause::kHostRamBatchOrDataset, 0.6,
              "TensorFlow announced host allocations of " + size_words(warning->bytes) +
                  " each, then the process was killed: most likely by the kernel, out of RAM.");
  result.evidence.push_back(warning->at);
  return result;
}

constexpr Rule kHostRules[] = {killed_by_limit,  other_programs, growth,      pipeline_marks,
                               notebook_or_node, repeated_axis,  mapped_file, array_refused,
                               torch_cpu,        cpu_tensor,     announced};

}  // namespace

std::optional<Diagnosis> diagnose_host(const Case& found) {
  for (Rule rule : kHostRules) {
    if (std::optional<Diagnosis> result = rule(found)) return result;
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
