#include <algorithm>

#include "base/format.h"
#include "explain/answer/advice_impl.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

bool is_torch(const Case& found) { return found.framework == "pytorch"; }
bool is_tensorflow(const Case& found) { return found.framework == "tensorflow"; }

void smaller_data(const Case& found, Explanation& explanation) {
  std::string arithmetic;
  const std::optional<int64_t> bytes =
      explanation.bytes ? explanation.bytes : explanation.tensor_bytes_from_shape;
  // A small one only came last, when what was held before had filled the memory.
  constexpr int64_t kLarge = int64_t{256} << 20;
  const bool last_straw = bytes && *bytes < kLarge;
  if (bytes && !last_straw) arithmetic = size_words(bytes) + " in one piece";
  if (last_straw && explanation.family == "numpy_memoryerror") {
    add_advice(explanation,
               "Write each result out when it is made instead of collecting all of them in a list.",
               "", "");
  }
  std::string code = "x = np.load(\"x.npy\", mmap_mode=\"r\")";
  if (is_tensorflow(found)) {
    code = "ds = tf.data.Dataset.from_generator(read_samples, ...).batch(32).prefetch(1)";
  }
  if (is_torch(found))
    code = "class Samples(torch.utils.data.Dataset): reads one item per __getitem__";
  add_advice(explanation, "Read samples when they are needed instead of holding all of them.",
             arithmetic, code);
  const bool wide = found.main.dtype == "float64" || found.main.dtype == "double";
  if (wide && bytes) {
    add_advice(
        explanation, "Keep the array in float32, or images in uint8.",
        size_words(bytes) + " -> " + size_words(*bytes / 2) + " or " + size_words(*bytes / 8),
        "x = np.empty(shape, dtype=np.float32)", *bytes / 2);
  }
  if (explanation.batch && *explanation.batch > 1 && explanation.tensor_bytes_from_shape) {
    const int64_t half = *explanation.batch / 2;
    const int64_t whole = *explanation.tensor_bytes_from_shape;
    add_advice(explanation, "Half as many samples per step.",
               fmt::format("{} -> {}: this tensor {} -> {}", *explanation.batch, half,
                           size_words(whole), size_words(whole / *explanation.batch * half)),
               is_tensorflow(found) ? fmt::format("model.fit(x, y, batch_size={})", half) : "",
               whole - whole / *explanation.batch * half);
  }
}

// What the step itself computes, as opposed to what the input pipeline holds.
bool is_of_step(const Case& found) {
  if (found.main.family != Family::kTfOomLine || found.main.op.empty()) return false;
  for (std::string_view input : {"iterator", "decode", "parse", "read", "shuffle", "dataset"}) {
    if (find_ignoring_case(found.main.op, input) != std::string_view::npos) return false;
  }
  return true;
}

void smaller_step(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> whole = explanation.tensor_bytes_from_shape;
  if (found.weights) {
    add_advice(explanation, "An optimizer that keeps less per weight, or fewer weights.",
               "float32 with Adam: 4 weight + 4 gradient + 8 slots = 16 bytes per parameter",
               "model.compile(optimizer=tf.keras.optimizers.SGD())");
    add_not_worth(explanation, "fewer samples per step",
                  "0 B of the refused tensor: no axis of it counts samples");
    return;
  }
  const std::string half =
      explanation.batch ? std::to_string(std::max<int64_t>(*explanation.batch / 2, 1)) : "HALF";
  std::string arithmetic;
  std::optional<int64_t> saves;
  if (whole && explanation.batch && *explanation.batch > 1) {
    saves = *whole - *whole / *explanation.batch * (*explanation.batch / 2);
    arithmetic = fmt::format("{} -> {}: this tensor {} -> {}", *explanation.batch, half,
                             size_words(whole), size_words(*whole - *saves));
  } else if (whole) {
    arithmetic = "half of " + size_words(whole) + " if an axis of it counts samples or positions";
  }
  HalfBatch advised = half_batch(found, half);
  add_advice(explanation, std::move(advised.action), arithmetic, std::move(advised.code), saves);
  add_advice(explanation, "In training: recompute activations instead of keeping them.", "",
             "block = tf.recompute_grad(block)");
}

