#include <algorithm>

#include "base/format.h"
#include "explain/answer/advice_impl.h"
#include "explain/conclude/cause.h"
#include "explain/conclude/phase.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

bool is_torch(const Case& found) { return found.framework == "pytorch"; }
bool is_jax(const Case& found) { return found.framework == "jax"; }
bool is_tensorflow(const Case& found) { return found.framework == "tensorflow"; }

std::string torch_device(const Case& found) {
  switch (found.main.family) {
    case Family::kTorchMps:
      return "mps";
    case Family::kTorchXpu:
      return "xpu";
    case Family::kTorchNpu:
      return "npu";
    default:
      return "cuda";
  }
}

// Transformers' own loop, whose options have names of their own.
bool uses_trainer(const Case& found) {
  return is_torch(found) && (found.document.find("transformers/trainer.py") != std::string::npos ||
                             found.document.find("trainingarguments(") != std::string::npos);
}

// Less of everything that grows with the batch. Only where a batch may be in it.
void smaller_batch(const Case& found, Explanation& explanation) {
  if (found.weights) {
    add_not_worth(explanation, "fewer samples per step",
                  "0 B of the refused tensor: no axis of it counts samples");
    return;
  }
  const bool known_shape = explanation.tensor_shape && !explanation.tensor_shape->empty();
  if (found.facts.context.batch_size == 1 && !explanation.batch) {
    add_not_worth(explanation, "fewer samples per step", "the log says that it is one already");
    return;
  }
  // Rows and samples are often the same in an array that XLA's search made up.
  const bool searched = found.main.note == "autotune";
  if (known_shape && !searched && !explanation.batch && explanation.tensor_shape->front() != 1) {
    add_not_worth(explanation, "fewer samples per step",
                  "no axis of the refused tensor is a plausible number of samples");
    return;
  }
  std::string arithmetic;
  std::optional<int64_t> saves;
  std::string size = "HALF";
  if (explanation.batch && *explanation.batch > 1) {
    const int64_t half = *explanation.batch / 2;
    size = std::to_string(half);
    const std::optional<int64_t> whole = explanation.tensor_bytes_from_shape
                                             ? explanation.tensor_bytes_from_shape
                                             : explanation.bytes;
    if (whole) {
      saves = *whole - *whole / *explanation.batch * half;
      arithmetic = fmt::format("{} -> {}: this tensor alone {} -> {}", *explanation.batch, size,
                               size_words(whole), size_words(*whole - *saves));
    }
  } else if (known_shape && explanation.tensor_shape->front() == 1) {
    add_advice(explanation,
               "Work on smaller pieces of one sample (tiles, crops, shorter sequences).",
               "the first axis is 1 already; half of the rows halves this tensor (" +
                   size_words(explanation.tensor_bytes_from_shape) + ")",
               "");
    return;
  } else if (explanation.amounts.in_use && !infers(found)) {
    arithmetic = "at most half of the " + size_words(explanation.amounts.in_use) +
                 " in use goes, less what weights and optimizer take";
    if (const auto missing = shortage(explanation); missing && *missing > 0) {
      arithmetic += "; missing are " + size_words(missing);
    }
  }
  HalfBatch half = half_batch(found, size);
  if (uses_trainer(found)) {
    constexpr std::string_view kSize = "per_device_train_batch_size=";
    const size_t at = found.document.find(kSize);
    if (at != std::string::npos) {
      const std::optional<int64_t> told =
          Cursor(found.document, found.document.match(kSize, at)).integer();
      if (told && *told > 1) size = std::to_string(*told / 2);
    }
    half.code = "TrainingArguments(per_device_train_batch_size=" + size +
                ", gradient_accumulation_steps=2)";
  }
  if (infers(found)) {
    add_advice(explanation, "Half as many samples, or shorter ones, in one call.", arithmetic,
               is_tensorflow(found) ? "model.predict(x, batch_size=" + size + ")" : "", saves);
    return;
  }
  add_advice(explanation, std::move(half.action), arithmetic, std::move(half.code), saves);
}

