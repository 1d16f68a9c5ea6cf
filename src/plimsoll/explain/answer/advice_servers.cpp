// Advice for servers of language models. Every figure is of the log: what fits, what was put where.

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/format.h"
#include "explain/read/number.h"

#include "explain/answer/advice_impl.h"

namespace plimsoll::explain {
namespace {

// Rounded down, so that it fits.
std::string hundredths(double value) {
  return fmt::format("{:.2f}", static_cast<int>(value * 100) / 100.0);
}

void startup(const Case& found, Explanation& explanation) {
  const Amounts& amounts = found.main.amounts;
  look_at_users(found, explanation);
  if (!amounts.free || !amounts.capacity || *amounts.capacity <= 0) return;
  const double part = static_cast<double>(*amounts.free) / static_cast<double>(*amounts.capacity);
  add_advice(explanation, "Or tell the server to take what is free.",
             size_words(amounts.free) + " of " + size_words(amounts.capacity),
             "--gpu-memory-utilization " + hundredths(part));
}

void vllm_cache(const Case& found, Explanation& explanation) {
  const Finding& main = found.main;
  if (main.tokens_fit && *main.tokens_fit > 0) {
    add_advice(
        explanation, "Limit the length of a sequence to what fits.",
        fmt::format("room is for {} tokens{}", *main.tokens_fit,
                    main.tokens_wanted ? fmt::format(", {} were wanted", *main.tokens_wanted) : ""),
        fmt::format("--max-model-len {}", *main.tokens_fit));
  } else {
    add_advice(explanation, "Shorter sequences: the cache of one grows with its length.",
               explanation.bytes ? "one sequence needs " + size_words(explanation.bytes) : "",
               "--max-model-len N");
  }
  const bool halved = !main.bytes || !main.amounts.free || *main.bytes / 2 <= *main.amounts.free;
  if (halved) {
    add_advice(explanation, "Or keep the cache in 8 bits.",
               main.bytes ? size_words(main.bytes) + " -> " + size_words(*main.bytes / 2) : "",
               "--kv-cache-dtype fp8");
  }
  add_advice(explanation,
             "Or give the server more: a larger share of the device where more of it is free, or "
             "the weights over several devices.",
             "cache = share x capacity - weights - activations",
             "--gpu-memory-utilization, --tensor-parallel-size");
}

void ggml_cache(const Case& found, Explanation& explanation) {
  const Finding& main = found.main;
  const std::string halves = main.bytes
                                 ? size_words(main.bytes) + " -> " + size_words(*main.bytes / 2)
                                 : "half of the context, half of the cache";
  add_advice(explanation, "A shorter context: the cache grows with it.", halves,
             main.tokens_wanted ? fmt::format("-c {}   (n_ctx)", *main.tokens_wanted / 2)
                                : "-c N   (n_ctx)");
  add_advice(explanation, "Or keep the cache in 8 bits.", halves, "-ctk q8_0 -ctv q8_0 -fa on");
  add_advice(explanation, "Or spread it over all devices that there are.", "",
             "--tensor-split 1,1,...");
}

void ggml_device(const Case& found, Explanation& explanation) {
  const Finding& main = found.main;
  const bool compute = main.note == "ggml_compute";
  if (explanation.cause_label == Cause::kUnknown) {
    explanation.usual_reasons = {
        "weights, the context's cache and compute buffers are more than the device has free",
        "another program on the same device"};
  }
  const std::string where = main.device.empty() ? "the device" : main.device;
  if (main.layers && *main.layers > 1) {
    add_advice(
        explanation, "Put fewer of the model's layers on the device.",
        fmt::format("{} layers were put there; each that is left on the host frees its share",
                    *main.layers),
        fmt::format("-ngl {}", *main.layers / 2));
  } else {
    add_advice(explanation, "Put fewer layers on " + where + ": they fill it before this buffer.",
               "each layer left on the host frees its share of the model file's size",
               "-ngl N   (fewer than now)");
  }
  add_advice(explanation,
             "With several devices of different sizes: give the small one a smaller share, or "
             "leave it out.",
             "", "--tensor-split ..., CUDA_VISIBLE_DEVICES=...");
  add_advice(explanation,
             compute
                 ? "A smaller physical batch, or a shorter context: this buffer grows with both."
                 : "A shorter context, or a model file with fewer bits per weight.",
             "", compute ? "-ub 256 -c N   (512 is the usual -ub)" : "-c N");
}

void ggml_host(const Case& found, Explanation& explanation) {
  if (found.document.find("mmap = false") != std::string::npos) {
    add_advice(explanation,
               "Map the model file instead of reading it: its pages then need not all be in RAM.",
               "the log says \"mmap = false\"", "without --no-mmap");
  }
  add_advice(explanation, "Take a model file with fewer bits per weight, or a smaller model.",
             size_words(found.main.bytes) + " were asked for in one buffer", "");
  add_advice(explanation, "Or put layers on a device, if there is one with room.",
             "each layer on the device is no longer in RAM", "");
}

// Weights that do not fit as a whole, before anything was computed.
void whole_model(Explanation& explanation) {
  add_advice(explanation, "Take a smaller model, the same with fewer bits, or a larger device.",
             "bytes of the weights = parameters x bits / 8; they all lie on the device", "");
  add_advice(explanation, "For inference alone: leave part of it on the host, which is slow.", "",
             "device_map=\"auto\" with llm_int8_enable_fp32_cpu_offload=True");
  add_not_worth(explanation, "fewer samples per step, shorter sequences",
                "0 B of the weights, which were refused before the first step");
}

void ollama(const Case& found, Explanation& explanation) {
  const Amounts& amounts = found.main.amounts;
  std::string missing;
  if (found.main.bytes && amounts.free) {
    missing = size_words(std::max<int64_t>(*found.main.bytes - *amounts.free, 0)) + " are missing";
  }
  add_advice(explanation, "Shorten the context: its cache is part of what is asked for.", missing,
             "num_ctx, OLLAMA_CONTEXT_LENGTH");
  add_advice(explanation, "Or end what else holds memory, or add swap.", missing, "");
  add_advice(explanation, "Or take a smaller model, or the same with fewer bits.", "", "");
}

}  // namespace

bool advise_server(const Case& found, Explanation& explanation) {
  const std::string& note = found.main.note;
  const bool device = found.main.family == Family::kOtherGpu;
  const bool host = found.main.family == Family::kOtherHost;
  if (device && note == "startup") {
    startup(found, explanation);
  } else if (device && note == "kv_cache") {
    vllm_cache(found, explanation);
  } else if (device && note == "ggml_cache") {
    ggml_cache(found, explanation);
  } else if (device && (note == "ggml_compute" || note == "ggml_model")) {
    ggml_device(found, explanation);
  } else if (device && note == "model") {
    whole_model(explanation);
  } else if (host && note.starts_with("ggml_")) {
    ggml_host(found, explanation);
  } else if (host && note == "model") {
    ollama(found, explanation);
  } else {
    return false;
  }
  return true;
}

}  // namespace plimsoll::explain