void fewer_workers(const Case& found, Explanation& explanation) {
  add_advice(explanation, "Fewer worker processes, each of which may hold a copy.",
             "memory of the workers is their number times one of them",
             is_torch(found) ? "DataLoader(dataset, num_workers=2, persistent_workers=True)"
                             : "workers=1");
}

// An executor's container holds Java's heap and, outside of it, Python workers and buffers.
void executor(Explanation& explanation) {
  add_advice(explanation, "Give the container more beside the heap: that is where Python works.",
             "container = heap + overhead; the default overhead is a tenth of the heap",
             "--conf spark.executor.memoryOverhead=2g");
  add_advice(explanation, "Smaller partitions, or fewer of them at once in one executor.",
             "memory of an executor's tasks is their number times one of them",
             "--conf spark.sql.shuffle.partitions=800 --conf spark.executor.cores=2");
}

// "64GiB", "12800MiB": whole, for an option.
std::string short_size(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int64_t kGiB = int64_t{1} << 30;
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  return fmt::format("{}MiB", (bytes + kMiB - 1) / kMiB);
}

// In the units of the place where the limit is set.
std::string limit_in(int64_t bytes, std::string_view gib, std::string_view mib) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int64_t kGiB = int64_t{1} << 30;
  if (bytes % kGiB == 0) return fmt::format("{}{}", bytes / kGiB, gib);
  return fmt::format("{}{}", (bytes + kMiB - 1) / kMiB, mib);
}

// A first try where the log names the limit that was too small, bounded by what is there.
std::optional<int64_t> larger_limit(const Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  if (!amounts.limit || *amounts.limit <= 0) return std::nullopt;
  int64_t twice = *amounts.limit * 2;
  if (amounts.capacity && *amounts.capacity > *amounts.limit) {
    twice = std::min(twice, *amounts.capacity);
  }
  return twice;
}

// The number after "StepId=", "JOB " or in the first column of the accounting.
std::string job_number(const Case& found) {
  constexpr int64_t kSmallest = 100;  // "job 3" counts something else
  for (std::string_view label : {"stepid=", "jobid=", "step ", "job "}) {
    const size_t at = found.document.find(label);
    if (at == std::string::npos) continue;
    size_t number = found.document.match(label, at);
    const std::optional<int64_t> value = read_integer(found.document.text(), number);
    if (value && *value >= kSmallest) return std::to_string(*value);
  }
  return "JOB";
}

// Where such a limit is set, with the figure to begin with, or the way to one.
std::string limit_code(const Case& found, const Explanation& explanation) {
  const std::optional<int64_t> larger = larger_limit(explanation);
  const auto in = [&](std::string_view gib, std::string_view mib) {
    return larger ? limit_in(*larger, gib, mib) : std::string("PEAK");
  };
  const auto says = [&](std::string_view words) {
    return found.document.find(words) != std::string::npos;
  };
  switch (found.main.family) {
    case Family::kSlurmOom:
      return larger ? "#SBATCH --mem=" + in("G", "M")
                    : "sacct -j " + job_number(found) + " -o JobID,State,ReqMem,MaxRSS";
    case Family::kSchedulerLimit:
      return found.main.note == "service"
                 ? "aws lambda update-function-configuration --memory-size ... | gcloud run "
                   "services update NAME --memory ..."
                 : "#PBS -l mem=" + in("gb", "mb") + " | #BSUB -M " + in("GB", "MB") +
                       " | request_memory = " + in("GB", "MB");
    case Family::kK8s:
      if (found.main.note == "docker") return "docker run --memory=" + in("g", "m") + " ...";
      return "resources: {limits: {memory: " + in("Gi", "Mi") + "}}";
    default:
      break;
  }
  if (found.main.note == "unit") return "systemctl edit UNIT: [Service] MemoryMax=" + in("G", "M");
  if (says("kubepods")) return "resources: {limits: {memory: " + in("Gi", "Mi") + "}}";
  if (says("/slurm/") || says("slurmstepd")) return "#SBATCH --mem=" + in("G", "M");
  return "docker run --memory=" + in("g", "m") + " ...";
}