void recompute(const Case& found, Explanation& explanation) {
  if (infers(found)) return;  // nothing is kept for a backward pass
  std::string code;
  if (is_torch(found)) code = "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)";
  if (uses_trainer(found)) code = "TrainingArguments(gradient_checkpointing=True)";
  if (is_tensorflow(found)) code = "block = tf.recompute_grad(block)";
  if (is_jax(found)) code = "block = jax.checkpoint(block)";
  std::string arithmetic;
  if (const auto temporaries = found.facts.program.temporaries) {
    arithmetic = size_words(temporaries) + " are temporary";
  }
  add_advice(explanation, "In training: recompute activations instead of keeping them.", arithmetic,
             code);
}

void lower_precision(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> bytes = explanation.tensor_bytes_from_shape;
  std::string arithmetic;
  if (bytes && (found.dtype == "float" || found.dtype == "float32" || found.dtype == "f32")) {
    arithmetic = "this tensor " + size_words(bytes) + " -> " + size_words(*bytes / 2);
  }
  std::string code;
  if (is_torch(found)) {
    code = "with torch.autocast(\"" + torch_device(found) + "\", dtype=torch.bfloat16): ...";
  }
  if (uses_trainer(found)) code = "TrainingArguments(bf16=True)";
  if (is_tensorflow(found)) {
    code = "tf.keras.mixed_precision.set_global_policy(\"mixed_float16\")";
  }
  if (is_jax(found)) code = "x = x.astype(jnp.bfloat16)";
  if (code.empty()) return;
  add_advice(explanation, "Keep activations in 16 bits.", arithmetic, code);
}

void other_users(const Case& found, Explanation& explanation) {
  look_at_users(found, explanation);
  const Vendor vendor = vendor_of(found);
  if (vendor == Vendor::kNvidia) {
    add_advice(explanation, "Or take another device.", "", "CUDA_VISIBLE_DEVICES=1 python ...");
  } else if (vendor == Vendor::kAmd) {
    add_advice(explanation, "Or take another device.", "", "HIP_VISIBLE_DEVICES=1 python ...");
  }
  // Where not even a context fitted, no setting of what comes after it helps.
  if (found.main.family == Family::kCudaContext) return;
  if (is_tensorflow(found)) {
    add_advice(explanation, "Let TensorFlow take only what it needs, set before anything runs.", "",
               "tf.config.experimental.set_memory_growth(gpu, True)");
  }
  if (is_jax(found)) {
    add_advice(explanation, "Let JAX take less at start.", "",
               "XLA_PYTHON_CLIENT_PREALLOCATE=false");
  }
}

void defragment(const Case& found, Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  const std::string figures = size_words(amounts.pool_free) + " are free in pieces, " +
                              size_words(explanation.bytes) + " were asked for";
  if (is_torch(found)) {
    const Context& context = found.facts.context;
    const std::string name = !context.allocator_variable.empty()      ? context.allocator_variable
                             : found.main.family == Family::kTorchHip ? "PYTORCH_HIP_ALLOC_CONF"
                                                                      : "PYTORCH_CUDA_ALLOC_CONF";
    if (context.counter.unsupported_at) {
      add_not_worth(explanation, "expandable_segments",
                    fmt::format("not supported on this platform, as line {} says",
                                found.document.number_at(*context.counter.unsupported_at)));
      add_advice(explanation,
                 "Give idle blocks back just before the large request, so that it can have one "
                 "piece.",
                 figures, "torch.cuda.empty_cache()", amounts.pool_free);
      add_advice(explanation,
                 "Make that request smaller: tiles or slices of the input, one after another.", "",
                 "");
    } else if (found.facts.context.expandable) {
      add_not_worth(explanation, "expandable_segments", "it is on already, and it failed with it");
    } else {
      add_advice(explanation, "Let PyTorch's segments grow instead of taking new ones.", figures,
                 name + "=expandable_segments:True", amounts.pool_free);
    }
    add_advice(explanation,
               "Keep shapes alike: pad to a few lengths, run the largest shape first so that its "
               "blocks exist.",
               "", "");
    return;
  }
  if (is_tensorflow(found) && !found.facts.context.async_allocator) {
    add_advice(explanation, "Use CUDA's own pool, which can move free pieces together.", figures,
               "TF_GPU_ALLOCATOR=cuda_malloc_async", amounts.pool_free);
  }
  if (is_jax(found)) {
    add_advice(explanation, "Take the memory in one piece at start.", figures,
               "XLA_PYTHON_CLIENT_MEM_FRACTION=.90");
  }
  add_advice(explanation, "Keep shapes alike, or run the largest shape first.", "", "");
}

