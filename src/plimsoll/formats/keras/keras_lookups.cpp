#include "formats/keras/keras_lookups.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/input_lookup.h"
#include "codec/utf8.h"
#include "formats/keras/keras_order.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::ModelTree;
using layers::TreeCall;
using layers::TreeNode;
using layers::TreeTensor;

constexpr std::string_view kElsewhere = "Look the values up first, and train on the numbers.";

bool looks_up(const TreeNode& node) { return layers::layer_traits(node.class_name).looks_up; }

bool is_input(const TreeNode& node) { return node.class_name == layers::kInputLayer; }

// Bytes of the end of a line that `text` begins with, as Python's str.splitlines has it; 0: none.
size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const char c = text.front();
  if ((c >= '\n' && c <= '\r') || (c >= '\x1c' && c <= '\x1e')) return 1;
  if (text.starts_with("\xC2\x85")) return 2;
  return text.starts_with("\xE2\x80\xA8") || text.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

// The lines of a vocabulary, without empty ones at its end; nothing where they are too many.
std::optional<std::vector<std::string>> lines_of(std::string_view text) {
  constexpr size_t kMostLines = size_t{InputLookup::kMostWords} * 2;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    if (lines.size() == kMostLines) return std::nullopt;
    const size_t end = line_end(text.substr(at));
    if (end > 0) {
      lines.emplace_back(text.substr(begin, at - begin));
      begin = at + end;
    }
    at += end > 0 ? end : 1;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = codec::utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// What a text takes in JSON at most: \u0001 of one byte, and \" of another.
int64_t printed_bytes(std::string_view text) {
  int64_t bytes = 2;
  for (const char c : text) bytes += c >= 0 && c < ' ' ? 6 : c == '"' || c == '\\' ? 2 : 1;
  return bytes;
}

// All of a model's words have to go into one configuration, which is read again.
class WrittenWords {
 public:
  bool add(const Config& tokens) {
    for (const Config& token : tokens.as_array()) {
      bytes_ += token.is_string() ? printed_bytes(token.as_string()) : kIntegerBytes;
      ++count_;
    }
    return fits();
  }
  bool add_weights(size_t count) {
    bytes_ += static_cast<int64_t>(count) * kWeightBytes;
    return fits();
  }

 private:
  bool fits() const { return count_ <= InputLookup::kMostWords && bytes_ <= kMostBytes; }

  static constexpr int64_t kIntegerBytes = 21;
  static constexpr int64_t kWeightBytes = 24;
  static constexpr int64_t kMostBytes = int64_t{4} << 20;
  int64_t count_ = 0;
  int64_t bytes_ = 0;
};

Config tokens_of(const TreeNode& node, std::string_view text, const JsonSource& source) {
  Config::Array tokens;
  const bool integers = node.config.find("vocabulary_dtype") != nullptr;
  if (!is_utf8(text)) {
    source.refuse(node.name, "UTF-8 in vocabulary.txt", "bytes that are not",
                  "Save the model where Python writes UTF-8 (PYTHONUTF8=1).");
  }
  std::optional<std::vector<std::string>> lines = lines_of(text);
  if (!lines) {
    source.refuse(node.name,
                  fmt::format("at most {} words in vocabulary.txt", InputLookup::kMostWords),
                  "more");
  }
  for (std::string& line : *lines) {
    if (!integers) {
      tokens.emplace_back(std::move(line));
      continue;
    }
    int64_t number = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
    if (read.ec != std::errc() || read.ptr != line.data() + line.size()) {
      source.refuse(node.name, "integers in vocabulary.txt", excerpt(Config(std::move(line))));
    }
    tokens.emplace_back(number);
  }
  return tokens;
}

bool weighs(const TreeNode& node) {
  const Config* mode = node.config.find("output_mode");
  return mode != nullptr && mode->is_string() &&
         (mode->as_string() == "tf_idf" || mode->as_string() == "tf-idf");
}

// Weights of `count` words, which lie among the layer's variables; null: they are not there.
Config weights_of(const std::string& group, size_t count, const JsonSource& source) {
  const auto numbers = source.numbers(group + "/vars/" + std::string(kWeightsOfWords));
  if (!numbers) return {};
  Config::Array weights;
  for (size_t i = 0; i < std::min(count, numbers->size()); ++i) {
    weights.emplace_back(static_cast<double>((*numbers)[i]));
  }
  return weights;
}

// Weights of a vocabulary in the configuration: Keras takes those among the layer's variables,
// which have the special tokens' in front where the vocabulary has none, whatever the configuration
// says.
void take_weights(TreeNode& node, const std::string& group, const Config& vocabulary,
                  const JsonSource& source) {
  const std::string path = group + "/vars/" + std::string(kWeightsOfWords);
  const auto numbers = source.numbers(path);
  if (!numbers) return;
  const Config::Array& words = vocabulary.as_array();
  const Config* unknown = node.config.find("oov_token");
  const Config* special = node.config.find("num_oov_indices");
  const bool has_special = unknown != nullptr && !words.empty() && words.front() == *unknown;
  int64_t first = special != nullptr && special->is_int() ? special->as_int() : 1;
  const int64_t count = std::ssize(words);
  if (has_special || std::ssize(*numbers) == count) first = 0;
  if (first < 0 || first > std::ssize(*numbers) - count) {
    source.refuse(node.name, fmt::format("a weight for each of {} words in {}", count, path),
                  std::to_string(numbers->size()), "Save the model again.");
  }
  Config::Array weights;
  for (int64_t i = 0; i < count; ++i) {
    weights.emplace_back(static_cast<double>((*numbers)[static_cast<size_t>(first + i)]));
  }
  node.config.set(std::string(kWeightsOfWords), std::move(weights));
}

// Puts vocabularies that lie beside the configuration into it, and the weights of their words.
void complete_vocabularies(ModelTree& tree, const JsonSource& source) {
  const KerasOrder order = keras_order(tree);
  const std::vector<std::string> groups = weight_groups(tree, order);
  WrittenWords written;
  for (size_t i = 0; i < order.nodes.size(); ++i) {
    TreeNode& node = tree.nodes[order.nodes[i]];
    if (!looks_up(node)) continue;
    const Config* given = node.config.find("vocabulary");
    if (given == nullptr) continue;
    if (weighs(node) && given->is_array()) take_weights(node, groups[i], *given, source);
    if (!given->is_null()) continue;
    std::optional<std::string> text = source.asset(groups[i] + "/vocabulary.txt");
    if (!text) text = source.asset(groups[i] + "/_lookup_layer/vocabulary.txt");
    if (!text) continue;
    Config tokens = tokens_of(node, *text, source);
    const size_t count = tokens.as_array().size();
    if (!written.add(tokens) || (weighs(node) && !written.add_weights(count))) {
      source.refuse(node.name,
                    fmt::format("{} words and 4 MiB in all vocabularies of a model at most",
                                InputLookup::kMostWords),
                    "more", "Make them smaller: max_tokens.");
    }
    node.config.set("vocabulary", std::move(tokens));
    if (weighs(node)) {
      node.config.set(std::string(kWeightsOfWords), weights_of(groups[i], count, source));
    }
  }
}

void refuse_inside(const ModelTree& tree, const JsonSource& source) {
  for (const TreeNode& node : tree.nodes) {
    if (looks_up(node)) {
      source.refuse(node.name, node.class_name + " after an input of the whole model",
                    "one in the model " + tree.name + " inside of it", kElsewhere);
    }
    if (node.model != nullptr) refuse_inside(*node.model, source);
  }
}

Config described(const TreeNode& node) {
  Config config = node.config;
  config.set("name", node.name);
  return Config::Object{{"class_name", node.class_name}, {"config", std::move(config)}};
}

// The input that a call of a layer is on, of a Functional.
size_t input_of(const ModelTree& tree, const TreeNode& node, const TreeCall& call,
                const JsonSource& source) {
  const size_t input = call.inputs.size() == 1 ? call.inputs[0].node : tree.nodes.size();
  if (input == tree.nodes.size() || !is_input(tree.nodes[input])) {
    source.refuse(node.name, node.class_name + " on an input of the model",
                  "a call on what other layers give", kElsewhere);
  }
  const auto reads = [&](const TreeTensor& tensor) { return tensor.node == input; };
  int64_t readers = std::ranges::count_if(tree.outputs, reads);
  for (const TreeNode& other : tree.nodes) {
    for (const TreeCall& made : other.calls) readers += std::ranges::count_if(made.inputs, reads);
  }
  if (readers != 1) {
    source.refuse(node.name, "the input " + tree.nodes[input].name + " for itself",
                  "one that other layers read too", "Give each of them an input of its own.");
  }
  return input;
}

}  // namespace

std::map<size_t, Config> find_lookups(ModelTree& tree, const JsonSource& source) {
  std::map<size_t, Config> found;
  for (const TreeNode& node : tree.nodes) {
    if (node.model != nullptr) refuse_inside(*node.model, source);
  }
  if (std::ranges::none_of(tree.nodes, looks_up)) return found;
  complete_vocabularies(tree, source);
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const TreeNode& node = tree.nodes[i];
    if (!looks_up(node)) continue;
    if (!tree.sequential) {
      for (const TreeCall& call : node.calls) {
        found[input_of(tree, node, call, source)] = described(node);
      }
    } else if (i == 1 && is_input(tree.nodes[0])) {
      found[0] = described(node);
    } else {
      source.refuse(node.name, node.class_name + " as the first layer", "one after others",
                    kElsewhere);
    }
  }
  return found;
}

}  // namespace plimsoll::formats
