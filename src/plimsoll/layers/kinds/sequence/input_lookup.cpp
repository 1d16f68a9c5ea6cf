#include "layers/kinds/sequence/input_lookup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

using Kind = InputLookup::Kind;
using Encoding = InputLookup::Encoding;
using Split = InputLookup::Split;

constexpr int64_t kMostOov = int64_t{1} << 20;

// Keras's names, those of older versions among them.
Encoding read_encoding(ConfigReader& reader, std::string_view fallback) {
  std::string mode =
      reader.choice("output_mode", fallback,
                    {"int", "one_hot", "multi_hot", "count", "tf_idf", "binary", "tf-idf"});
  if (mode == "binary") mode = "multi_hot";
  if (mode == "tf-idf") mode = "tf_idf";
  reader.complete("output_mode", mode);
  return mode == "int"         ? Encoding::kIds
         : mode == "one_hot"   ? Encoding::kOneHot
         : mode == "multi_hot" ? Encoding::kMultiHot
         : mode == "count"     ? Encoding::kCount
                               : Encoding::kTfIdf;
}

// One integer for both halves of the key, or a list of two; null: none.
void read_salt(ConfigReader& reader, const Config& given, InputLookup& lookup) {
  if (given.is_null()) return;
  const Config::Array both = given.is_array() ? given.as_array() : Config::Array{given, given};
  if (both.size() != 2 || !both[0].is_int() || !both[1].is_int()) {
    reader.refuse("salt", "an integer or a list of two", given.to_json());
  }
  lookup.salt = {static_cast<uint64_t>(both[0].as_int()), static_cast<uint64_t>(both[1].as_int())};
}

void read_mask(ConfigReader& reader, std::string_view key, const Config& given,
               InputLookup& lookup) {
  if (given.is_null()) return;
  lookup.has_mask = true;
  if (given.is_string()) {
    lookup.mask_text = given.as_string();
  } else if (given.is_number()) {
    lookup.mask_integer = given.as_int();
  } else {
    reader.refuse(key, "a string or a whole number", given.to_json());
  }
}

// How many numbers max_tokens allows; none: as many as there are.
int64_t read_max_tokens(ConfigReader& reader) {
  const Config given = reader.value("max_tokens", Config());
  if (given.is_null()) return 0;
  if (!given.is_int() || given.as_int() < 2) {
    reader.refuse("max_tokens", "an integer above 1, or none", given.to_json());
  }
  return given.as_int();
}

bool same(const Config& a, const Config& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return a == b;
}

void add_token(ConfigReader& reader, const Config& token, InputLookup& lookup) {
  if (lookup.kind == Kind::kIntegers) {
    if (!token.is_int()) reader.refuse("vocabulary", "integers", token.to_json());
    lookup.integers.push_back(token.as_int());
    return;
  }
  if (!token.is_string()) reader.refuse("vocabulary", "strings", token.to_json());
  lookup.words.add(token.as_string());
  if (static_cast<int64_t>(lookup.words.text_bytes()) > InputLookup::kMostWordBytes) {
    reader.refuse("vocabulary", "words of at most 2 MiB together", "more",
                  "Make a smaller one: max_tokens.");
  }
}

// What may stand in front of a vocabulary: the mask, if there is one, and so many times the word
// for those that are not in it. They are words of it where not all of them are there.
struct SpecialTokens {
  std::optional<Config> mask;
  Config oov;
  int64_t oov_count = 1;

  size_t size() const { return (mask ? 1 : 0) + static_cast<size_t>(oov_count); }
  const Config& at(size_t place) const { return mask && place == 0 ? *mask : oov; }
};

// Weights stand in the vocabulary's order. Special tokens that are not in it weigh as much as its
// words do on the average.
void read_weights(ConfigReader& reader, const Config& given, int64_t tokens, bool has_special,
                  InputLookup& lookup) {
  if (lookup.encoding != Encoding::kTfIdf) return;
  const int64_t count = given.is_array() ? std::ssize(given.as_array()) : 0;
  if (count != tokens) {
    reader.refuse("idf_weights", fmt::format("a weight for each of {} words", tokens),
                  given.is_null() ? "none" : std::to_string(count),
                  "Save the model with Keras: its .keras file has them in it, not compressed.");
  }
  double sum = 0;
  for (const Config& weight : given.as_array()) {
    if (!weight.is_number() || !std::isfinite(weight.as_double())) {
      reader.refuse("idf_weights", "finite numbers", weight.to_json());
    }
    sum += weight.as_double();
  }
  if (!has_special) {
    lookup.weights.assign(
        static_cast<size_t>(lookup.oov_ids),
        static_cast<float>(sum / static_cast<double>(std::max<int64_t>(count, 1))));
  }
  for (const Config& weight : given.as_array()) {
    lookup.weights.push_back(static_cast<float>(weight.as_double()));
  }
  lookup.weights.shrink_to_fit();
}

