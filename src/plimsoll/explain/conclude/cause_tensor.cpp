// Rules about what the refused tensor is.

#include <algorithm>

#include "base/format.h"
#include "explain/conclude/phase.h"
#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr size_t npos = std::string_view::npos;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return contains(text, phrase); });
}

bool on_device(const Case& found) { return found.main.resource == Resource::kGpuMemory; }

std::optional<Diagnosis> dataset_on_device(const Case& found) {
  const Finding* copy = nullptr;
  for (const Finding& finding : found.facts.findings) {
    if (finding.family == Family::kTfDisguised && finding.note == "copy") copy = &finding;
  }
  const bool constant = found.main.op == "_EagerConst";
  if (!on_device(found) || (copy == nullptr && !constant)) return std::nullopt;
  const bool large = found.main.bytes && *found.main.bytes >= 64 * kMiB;
  if (!large && !constant) return std::nullopt;
  Diagnosis result = reading(
      found, Cause::kDatasetCopiedToDevice, large ? 0.75 : 0.55,
      "An input array" + (found.main.bytes ? " (" + size_words(found.main.bytes) + ")" : "") +
          " is copied whole to the device as one constant before any batch is cut from it. "
          "Its size is the data set's, so the batch has no influence on it.");
  if (copy != nullptr && copy->at != found.main.at) result.evidence.push_back(copy->at);
  return result;
}

std::optional<Diagnosis> cached_on_device(const Case& found) {
  const Context& context = found.facts.context;
  if (!on_device(found) || !context.cache_dataset) return std::nullopt;
  const Pool& pool = found.pool;
  const bool small_pieces =
      pool.limit && pool.max_alloc_size && *pool.max_alloc_size < *pool.limit / 50;
  Diagnosis result =
      reading(found, Cause::kShuffleBufferOrCache, small_pieces ? 0.75 : 0.55,
              "A data set is being cached while the pool fills up" +
                  std::string(small_pieces ? " with many small tensors (largest " +
                                                 size_words(pool.max_alloc_size) + ")"
                                           : "") +
                  ": the cache lives in this memory.");
  result.evidence.push_back(context.cache_at);
  return result;
}

// The trailing number of "Variable_1955" or "sub_2518", or 0.
int64_t serial_number(std::string_view name) {
  const size_t slash = name.find('/');
  name = name.substr(0, slash);
  const size_t underscore = name.rfind('_');
  if (underscore == npos) return 0;
  size_t at = underscore + 1;
  const std::optional<int64_t> value = read_integer(name, at);
  return value && at == name.size() ? *value : 0;
}

// Names that TensorFlow 1 numbers by itself tell how often the same thing was added to one graph.
std::optional<Diagnosis> growing_graph(const Case& found) {
  constexpr int64_t kMany = 300;
  int64_t serial = serial_number(found.main.op);
  const size_t line_end = found.document.record_end(found.main.at);
  for (std::string_view label : {"variable_", "placeholder_", "model_", "dense_", "conv2d_"}) {
    const size_t at = found.document.find(label, found.main.at, line_end + 600);
    if (at == npos) continue;
    size_t number = at + label.size();
    const std::optional<int64_t> value = read_integer(found.document.text(), number);
    if (value && *value < 1000000) serial = std::max(serial, *value);
  }
  if (serial < kMany || found.framework != "tensorflow") return std::nullopt;
  return reading(
      found, Cause::kGraphGrowthInLoop, 0.75,
      fmt::format("Names in the message carry numbers up to {}: operators are added to one "
                  "graph again and again, by building models or calling functions in a "
                  "loop, and every one of them keeps its memory.",
                  serial));
}