// Saves at most what is idle; said with its number where it cannot help.
void settings_not_worth(const Case& found, Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  if (is_torch(found) && amounts.pool_free && explanation.bytes) {
    const double part = static_cast<double>(*amounts.pool_free);
    const double whole = static_cast<double>(std::max<int64_t>(*explanation.bytes, 1));
    const std::string all = size_words(amounts.pool_free) + " are idle in the pool, " +
                            size_words(explanation.bytes) + " were asked for";
    if (part < 0.9 * whole)
      add_not_worth(explanation, "torch.cuda.empty_cache(), allocator settings", all);
  }
  if (is_tensorflow(found)) {
    add_not_worth(explanation, "memory growth",
                  "0 B: it changes when memory is taken, not how much the step needs");
  }
  if (is_jax(found)) {
    add_not_worth(explanation, "XLA_PYTHON_CLIENT_PREALLOCATE=false",
                  "0 B: it changes when memory is taken, not what the program needs");
  }
}

void true_peak(const Case& found, Explanation& explanation) {
  smaller_batch(found, explanation);
  if (!found.weights) {
    recompute(found, explanation);
    lower_precision(found, explanation);
  } else {
    add_advice(explanation,
               "Make what is kept per weight smaller: an optimizer with fewer slots, 16-bit slots, "
               "or frozen layers.",
               "Adam in float32: weight 4 + gradient 4 + slots 8 = 16 bytes per parameter", "");
  }
  if (is_jax(found) && found.has(Family::kXlaRematWarning) && explanation.amounts.limit) {
    add_advice(explanation, "If the device has more: let JAX take a larger part of it.",
               size_words(explanation.amounts.program) + " needed, " +
                   size_words(explanation.amounts.limit) + " may be used",
               "XLA_PYTHON_CLIENT_MEM_FRACTION=.95");
  }
  settings_not_worth(found, explanation);
}

void weights(const Case& found, Explanation& explanation) {
  const std::string account =
      "float32 with Adam: 4 weight + 4 gradient + 8 slots = 16 bytes per parameter; SGD without "
      "momentum: 8";
  std::string code;
  if (is_torch(found)) code = "torch.optim.SGD(model.parameters(), lr=LR)";
  if (is_tensorflow(found)) code = "model.compile(optimizer=tf.keras.optimizers.SGD())";
  add_advice(explanation, "Use an optimizer that keeps less per weight.", account, code);
  add_advice(explanation, "Load or keep the weights in 16 bits, or freeze layers.",
             "half of 4 bytes per parameter",
             is_torch(found) ? "model = model.to(torch.bfloat16)" : "");
  add_not_worth(explanation, "fewer samples per step",
                found.weights ? "0 B of the refused tensor: no axis of it counts samples"
                              : "0 B of the weights and of what is kept for each of them");
  settings_not_worth(found, explanation);
}

void vocabulary(const Case& found, Explanation& explanation) {
  std::string arithmetic = "tokens x vocabulary x bytes";
  if (explanation.tensor_bytes_from_shape) {
    arithmetic =
        "an eighth of the tokens at a time: " + size_words(explanation.tensor_bytes_from_shape) +
        " -> " + size_words(*explanation.tensor_bytes_from_shape / 8);
  }
  add_advice(
      explanation, "Compute logits and loss for a slice of the tokens at a time.", arithmetic,
      is_torch(found) ? "for part in hidden.split(1024): loss += cross_entropy(head(part), ...)"
                      : "");
  add_advice(explanation, "Keep labels as integers instead of one-hot rows.",
             "one row of vocabulary length per token less",
             is_tensorflow(found)
                 ? "loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
                 : "");
  settings_not_worth(found, explanation);
}