void read_vocabulary(ConfigReader& reader, const Config& given, const Config& weights,
                     const SpecialTokens& special, InputLookup& lookup) {
  if (given.is_null()) return;
  if (given.is_string()) {
    reader.refuse("vocabulary", "the words themselves", "the path of a file",
                  "Save the model with Keras: its .keras file has the words in it.");
  }
  const Config::Array& tokens = given.as_array();
  if (static_cast<int64_t>(tokens.size()) > InputLookup::kMostWords) {
    reader.refuse("vocabulary", fmt::format("at most {} words", InputLookup::kMostWords),
                  std::to_string(tokens.size()), "Make a smaller one: max_tokens.");
  }
  bool has_special = tokens.size() >= special.size();
  for (size_t i = 0; has_special && i < special.size(); ++i) {
    has_special = same(tokens[i], special.at(i));
  }
  for (size_t i = has_special ? special.size() : 0; i < tokens.size(); ++i) {
    add_token(reader, tokens[i], lookup);
  }
  lookup.words.shrink_to_fit();
  lookup.integers.shrink_to_fit();
  read_weights(reader, weights, std::ssize(tokens), has_special, lookup);
}

int64_t token_count(const InputLookup& lookup) {
  return static_cast<int64_t>(lookup.kind == Kind::kIntegers ? lookup.integers.size()
                                                             : lookup.words.size());
}

// The numbers of a row that is not one of ids.
void set_depth(ConfigReader& reader, int64_t max_tokens, bool pads, InputLookup& lookup) {
  const int64_t count = lookup.first_id() + token_count(lookup);
  if (max_tokens > 0 && count > max_tokens) {
    reader.refuse("vocabulary",
                  fmt::format("at most max_tokens, {}, with special tokens", max_tokens),
                  std::to_string(count));
  }
  if (pads && max_tokens == 0) {
    reader.refuse("max_tokens", "a number beside pad_to_max_tokens", "none");
  }
  if (lookup.encoding == Encoding::kIds) return;
  lookup.depth = pads ? max_tokens : count;
  if (lookup.depth > InputLookup::kMostDepth) {
    reader.refuse("max_tokens", fmt::format("at most {}", InputLookup::kMostDepth),
                  std::to_string(lookup.depth));
  }
}

// Options that newer versions alone write are printed where the file has them.
Config newer_option(ConfigReader& reader, std::string_view key) {
  Config given = reader.legacy(key);
  if (!given.is_null()) reader.complete(key, given);
  return given;
}

// StringLookup and IntegerLookup.
void read_index_lookup(ConfigReader& reader, InputLookup& lookup) {
  const bool integers = lookup.kind == Kind::kIntegers;
  if (reader.flag("invert", false)) {
    reader.refuse("invert", "false", "true",
                  "Words are no numbers to train on: look the answers up after predicting.");
  }
  const int64_t max_tokens = read_max_tokens(reader);
  lookup.oov_ids = reader.integer("num_oov_indices", 1, 0);
  if (lookup.oov_ids > kMostOov) {
    reader.refuse("num_oov_indices", fmt::format("at most {}", kMostOov),
                  std::to_string(lookup.oov_ids));
  }
  const Config oov = reader.value("oov_token", integers ? Config(-1) : Config("[UNK]"));
  const Config mask = reader.value("mask_token", Config());
  read_mask(reader, "mask_token", mask, lookup);
  lookup.encoding = read_encoding(reader, "int");
  reader.refuse_unless_empty("sparse", "Encode into dense rows.");
  const bool pads = reader.flag("pad_to_max_tokens", false);
  if (integers) reader.choice("vocabulary_dtype", "int64", {"int64"});
  const Config weights = reader.value("idf_weights", Config());
  const Config vocabulary = reader.value("vocabulary", Config());
  reader.value("vocabulary_size", Config());
  const Config method = newer_option(reader, "oov_method");
  lookup.hashes_integers = !method.is_null() && method.as_string() == "farmhash";
  read_salt(reader, newer_option(reader, "salt"), lookup);
  if (!integers) reader.choice("encoding", "utf-8", {"utf-8"});
  SpecialTokens special{std::nullopt, oov, lookup.oov_ids};
  if (lookup.first_id() > lookup.oov_ids) special.mask = mask;
  read_vocabulary(reader, vocabulary, weights, special, lookup);
  set_depth(reader, max_tokens, pads, lookup);
}

void read_standardize(ConfigReader& reader, InputLookup& lookup) {
  const Config given = reader.value("standardize", "lower_and_strip_punctuation");
  if (given.is_null()) return;
  if (!given.is_string()) {
    reader.refuse("standardize", "none, lower, strip_punctuation or lower_and_strip_punctuation",
                  "Python code", "It is not in the file and would not be run.");
  }
  const std::string word =
      reader.choice("standardize", "lower_and_strip_punctuation",
                    {"lower_and_strip_punctuation", "lower", "strip_punctuation"});
  lookup.lower = word != "strip_punctuation";
  lookup.strips_punctuation = word != "lower";
}