// Where a node is short, pods go that use more than they requested: their limit does not matter.
void request_more(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> used = explanation.amounts.in_use;
  std::string arithmetic;
  if (used) arithmetic = "was using " + size_words(used);
  if (used && found.main.requested) {
    arithmetic += ", request " + size_words(found.main.requested);
  }
  const std::string request = used ? limit_in(*used, "Gi", "Mi") : std::string("PEAK");
  add_advice(explanation,
             "Request what the program uses: a node with too little memory evicts pods that use "
             "more than their request, whatever their limit is.",
             arithmetic, "resources: {requests: {memory: " + request + "}}");
}

void container(const Case& found, Explanation& explanation) {
  if (found.main.note == "yarn") return executor(explanation);
  const std::optional<int64_t> limit = explanation.amounts.limit;
  const bool evicted = found.main.note == "evicted";
  if (evicted) request_more(found, explanation);
  if (limit && !evicted) {
    add_advice(explanation, "Ask for more than " + size_words(limit) + ".",
               "that was the limit and was reached; twice as much is a first try, the measured "
               "peak decides",
               limit_code(found, explanation));
  }
  add_advice(explanation, "Measure what the program needs, with its worker processes.", "",
             "plimsoll watch -- python train.py");
  if (!limit && !evicted) {
    add_advice(explanation, "Then set the limit to the measured peak and some.", "",
               limit_code(found, explanation));
  }
  smaller_data(found, explanation);
  fewer_workers(found, explanation);
}

void pinned(const Case& found, Explanation& explanation) {
  add_advice(explanation, "Stage less in page-locked memory: fewer or smaller batches in flight.",
             explanation.bytes ? size_words(explanation.bytes) + " were to be locked at once" : "",
             is_torch(found) ? "DataLoader(dataset, pin_memory=False)" : "ds.prefetch(1)");
  add_advice(explanation, "Or limit the host pool.", "", "TF_GPU_HOST_MEM_LIMIT_IN_MB=4096");
  add_not_worth(explanation, "a larger card", "0 B: page-locked memory is the machine's RAM");
}

void pipeline(Explanation& explanation) {
  std::string arithmetic = "buffer bytes = buffer_size x bytes of one sample";
  if (explanation.tensor_bytes_from_shape) {
    arithmetic = "1000 samples of this tensor: " +
                 size_words(*explanation.tensor_bytes_from_shape <= (int64_t{1} << 50)
                                ? std::optional(*explanation.tensor_bytes_from_shape * 1000)
                                : std::nullopt);
  }
  add_advice(explanation,
             "A smaller shuffle buffer, or shuffle file names instead of decoded samples.",
             arithmetic, "ds.shuffle(1000)");
  add_advice(explanation, "Cache to a file instead of memory, and before decoding.", "",
             "ds.cache(\"/path/to/cache\")");
  add_advice(explanation, "Bound what is decoded ahead.", "", "ds.prefetch(1)");
}

void leak(Explanation& explanation) {
  add_advice(explanation,
             "Find what is kept: losses and outputs appended to lists, a model built anew per "
             "iteration, a "
             "function traced anew for every Python number.",
             "", "history.append(float(loss))");
  add_advice(explanation,
             "Run each training in a process of its own; its end gives everything back.", "",
             "subprocess.run([sys.executable, \"train_one.py\", ...])");
  add_advice(explanation, "Measure the growth per step, with its confidence.", "",
             "plimsoll watch -- python train.py");
}

void single_tensor(const Case& found, Explanation& explanation) {
  if (!found.main.bogus_size.empty()) {
    add_advice(explanation,
               "Print the dimensions that go in: one is negative, or their product does not fit "
               "into 64 bits. No amount of memory helps.",
               "", "print(shape, dtype)");
    return;
  }
  add_advice(
      explanation,
      "Look at the shape: an axis that should not be there, or a table of pairs, is the usual "
      "reason. Compute it in slices and keep what is summed up.",
      size_words(explanation.bytes ? explanation.bytes : explanation.tensor_bytes_from_shape) +
          " in one request",
      "for rows in np.array_split(x, n): ...");
  if (found.main.dtype == "float64") {
    add_advice(explanation, "float32 halves it.", "", "x.astype(np.float32)");
  }
}