// The scratch of a search lies outside of what the pool has filled.
void autotuning(const Case& found, Explanation& explanation) {
  const std::string arithmetic =
      explanation.bytes ? size_words(explanation.bytes) + " of scratch were refused" : "";
  add_advice(explanation, "Leave memory outside of JAX's pool, or let the pool grow with need.",
             arithmetic, "XLA_PYTHON_CLIENT_PREALLOCATE=false");
  add_advice(explanation, "Or search less: no candidates, no scratch.", "",
             "XLA_FLAGS=--xla_gpu_autotune_level=0");
  if (found.facts.context.batch_size == 1) {
    add_not_worth(explanation, "fewer samples per step", "the log says that it is one already");
  } else {
    add_advice(explanation, "Or a smaller step, so that scratch memory is left beside it.", "", "");
  }
}

void preallocation(const Case& found, Explanation& explanation) {
  add_advice(explanation, "Nothing has to be done if the program goes on: it got a smaller piece.",
             "", "");
  std::string code = "tf.config.experimental.set_memory_growth(gpu, True)";
  if (is_jax(found)) code = "XLA_PYTHON_CLIENT_MEM_FRACTION=.75   (the default)";
  add_advice(explanation, "To be rid of the message: let it take less at its start.",
             size_words(explanation.bytes) + " was more than was free", code);
}

void tpu_padding(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> padding = found.facts.program.padding;
  add_advice(explanation,
             "Give the large value another shape: a last axis that is a multiple of 128, the one "
             "before a multiple of 8.",
             size_words(padding) + " of padding go", "x = x.reshape(-1, 128)");
  add_advice(
      explanation,
      "Where it is made at the start (random weights): make it on the host and hand it over.", "",
      "with jax.default_device(jax.devices(\"cpu\")[0]): params = init(key)");
  add_not_worth(explanation, "fewer samples per step, a smaller model",
                "only what is not padding gets smaller with them");
}

void workspace(const Case& found, Explanation& explanation) {
  if (found.main.note == "autotune") return autotuning(found, explanation);
  if (explanation.verdict == Verdict::kWarning) {
    add_advice(explanation,
               "Nothing needs to be done for correctness: a slower algorithm was used.", "", "");
    add_advice(explanation, "To stop the search from asking for so much:", "",
               "TF_CUDNN_WORKSPACE_LIMIT_IN_MB=512");
    return;
  }
  add_advice(
      explanation, "Allow more work space, if the device has it.",
      size_words(explanation.bytes) + " asked for, limit " + size_words(found.main.line_limit),
      fmt::format("TF_CUDNN_WORKSPACE_LIMIT_IN_MB={}", explanation.bytes.value_or(0) / kMiB + 1));
  add_advice(explanation, "Or run this layer in float32, where smaller algorithms exist.", "",
             "tf.keras.layers.Conv3DTranspose(..., dtype=\"float32\")");
  add_advice(explanation, "Or update cuDNN.", "", "");
}

void dataset_copied(const Case& found, Explanation& explanation) {
  add_advice(explanation,
             "Hand the data over in batches: a generator, or a data set that stays on "
             "the host.",
             explanation.bytes ? size_words(explanation.bytes) + " -> one batch" : "",

             is_tensorflow(found)
                 ? "with tf.device(\"CPU:0\"): ds = tf.data.Dataset.from_tensor_slices((x, y))\n"
                   "model.fit(ds.batch(32).prefetch(1))"
                 : "");
  add_not_worth(explanation, "fewer samples per step",
                "0 B of this copy: it is the whole array, whatever is cut from it later");
}

// CuPy's pool: the limit is the user's own.
void raise_pool_limit(Explanation& explanation) {
  add_advice(explanation,
             "Raise or remove the pool's limit (set_limit, CUPY_GPU_MEMORY_LIMIT), if the device "
             "has more.",
             size_words(explanation.amounts.limit) + " given, " + size_words(explanation.bytes) +
                 " asked for",
             "cupy.get_default_memory_pool().set_limit(size=0)  # none");
}