void read_split(ConfigReader& reader, InputLookup& lookup) {
  const Config given = reader.value("split", "whitespace");
  lookup.split = Split::kNone;
  if (given.is_null()) return;
  if (!given.is_string()) {
    reader.refuse("split", "none, whitespace or character", "Python code",
                  "It is not in the file and would not be run.");
  }
  const std::string word = reader.choice("split", "whitespace", {"whitespace", "character"});
  lookup.split = word == "whitespace" ? Split::kWhitespace : Split::kCharacters;
}

// A width, for all from 1 up to it, or a list of widths.
void read_ngrams(ConfigReader& reader, InputLookup& lookup) {
  const Config given = reader.value("ngrams", Config());
  if (given.is_null()) return;
  const bool listed = given.is_array();
  const std::string expected = fmt::format("a number from 1 to {}, or a list of up to {}",
                                           InputLookup::kMostNgram, InputLookup::kMostNgram);
  const Config::Array widths = listed ? given.as_array() : Config::Array{given};
  for (const Config& width : widths) {
    if (!width.is_int() || width.as_int() < 1 || width.as_int() > InputLookup::kMostNgram ||
        widths.size() > InputLookup::kMostNgram) {
      reader.refuse("ngrams", expected, given.to_json());
    }
    if (listed) lookup.ngrams.push_back(width.as_int());
  }
  if (widths.empty()) reader.refuse("ngrams", expected, given.to_json());
  if (listed) return;
  for (int64_t width = 1; width <= given.as_int(); ++width) lookup.ngrams.push_back(width);
}

void read_text(ConfigReader& reader, InputLookup& lookup) {
  const int64_t max_tokens = read_max_tokens(reader);
  read_standardize(reader, lookup);
  read_split(reader, lookup);
  read_ngrams(reader, lookup);
  lookup.encoding = read_encoding(reader, "int");
  const Config length = reader.value("output_sequence_length", Config());
  if (!length.is_null()) {
    if (!length.is_int() || length.as_int() < 1 || length.as_int() > InputLookup::kMostLength) {
      reader.refuse("output_sequence_length",
                    fmt::format("a number from 1 to {}", InputLookup::kMostLength),
                    length.to_json());
    }
    lookup.length = length.as_int();
  }
  const bool pads = reader.flag("pad_to_max_tokens", false);
  reader.refuse_unless_empty("sparse", "Encode into dense rows.");
  reader.refuse_unless_empty("ragged", "Give output_sequence_length.");
  const Config vocabulary = reader.value("vocabulary", Config());
  const Config weights = reader.value("idf_weights", Config());
  reader.choice("encoding", "utf-8", {"utf-8"});
  reader.value("vocabulary_size", Config());
  lookup.has_mask = true;  // an empty word
  SpecialTokens special{std::nullopt, Config("[UNK]"), 1};
  if (lookup.encoding == Encoding::kIds) special.mask = Config("");
  read_vocabulary(reader, vocabulary, weights, special, lookup);
  set_depth(reader, max_tokens, pads, lookup);
}

void read_hashing(ConfigReader& reader, InputLookup& lookup) {
  lookup.bins = reader.integer("num_bins", 1);
  if (lookup.bins > InputLookup::kMostBins) {
    reader.refuse("num_bins", fmt::format("at most {}", InputLookup::kMostBins),
                  std::to_string(lookup.bins));
  }
  read_salt(reader, reader.value("salt", Config()), lookup);
  read_mask(reader, "mask_value", reader.value("mask_value", Config()), lookup);
  lookup.encoding = read_encoding(reader, "int");
  if (lookup.encoding == Encoding::kTfIdf) {
    reader.refuse("output_mode", "int, one_hot, multi_hot or count", "tf_idf");
  }
  reader.refuse_unless_empty("sparse", "Encode into dense rows.");
  if (lookup.encoding == Encoding::kIds) return;
  lookup.depth = lookup.bins;
  if (lookup.depth > InputLookup::kMostDepth) {
    reader.refuse("num_bins", fmt::format("at most {}", InputLookup::kMostDepth),
                  std::to_string(lookup.depth));
  }
}

