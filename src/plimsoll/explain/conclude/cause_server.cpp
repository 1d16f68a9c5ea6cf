// Servers of language models: what their own accounts say.

#include "base/format.h"
#include "explain/conclude/cause_impl.h"

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

std::string tokens_words(const Case& found) {
  const Finding& main = found.main;
  std::string words;
  if (main.tokens_wanted) words = fmt::format("{} tokens were wanted", *main.tokens_wanted);
  if (main.tokens_fit) {
    words +=
        fmt::format("{}{}", words.empty() ? "room is for " : " and room is for ", *main.tokens_fit);
  }
  return words;
}

std::optional<Diagnosis> startup(const Case& found) {
  std::string sentence =
      "At its start already the device had less free than the server was told to take: somebody "
      "else holds the rest";
  const Amounts& amounts = found.main.amounts;
  if (amounts.free && amounts.capacity && amounts.others) {
    sentence = size_words(amounts.free) + " of " + size_words(amounts.capacity) +
               " were free at its start, so others hold " + size_words(amounts.others) +
               "; the server was told to take " + size_words(found.main.bytes);
  }
  return reading(found, Cause::kGpuHeldByOtherProcess, 0.8, sentence + ".");
}

std::optional<Diagnosis> cache(const Case& found) {
  std::string sentence =
      "What the server may use is filled by weights and activations; the rest is too little to "
      "cache one sequence of the greatest length";
  if (const std::string words = tokens_words(found); !words.empty()) sentence += ": " + words;
  if (found.main.bytes && found.main.amounts.free) {
    sentence += ". " +
                size_words(std::max<int64_t>(*found.main.bytes - *found.main.amounts.free, 0)) +
                " are missing";
  }
  return reading(found, Cause::kMemoryLimitTooSmall, 0.8, sentence + ".");
}

}  // namespace

std::optional<Diagnosis> diagnose_server(const Case& found) {
  if (found.main.family != Family::kOtherGpu) return std::nullopt;
  if (found.main.note == "startup") return startup(found);
  if (found.main.note == "kv_cache") return cache(found);
  if (found.main.note == "model") {
    return reading(found, Cause::kWeightsOrOptimizer, 0.75,
                   "The weights alone do not fit into the device's memory.");
  }
  if (found.main.note == "ggml_cache") {
    std::string sentence = "The cache of the context needs " + size_words(found.main.bytes) +
                           " on this device beside the weights";
    if (found.main.tokens_wanted) {
      sentence += fmt::format(", for a context of {} tokens", *found.main.tokens_wanted);
    }
    return reading(found, Cause::kTruePeak, 0.7,
                   sentence + ". It grows with the context's length, not with the model file.");
  }
  if (found.main.note == "buffer") {
    std::string sentence = "One buffer of " + size_words(found.main.bytes) + " is more than the ";
    sentence += found.main.amounts.limit
                    ? size_words(found.main.amounts.limit) + " that the driver allows"
                    : std::string("driver allows");
    return reading(found, Cause::kSingleAllocationLimit, 0.75,
                   sentence + " for a single one, whatever is free.");
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