void more_limit(const Case& found, Explanation& explanation) {
  if (found.framework == "cupy") {
    raise_pool_limit(explanation);
    add_advice(explanation, "Work on the data in parts.", "",
               "for part in numpy.array_split(x, 8): ...");
    return;
  }
  const std::optional<int64_t> need =
      explanation.bytes ? explanation.bytes : explanation.tensor_bytes_from_shape;
  add_advice(
      explanation,
      "Give the framework more of the device: raise or remove the configured limit, and end "
      "other users of the memory.",
      size_words(explanation.amounts.limit) + " given, one tensor alone takes " + size_words(need),
      is_tensorflow(found) ? "tf.config.set_logical_device_configuration(gpu, "
                             "[tf.config.LogicalDeviceConfiguration(memory_limit=MIB)])"
                           : "");
  add_not_worth(explanation, "settings of the allocator", "0 B: the limit itself is too low");
}

void leak(const Case& found, Explanation& explanation) {
  std::string code = "history.append(float(loss))  # not the tensor";
  if (is_torch(found)) {
    const std::optional<size_t> keeps = line_that_keeps(found);
    const bool appends =
        keeps && found.document.quote(*keeps).find(".append(") != std::string::npos;
    code = appends ? "with torch.no_grad(): results.append(model(x).cpu())"
                   : "total += loss.item()  # not the tensor, which keeps its step's graph";
  }
  add_advice(explanation,
             "Find what is kept per step: losses and outputs appended to lists, callbacks, models "
             "built anew in the process.",
             "", code);
  add_advice(explanation, "Watch the growth and get its slope per step.", "",
             "plimsoll watch -- python train.py");
}

void graph_growth(Explanation& explanation) {
  add_advice(explanation,
             "Build the model once, outside of the loop, and reset its weights instead.", "",
             "model.set_weights(initial)");
  add_advice(explanation,
             "Where a new model is needed: drop the old graph first, or use a process "
             "for each.",
             "", "del model; tf.keras.backend.clear_session()");
  add_advice(explanation, "Hand tensors, not Python numbers, to functions that are traced.", "",
             "step(tf.constant(i))");
}

void library_init(const Case& found, Explanation& explanation) {
  if (is_tensorflow(found)) {
    add_advice(explanation, "Leave memory outside of the pool for the libraries.", "",
               "tf.config.experimental.set_memory_growth(gpu, True)");
  } else if (is_jax(found)) {
    add_advice(explanation, "Leave memory outside of the pool for the libraries.", "",
               "XLA_PYTHON_CLIENT_PREALLOCATE=false");
  } else {
    add_advice(explanation, "Leave memory outside of the pool for the libraries.", "",
               "torch.cuda.set_per_process_memory_fraction(0.9)");
  }
  look_at_users(found, explanation);
  add_advice(explanation,
             "If memory is there: compare library versions with those the framework was "
             "built for.",
             "",
             is_torch(found)        ? "python -m torch.utils.collect_env"
             : is_tensorflow(found) ? "tf.sysconfig.get_build_info()"
                                    : "pip list | grep -i -E \"nvidia|cuda|cudnn|jax\"");
}

void free_exceeds(const Case& found, Explanation& explanation) {
  add_advice(
      explanation,
      "See whether it happens with one large allocation in an empty process; if it does, it is "
      "the driver or a limit, not the program.",
      size_words(explanation.bytes) + " refused with " + size_words(explanation.amounts.free) +
          " free",
      is_torch(found)
          ? fmt::format(
                "python -c \"import torch; torch.empty({}, dtype=torch.uint8, device='cuda')\"",
                explanation.bytes.value_or(0))
          : "");
  add_advice(explanation, "Look for a limit per process (MPS, MIG, cgroup, a memory fraction).", "",
             is_torch(found) ? "torch.cuda.set_per_process_memory_fraction(1.0)" : "");
  if (is_torch(found) && explanation.amounts.pool_free) defragment(found, explanation);
}

void bogus_size(Explanation& explanation) {
  add_advice(explanation,
             "Print the shapes that go in where it failed, and mend what is negative or wrong; a "
             "larger device cannot help.",
             "", "");
  add_advice(explanation,
             "Where no shape is wrong: look for a failure before this one, and run the program "
             "alone on the device.",
             "", "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv");
}