// What the layer gives for a sample.
std::vector<int64_t> given_shape(const ConfigReader& reader, const InputLookup& lookup) {
  const std::vector<int64_t>& shape = lookup.input_shape;
  const auto refuse = [&](const std::string& expected, std::string_view next_step) {
    std::string text;
    for (const int64_t size : shape) text += std::to_string(size) + ",";
    reader.refuse("input", expected, "(" + text + ")", next_step);
  };
  const bool ids = lookup.encoding == Encoding::kIds;
  if (lookup.kind == Kind::kText) {
    if (lookup.encoding == Encoding::kOneHot) {
      reader.refuse("output_mode", "int, multi_hot, count or tf_idf", "one_hot");
    }
    if (ids && lookup.length == 0) {
      reader.refuse("output_sequence_length", "a number", "none",
                    "What the layer gives has to have one size: build the model with it.");
    }
    if (lookup.split == Split::kNone && shape.size() != 1) {
      refuse("an input of shape (words,) beside split=None", "");
    }
    if (lookup.split != Split::kNone && lookup.input_elements() != 1) {
      refuse("one string a sample", "");
    }
    return {ids ? lookup.length : lookup.depth};
  }
  if (ids) return shape;
  if (lookup.encoding == Encoding::kOneHot) {
    if (lookup.input_elements() == 1 && shape.size() <= 1) return {lookup.depth};
    if (shape.size() != 1 || lookup.kind == Kind::kHash) {
      refuse("an input of shape (1,) for rows of one_hot", "Flatten it, or use multi_hot.");
    }
    if (shape[0] > InputLookup::kMostDepth / lookup.depth) {
      refuse(fmt::format("rows of at most {} numbers in all", InputLookup::kMostDepth),
             "Use ids and an Embedding.");
    }
    return {shape[0], lookup.depth};
  }
  if (shape.size() != 1) refuse("an input of shape (values,)", "Give the input that shape.");
  return {lookup.depth};
}

constexpr std::string_view kStringLookup = "StringLookup";
constexpr std::string_view kIntegerLookup = "IntegerLookup";
constexpr std::string_view kTextVectorization = "TextVectorization";
constexpr std::string_view kHashing = "Hashing";

// A layer that looks up: what it is called on is looked up already.
template <const std::string_view& kName>
class LookupLayer final : public Layer {
 public:
  static constexpr std::string_view kClassName = kName;

  explicit LookupLayer(ConfigReader& reader) : Layer(kName, reader.text("name")) {
    read_input_lookup(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) context.refuse("one input", std::to_string(inputs.size()), "");
    return {inputs[0]};
  }
};

}  // namespace

InputLookup read_input_lookup(ConfigReader& reader) {
  InputLookup lookup;
  lookup.layer = reader.text("name");
  lookup.class_name = reader.class_name();
  reader.value("trainable", true);
  // Keras 2 says "string" of layers of text, which Keras 3 does not take.
  const Config policy = reader.value("dtype", Config());
  const bool hashes = reader.class_name() == kHashing;
  if (!policy.is_object()) reader.complete("dtype", hashes ? Config("int64") : Config("float32"));
  if (hashes) {
    lookup.kind = Kind::kHash;
    read_hashing(reader, lookup);
  } else if (reader.class_name() == kTextVectorization) {
    lookup.kind = Kind::kText;
    read_text(reader, lookup);
  } else {
    lookup.kind = reader.class_name() == kIntegerLookup ? Kind::kIntegers : Kind::kWords;
    read_index_lookup(reader, lookup);
  }
  return lookup;
}

std::shared_ptr<const InputLookup> make_input_lookup(const Config& described,
                                                     std::vector<int64_t> shape, bool text,
                                                     bool fractions) {
  ConfigReader reader(described.at("class_name").as_string(), described.at("config"));
  auto lookup = std::make_shared<InputLookup>(read_input_lookup(reader));
  lookup->takes_text = text;
  lookup->takes_fractions = fractions;
  lookup->input_shape = std::move(shape);
  if (lookup->kind != Kind::kHash && text == (lookup->kind == Kind::kIntegers)) {
    reader.refuse("input", text ? "whole numbers" : "strings", text ? "strings" : "numbers",
                  text ? "" : "Give the model's input dtype=\"string\".");
  }
  if (lookup->kind != Kind::kHash && token_count(*lookup) == 0) {
    reader.refuse("vocabulary", "words", "none",
                  "Adapt the layer to data in Keras and save the model as .keras.");
  }
  lookup->output_shape = given_shape(reader, *lookup);
  return lookup;
}

std::shared_ptr<const Layer> make_string_lookup(const Config& config) {
  return construct_layer<LookupLayer<kStringLookup>>(config);
}
std::shared_ptr<const Layer> make_integer_lookup(const Config& config) {
  return construct_layer<LookupLayer<kIntegerLookup>>(config);
}
std::shared_ptr<const Layer> make_text_vectorization(const Config& config) {
  return construct_layer<LookupLayer<kTextVectorization>>(config);
}
std::shared_ptr<const Layer> make_hashing(const Config& config) {
  return construct_layer<LookupLayer<kHashing>>(config);
}

}  // namespace plimsoll::layers