void pagefile(Explanation& explanation) {
  add_advice(explanation, "Let Windows manage the page file, or set it to twice the RAM.", "",
             "System > Advanced > Performance > Virtual memory");
  add_advice(explanation, "Fewer worker processes: each commits the CUDA libraries anew.",
             "about 2 to 3 GiB of commit per process that loads CUDA",
             "DataLoader(dataset, num_workers=0)");
}

// The sum stays when half as many workers have twice as much each.
void dask_worker(Explanation& explanation) {
  const std::optional<int64_t> limit = explanation.amounts.limit;
  add_advice(explanation, "Fewer workers with more memory each: the sum stays.",
             limit ? size_words(limit) + " -> " + size_words(*limit * 2) + " with half the workers"
                   : "half as many workers have twice as much each",
             limit ? "Client(n_workers=N // 2, memory_limit=\"" + short_size(*limit * 2) + "\")"
                   : "Client(n_workers=N // 2, memory_limit=...)");
  add_advice(explanation, "Or smaller partitions, so that a task needs less.", "",
             "df.repartition(partition_size=...)");
}

// Twice what was reached, as the option of the runtime that says so.
void raise_runtime_limit(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> limit = explanation.amounts.limit;
  const std::string arithmetic =
      limit ? size_words(limit) + " was the limit; twice as much is a first try" : "";
  std::string code;
  if (found.document.match("javascript heap", found.main.at) != std::string::npos) {
    constexpr int64_t kStep = int64_t{1} << 30;
    const int64_t twice = limit ? std::max<int64_t>(1, (*limit * 2) / kStep) * 1024 : 0;
    code = "NODE_OPTIONS=--max-old-space-size=" + (limit ? std::to_string(twice) : "MIB");
  } else if (found.document.find("allowed memory size of ") != std::string::npos) {
    code = "php -d memory_limit=...";
  } else {
    code = "java -Xmx...   (spark: --driver-memory, --executor-memory)";
  }
  add_advice(explanation,
             "Raise the runtime's own limit, up to what the machine or container has; more RAM "
             "alone changes nothing.",
             arithmetic, code);
}

void own_limit(const Case& found, Explanation& explanation) {
  if (found.main.note == "arena") {
    add_advice(explanation, "Make the interpreter's arena larger; it is a constant of the program.",
               size_words(explanation.bytes) + " asked for in one piece",
               "static uint8_t tensor_arena[kArenaBytes];");
    return;
  }
  if (found.main.note == "own_pool") {
    add_advice(explanation,
               "Take a newer version of the program, or a model file made for this one: the sizes "
               "are reckoned wrongly for this model.",
               size_words(explanation.bytes) + " needed in all", "");
    add_advice(explanation, "A shorter context or a smaller batch needs less of the pool.", "",
               "llama-cli -m MODEL -c 2048 -b 256");
    return;
  }
  if (found.main.family == Family::kNumpyMemoryError) {
    add_advice(explanation, "Lift or raise the limit where the program is started.",
               explanation.bytes ? size_words(explanation.bytes) + " were asked for at once" : "",
               "ulimit -v unlimited");
    return smaller_data(found, explanation);
  }
  if (found.framework == "dask") return dask_worker(explanation);
  raise_runtime_limit(found, explanation);
  smaller_data(found, explanation);
}

void weights(Explanation& explanation) {
  add_advice(explanation, "Take a smaller model, or the same with weights of 8 or 4 bits.",
             size_words(explanation.bytes) + " needed: parameters x bytes per parameter", "");
  add_advice(explanation, "Or end what else holds memory, or take a machine with more.", "", "");
}