// In how many parts a request fits that only the process's own limit makes too large.
void fewer_at_once(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> limit = own_limit(found);
  if (!limit || *limit <= 0 || !explanation.bytes) return;
  const int64_t parts = *explanation.bytes / *limit + 1;
  add_advice(explanation,
             "If it holds more than one sample: fewer of them in one step, with gradients added "
             "over several so that the result stays.",
             fmt::format("in {} parts it takes {} at a time; {} are allowed for everything", parts,
                         size_words(*explanation.bytes / parts), size_words(limit)),
             "DataLoader(dataset, batch_size=N)");
}

void single_tensor(const Case& found, Explanation& explanation) {
  if (!found.main.bogus_size.empty()) return bogus_size(explanation);
  const std::optional<int64_t> device = explanation.amounts.capacity;
  const bool fits = own_limit(found) && device && explanation.bytes && *explanation.bytes < *device;
  if (fits && !infers(found)) fewer_at_once(found, explanation);
  add_advice(
      explanation,
      "Look at the shape first: an axis that should not be there (pairs of everything, a wrong "
      "order of axes, a size read from the data) is the usual reason.",
      size_words(explanation.bytes ? explanation.bytes : explanation.tensor_bytes_from_shape) +
          " in one request",
      "");
  if (!explanation.tensor_shape || explanation.tensor_shape->size() > 1) {
    add_advice(explanation, "Compute it in slices and keep only what is summed up.", "", "");
  }
  settings_not_worth(found, explanation);
}

// The fraction is the user's own; what it would have to be for this request alone is told.
void raise_fraction(const Case& found, Explanation& explanation) {
  const std::optional<int64_t> limit = own_limit(found);
  const Amounts& amounts = explanation.amounts;
  if (!limit || !amounts.capacity || !explanation.bytes) return;
  const int64_t need = amounts.held.value_or(amounts.in_use.value_or(0)) + *explanation.bytes;
  const int64_t percent = need / (*amounts.capacity / 100 + 1) + 1;
  if (percent > 100 || (amounts.free && *amounts.free < *explanation.bytes)) return;
  std::string arithmetic = size_words(limit) + " of " + size_words(amounts.capacity) + " allowed";
  if (amounts.free) arithmetic += ", " + size_words(amounts.free) + " of the device free";
  add_advice(explanation,
             "If the device is to be used further: raise the fraction; this request alone takes at "
             "least so much.",
             arithmetic,
             percent == 100
                 ? "torch.cuda.set_per_process_memory_fraction(1.0)"
                 : fmt::format("torch.cuda.set_per_process_memory_fraction(0.{:02})", percent));
}

// Apple's: nobody else holds what the limit counts, and lifting it can take the machine down.
void below_watermark(const Case& found, Explanation& explanation) {
  add_advice(explanation, "Give cached blocks back between steps, and look what remains.",
             size_words(explanation.amounts.others) + " are held outside of the tensors",
             "torch.mps.empty_cache(); torch.mps.driver_allocated_memory()");
  smaller_batch(found, explanation);
}

void no_watermark(Explanation& explanation) {
  add_not_worth(explanation, "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
                "lifts the limit that keeps the machine usable, and frees nothing; the message "
                "itself says that it may cause system failure");
}

// What is free just before the request tells the program's own memory from other programs'.
void ask_device(const Case& found, Explanation& explanation) {
  std::string code = "size_t free, total; cudaMemGetInfo(&free, &total);";
  if (found.framework == "numba") code = "cuda.current_context().get_memory_info()";
  if (vendor_of(found) == Vendor::kAmd) code = "size_t free, total; hipMemGetInfo(&free, &total);";
  const Vendor vendor = vendor_of(found);
  if (vendor != Vendor::kNvidia && vendor != Vendor::kAmd) return;
  add_advice(explanation,
             "Print what is free at the start and just before the request: little at the start is "
             "another program's, little only then is this one's own.",
             "", code);
}