std::optional<Diagnosis> vocabulary(const Case& found) {
  if (!on_device(found)) return std::nullopt;
  const std::string code = found.code_text();
  const bool in_code = contains_any(code, {"log_softmax", "cross_entropy", "one_hot"}) ||
                       (contains(code, "softmax") && contains_any(code, {"logits", "vocab"})) ||
                       contains_any(code, {"lm_head(", "vocab"});
  if (in_code && found.framework != "tensorflow") {
    Diagnosis result = reading(
        found, Cause::kVocabSoftmaxOrOneHot, 0.75,
        "The line that failed makes a value for every token and every entry of the vocabulary "
        "(" +
            found.main.op + "): its size is tokens x vocabulary.");
    result.inferred = false;
    if (found.code) result.evidence.insert(result.evidence.begin(), found.code->at);
    return result;
  }
  if (!found.main.shape || found.main.shape->size() < 2 || found.main.shape->size() > 3) {
    return std::nullopt;
  }
  const int64_t vocabulary = found.main.shape->back();
  const bool by_name =
      contains_any(found.main.op, {"logits", "softmax", "vocab", "one_hot", "onehot", "xent",
                                   "crossentropy", "cross_entropy", "lm_head"});
  if (vocabulary < 5000 || !by_name || found.weights) return std::nullopt;
  int64_t tokens = 1;
  for (size_t i = 0; i + 1 < found.main.shape->size(); ++i) {
    const int64_t dim = std::clamp<int64_t>((*found.main.shape)[i], 1, int64_t{1} << 20);
    tokens = std::min<int64_t>(tokens * dim, int64_t{1} << 40);
  }
  Diagnosis result =
      reading(found, Cause::kVocabSoftmaxOrOneHot, 0.8,
              fmt::format("The tensor has one value for each of {} tokens and each of "
                          "{} entries of the vocabulary.",
                          tokens, vocabulary));
  result.inferred = false;
  return result;
}

std::optional<Diagnosis> weights(const Case& found) {
  if (!on_device(found)) return std::nullopt;
  // Small limits explain a refusal of weights better than the weights do.
  if (found.pool.limit && found.request && *found.request * 8 > *found.pool.limit) {
    return std::nullopt;
  }
  if (found.facts.context.created_mib && *found.facts.context.created_mib < 256) {
    return std::nullopt;
  }
  const auto has_frame = [&](std::string_view name) {
    if (found.traceback == nullptr) return false;
    const std::vector<Frame>& frames = found.traceback->frames;
    return std::any_of(frames.begin(), frames.end(),
                       [name](const Frame& frame) { return frame.name == name; });
  };
  const bool moving = has_frame("_apply") && has_frame("convert");
  const bool optimizer = has_frame("_init_group") || has_frame("_init_state") ||
                         contains(found.code_text(), "exp_avg");
  const bool named = found.weights && found.main.shape && found.main.shape->size() >= 2;
  if (!moving && !optimizer && !named) return std::nullopt;
  std::string sentence =
      moving ? "It failed while the model was moved to the device: the weights alone do not fit "
               "into what was left."
      : optimizer
          ? "It failed while the optimizer made its slots: Adam keeps two values beside each "
            "weight and its gradient, 16 bytes per parameter in float32."
          : "The refused tensor belongs to the weights or to what is kept per weight (gradient, "
            "optimizer slot); no axis of it is the batch.";
  return reading(found, Cause::kWeightsOrOptimizer, moving || optimizer ? 0.75 : 0.6, sentence);
}

std::optional<Diagnosis> evaluation(const Case& found) {
  if (!on_device(found)) return std::nullopt;
  const size_t end = found.document.record_end(found.main.at) + 1500;
  const bool function =
      found.document.find("__inference_test_function", found.main.at, end) != npos;
  const bool trained = std::any_of(
      found.facts.context.progress.begin(), found.facts.context.progress.end(),
      [&](const Progress& progress) {
        return !progress.validation && progress.line < found.document.number_at(found.main.at);
      });
  if ((!validates(found) && !function) || !trained) return std::nullopt;
  return reading(found, Cause::kEvalLargerThanTrain, 0.6,
                 "Training steps had fitted; it failed in validation, which runs larger inputs, a "
                 "larger batch, or keeps what training gives up (predictions of all batches, "
                 "gradients that nobody turned off).");
}

constexpr Rule kTensorRules[] = {dataset_on_device, cached_on_device, growing_graph,
                                 vocabulary,        weights,          evaluation};

}  // namespace

std::optional<Diagnosis> diagnose_tensor(const Case& found) {
  for (Rule rule : kTensorRules) {
    if (std::optional<Diagnosis> result = rule(found)) return result;
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
