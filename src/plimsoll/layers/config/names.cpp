#include "layers/config/names.h"

namespace plimsoll::layers {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "(.)([A-Z][a-z]+)" → "\1_\2": a capital followed by small letters starts a word, unless it is
// first. Matches do not overlap, so a word's letters are taken whole.
std::string split_words(std::string_view text) {
  std::string result;
  size_t i = 0;
  while (i < text.size()) {
    const bool word = i + 2 < text.size() && is_upper(text[i + 1]) && is_lower(text[i + 2]);
    result += text[i++];
    if (!word) continue;
    result += '_';
    result += text[i++];
    while (i < text.size() && is_lower(text[i])) result += text[i++];
  }
  return result;
}

}  // namespace

std::string snake_case(std::string_view class_name) {
  std::string plain;
  for (char c : class_name) {
    if (is_upper(c) || is_lower(c) || is_digit(c) || c == '_') plain += c;
  }
  const std::string split = split_words(plain);
  std::string result;
  for (size_t i = 0; i < split.size(); ++i) {
    if (i > 0 && is_lower(split[i - 1]) && is_upper(split[i])) result += '_';
    result += is_upper(split[i]) ? static_cast<char>(split[i] - 'A' + 'a') : split[i];
  }
  return result;
}

}  // namespace plimsoll::layers