void unknown(const Case& found, Explanation& explanation) {
  if (found.main.family == Family::kTorchMps) return below_watermark(found, explanation);
  if (found.main.note == "no_result") return autotuning(found, explanation);
  if (advise_program(found, explanation)) return look_at_users(found, explanation);
  if (is_plain_program(found)) ask_device(found, explanation);
  const bool tiny =
      explanation.bytes.value_or(explanation.tensor_bytes_from_shape.value_or(kMiB)) < kMiB;
  if (tiny || found.weights) {
    add_advice(explanation,
               "Find what fills the device; this request is only the one that came last.",
               tiny ? "" : "no axis of the refused tensor counts samples", "");
    if (found.weights) smaller_batch(found, explanation);
  } else if (found.main.family == Family::kTfOomLine || found.main.family == Family::kJaxOomLine ||
             explanation.batch) {
    smaller_batch(found, explanation);
    recompute(found, explanation);
  }
  other_users(found, explanation);
}

}  // namespace

namespace {

void advise_by_cause(const Case& found, Explanation& explanation);

}  // namespace

void advise_device(const Case& found, Explanation& explanation) {
  if (found.survived) {
    add_advice(explanation,
               "Nothing has to be done: the program went on. Act only if it is slower for it.", "",
               "");
    explanation.usual_reasons.clear();
    return;
  }
  if (advise_server(found, explanation)) return;
  advise_by_cause(found, explanation);
  raise_fraction(found, explanation);
  if (found.main.family == Family::kTorchMps && found.main.amounts.limit) no_watermark(explanation);
}

namespace {

void advise_by_cause(const Case& found, Explanation& explanation) {
  switch (explanation.cause_label) {
    case Cause::kTruePeak:
    case Cause::kGpuTooSmall:
      if (advise_program(found, explanation)) {
        if (found.framework == "cupy" && explanation.amounts.limit) raise_pool_limit(explanation);
        return;
      }
      return true_peak(found, explanation);
    case Cause::kPreallocationRefused:
      return preallocation(found, explanation);
    case Cause::kPaddingOrDtypeBlowup:
      if (found.main.family == Family::kXlaTpuHbm) return tpu_padding(found, explanation);
      add_advice(explanation,
                 "Pad to the next size with small prime factors (2, 3, 5, 7) instead of the next "
                 "power of two, or work on smaller pieces.",
                 "up to 8 times less for a volume whose axes were all just above a power of two",
                 "");
      return;
    case Cause::kFragmentation:
      return defragment(found, explanation);
    case Cause::kFreeExceedsRequest:
      return free_exceeds(found, explanation);
    case Cause::kGpuHeldByOtherProcess:
      return other_users(found, explanation);
    case Cause::kMemoryLimitTooSmall:
      return more_limit(found, explanation);
    case Cause::kSingleTensorTooLarge:
      return single_tensor(found, explanation);
    case Cause::kSingleAllocationLimit:
      add_advice(
          explanation, "Split the tensor into parts below the driver's limit.",
          size_words(explanation.bytes) + " asked for in one piece" +
              (explanation.amounts.limit ? ", " + size_words(explanation.amounts.limit) + " allowed"
                                         : ""),
          is_torch(found) ? "parts = x.split(n); y = torch.cat([f(p) for p in parts])" : "");
      if (found.framework == "mlx") {
        add_advice(explanation, "In a server: a shorter prompt, a smaller image or prefill step.",
                   "", "");
      }
      return;
    case Cause::kWeightsOrOptimizer:
      return weights(found, explanation);
    case Cause::kVocabSoftmaxOrOneHot:
      return vocabulary(found, explanation);
    case Cause::kConvWorkspace:
      return workspace(found, explanation);
    case Cause::kDatasetCopiedToDevice:
      return dataset_copied(found, explanation);
    case Cause::kShuffleBufferOrCache:
      add_advice(explanation, "Cache to a file, or on the host.", "",
                 "ds.cache(\"/path/to/cache\")");
      return;
    case Cause::kEvalLargerThanTrain:
      add_advice(explanation, "Validate with smaller batches or inputs, without gradients.", "",
                 is_torch(found) ? "with torch.no_grad(): ..."
                                 : "model.fit(..., validation_batch_size=8)");
      return;
    case Cause::kGraphGrowthInLoop:
      return graph_growth(explanation);
    case Cause::kLeakOverTime:
      return leak(found, explanation);
    case Cause::kDriverOrLibraryInit:
      return library_init(found, explanation);
    default:
      return unknown(found, explanation);
  }
}

}  // namespace

}  // namespace plimsoll::explain
