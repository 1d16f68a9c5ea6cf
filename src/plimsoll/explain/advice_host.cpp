#include "explain/advice_impl.h"
#include "explain/number.h"

namespace plimsoll::explain {
namespace {

bool is_torch(const Case& found) { return found.framework == "pytorch"; }
bool is_tensorflow(const Case& found) { return found.framework == "tensorflow"; }

void smaller_data(const Case& found, Explanation& explanation) {
  std::string arithmetic;
  const std::optional<int64_t> bytes =
      explanation.bytes ? explanation.bytes : explanation.tensor_bytes_from_shape;
  if (bytes && explanation.family != "ray_oom") arithmetic = size_words(bytes) + " in one piece";
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
    add_advice(
        explanation, "Half as many samples per step.",
        std::to_string(*explanation.batch) + " -> " + std::to_string(half) + ": this tensor " +
            size_words(whole) + " -> " + size_words(whole / *explanation.batch * half),
        is_tensorflow(found) ? "model.fit(x, y, batch_size=" + std::to_string(half) + ")" : "",
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
    arithmetic = std::to_string(*explanation.batch) + " -> " + half + ": this tensor " +
                 size_words(whole) + " -> " + size_words(*whole - *saves);
  } else if (whole) {
    arithmetic = "half of " + size_words(whole) + " if an axis of it counts samples or positions";
  }
  add_advice(explanation,
             "Fewer samples, or shorter ones, per step; gradients added over two steps keep the "
             "result.",
             arithmetic, "model.fit(x, y, batch_size=" + half + ")", saves);
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

void container(const Case& found, Explanation& explanation) {
  if (found.main.note == "yarn") return executor(explanation);
  std::string code = "docker run --memory=16g ...";
  if (found.main.family == Family::kSlurmOom) code = "#SBATCH --mem=32G";
  if (found.main.family == Family::kSchedulerLimit) {
    code =
        found.main.note == "service"
            ? "aws lambda update-function-configuration --memory-size 4096 | gcloud run services "
              "update NAME --memory 4Gi"
            : "#PBS -l mem=32gb | #BSUB -M 32GB | request_memory = 32GB";
  }
  if (found.main.note == "unit") code = "systemctl edit UNIT: [Service] MemoryMax=16G";
  if (found.main.family == Family::kK8s) code = "resources: {limits: {memory: 16Gi}}";
  add_advice(
      explanation,
      "Ask for as much as the program needs; measure that first, with its worker processes.",
      explanation.amounts.limit ? "the limit was " + size_words(explanation.amounts.limit) : "",
      "plimsoll watch -- python train.py");
  add_advice(explanation, "Then set the limit to the measured peak and some.", "", code);
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
  add_advice(
      explanation,
      "Find what is kept: losses and outputs appended to lists, a model built anew per turn, a "
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
               "into 64 bits. More RAM cannot help.",
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
  add_advice(explanation, "Raise the runtime's own limit, up to what the machine or container has.",
             "",
             found.framework == "dask" ? "Client(memory_limit=\"16GiB\")"
                                       : "java -Xmx16g | NODE_OPTIONS=--max-old-space-size=16384 | "
                                         "php -d memory_limit=16G");
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
             "plimsoll watch -- python train.py");
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

void plimsoll_limit(const Case& found, Explanation& explanation) {
  const int64_t least = found.main.amounts.program.value_or(0);
  add_advice(explanation,
             "Give it more: the lower bound is the least, a little above it is faster.",
             size_words(found.main.amounts.limit) + " given, " + size_words(least) + " needed",
             "--memory " + std::to_string(least + least / 4));
  add_advice(explanation, "Or let plimsoll plan say what each way out needs.", "",
             "plimsoll plan MODEL --batch N");
}

}  // namespace

void advise_host(const Case& found, Explanation& explanation) {
  if (found.main.family == Family::kPlimsollLimit) return plimsoll_limit(found, explanation);
  switch (explanation.cause_label) {
    case Cause::kHostRamContainerLimit:
      return container(found, explanation);
    case Cause::kHostRamBatchOrDataset:
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
