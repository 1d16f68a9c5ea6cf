// Half as many samples a step, in the call of the user's own framework, and how gradients are added
// up over two of them, so that what the advice promises is what its code does.

#include <algorithm>

#include "base/format.h"
#include "explain/answer/advice_impl.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

enum class Keras { kUnknown, kTwo, kThree };

// Keras 3's bar after the count of its steps; pip's own are of the same strokes.
bool has_bar_of_three(const Document& document) {
  constexpr std::string_view kBar = "\u2501\u2501\u2501";
  const std::string& text = document.text();
  for (size_t at = document.find(kBar); at != npos;) {
    if (at >= 2 && text[at - 1] == ' ' && is_digit(text[at - 2])) return true;
    at = document.find(kBar, std::min(text.find('\n', at), text.size()));
  }
  return false;
}

// By folders that only one of the two has, then by their bars.
Keras keras_of(const Document& document) {
  const auto says = [&](std::initializer_list<std::string_view> phrases) {
    return std::ranges::any_of(
        phrases, [&](std::string_view phrase) { return document.find(phrase) != npos; });
  };
  if (says({"keras/src/backend/", "keras/src/trainers/", "keras/src/ops/", "keras\\src\\backend\\",
            "keras\\src\\trainers\\", "keras\\src\\ops\\"})) {
    return Keras::kThree;
  }
  if (says({"keras/engine/", "keras/src/engine/", "keras\\engine\\", "keras\\src\\engine\\",
            "[=====", "....] - "})) {
    return Keras::kTwo;
  }
  return has_bar_of_three(document) ? Keras::kThree : Keras::kUnknown;
}

bool is_name(std::string_view word) {
  return !word.empty() && !is_digit(word.front()) && std::ranges::all_of(word, [](char c) {
    return c == '_' || c == '.' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// The arguments of the call whose bracket opens before `at`, as far as they stand in its line.
std::vector<std::string_view> arguments_at(std::string_view text, size_t at) {
  std::vector<std::string_view> arguments;
  int depth = 0;
  size_t begin = at;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    const char c = text[at];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0 || (depth == 0 && c == ',')) {
      arguments.push_back(trimmed(text.substr(begin, at - begin)));
      begin = at + 1;
    }
    if (depth < 0) return arguments;
  }
  arguments.push_back(trimmed(text.substr(begin, at - begin)));
  return arguments;
}

// What "model.fit(train_ds, epochs=5)" is given in place of arrays; empty: arrays, or not known.
// Fits of others (a scaler's) are none.
std::string dataset_of_fit(const Document& document) {
  constexpr std::string_view kCall = "model.fit(";
  const size_t at = document.find_back(kCall, document.text().size(), document.text().size());
  if (at == npos) return "";
  const std::vector<std::string_view> arguments =
      arguments_at(document.text(), document.match(kCall, at));
  const std::string_view first = arguments.front();
  const bool arrays = first.empty() || first.front() == 'x' || first.front() == 'X';
  if (arrays || first.find('=') != npos) return "";
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view name = trimmed(arguments[i].substr(0, arguments[i].find('=')));
    const bool named = name.size() < arguments[i].size();
    if (!named || name == "y" || name == "batch_size") return "";
  }
  return is_name(first) ? std::string(first) : "data";
}

// Whether it is named as a tf.data.Dataset is; of others nobody knows how they make their batches.
bool is_named_dataset(std::string_view name) {
  return name.ends_with("ds") || name.find("dataset") != npos;
}

std::string keras_code(const Case& found, Keras keras, const std::string& size) {
  const std::string dataset = dataset_of_fit(found.document);
  std::string code = dataset + " = ...(..., batch_size=" + size + ")";
  if (dataset.empty()) code = "model.fit(x, y, batch_size=" + size + ")";
  if (is_named_dataset(dataset)) code = dataset + " = ... .batch(" + size + ")";
  if (keras == Keras::kThree) {
    code += "\noptimizer = keras.optimizers.Adam(..., gradient_accumulation_steps=2)";
  }
  return code;
}

}  // namespace

HalfBatch half_batch(const Case& found, const std::string& size) {
  constexpr std::string_view kHalf = "If the step works on more than one sample: half as many";
  HalfBatch half;
  half.action =
      std::string(kHalf) + ", with gradients added over two steps so that the result stays.";
  if (found.framework == "pytorch") {
    half.code = "DataLoader(dataset, batch_size=" + size +
                ")\n(loss / 2).backward()\nif i % 2 == 1: optimizer.step(); optimizer.zero_grad()";
  }
  if (found.framework == "jax") {
    half.code = "grads over slices: jax.lax.map(grad_of_slice, batch.reshape(2, -1, ...))";
  }
  if (found.framework != "tensorflow") return half;
  const Keras keras = keras_of(found.document);
  half.code = keras_code(found, keras, size);
  if (keras == Keras::kTwo) {
    half.action = std::string(kHalf) +
                  ". Keras 2 adds no gradients up over steps, so that the result changes somewhat; "
                  "Keras 3 does, by gradient_accumulation_steps=2 of the optimizer.";
  } else if (keras == Keras::kUnknown) {
    half.action =
        std::string(kHalf) +
        ". With gradient_accumulation_steps=2 an optimizer of Keras 3 adds gradients over "
        "two steps, so that the result stays; Keras 2 does not.";
  }
  return half;
}

}  // namespace plimsoll::explain