void unknown(const Case& found, Explanation& explanation) {
  if (found.main.note == "compiler") {
    add_advice(explanation, "Compile fewer files side by side, or without debug information.",
               "memory of the compilers is their number times one of them, often 1 to 2 GiB",
               "make -j2   |   ninja -j2   |   MAX_JOBS=2 pip install ...");
    return;
  }
  add_advice(explanation,
             "Run it again under a guard that records the memory and says who ended it.", "",
             found.main.note == "notebook" ? "plimsoll watch -- jupyter execute notebook.ipynb"
                                           : "plimsoll watch -- python train.py");
  if (found.main.family == Family::kKilled &&
      found.document.find("dataloader worker") != std::string::npos) {
    add_advice(explanation, "If it says memory: fewer workers, each of which may hold a copy.",
               "memory of the workers is their number times one of them",
               "DataLoader(dataset, num_workers=1)");
  }
  if (found.main.note == "library") {
    add_advice(explanation, "Look at the limit, and raise it where the program is started.",
               "a framework's libraries take several GiB of address space, and little of it as RAM",
               "ulimit -v; ulimit -v unlimited");
  }
  if (found.main.family == Family::kErrno12 && found.main.note == "fork") {
    add_advice(explanation, "Start workers before memory is filled, or without copying the parent.",
               "",
               is_torch(found) ? "DataLoader(..., multiprocessing_context=\"forkserver\")"
                               : "multiprocessing.set_start_method(\"forkserver\")");
  }
}

void mapped_file(Explanation& explanation) {
  add_advice(explanation, "Add swap: the promise is set against RAM and swap together.",
             size_words(explanation.bytes) + " are to be promised", "");
  add_advice(explanation, "Or let the kernel promise more than it has.",
             "pages of a file that are only read take no memory of their own",
             "sudo sysctl -w vm.overcommit_memory=1");
  add_advice(explanation, "Or read the file piece by piece, tensor by tensor.", "", "");
}

void ray(Explanation& explanation) {
  add_advice(explanation, "Run fewer tasks and actors at once: each takes memory of the node.",
             "memory of the workers is their number times one of them",
             "@ray.remote(num_cpus=..., memory=...)");
  add_advice(explanation, "Or give the node more memory.", "", "");
  add_not_worth(explanation, "a higher RAY_memory_usage_threshold",
                "then the kernel kills instead of Ray, without a word");
}

void plimsoll_limit(const Case& found, Explanation& explanation) {
  const int64_t least = found.main.amounts.program.value_or(0);
  add_advice(explanation,
             "Give it more: the lower bound is the least, a little above it is faster.",
             size_words(found.main.amounts.limit) + " given, " + size_words(least) + " needed",
             fmt::format("--memory {}", least + least / 4));
  add_advice(explanation, "Or let plimsoll plan say what each remedy needs.", "",
             plan_command(found) + " --batch N");
}

}  // namespace

void advise_host(const Case& found, Explanation& explanation) {
  if (found.survived) {
    add_advice(explanation, "Nothing has to be done: the program went on.", "", "");
    explanation.usual_reasons.clear();
    return;
  }
  if (advise_server(found, explanation)) return;
  if (found.main.family == Family::kPlimsollLimit) return plimsoll_limit(found, explanation);
  switch (explanation.cause_label) {
    case Cause::kHostRamContainerLimit:
      return container(found, explanation);
    case Cause::kHostRamBatchOrDataset:
      if (found.main.note == "mmap") return mapped_file(explanation);
      if (found.main.family == Family::kRayOom) return ray(explanation);
      if (is_of_step(found)) return smaller_step(found, explanation);
      smaller_data(found, explanation);
      return fewer_workers(found, explanation);
    case Cause::kPinnedHostPool:
      return pinned(found, explanation);
    case Cause::kShuffleBufferOrCache:
      return pipeline(explanation);
    case Cause::kLeakOverTime:
      return leak(explanation);
    case Cause::kSingleTensorTooLarge:
      return single_tensor(found, explanation);
    case Cause::kMemoryLimitTooSmall:
      return own_limit(found, explanation);
    case Cause::kWeightsOrOptimizer:
      return weights(explanation);
    case Cause::kWindowsPagefile:
      return pagefile(explanation);
    default:
      return unknown(found, explanation);
  }
}

}  // namespace plimsoll::explain
