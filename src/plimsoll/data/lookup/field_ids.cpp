#include "data/lookup/field_ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "codec/utf8.h"
#include "data/lookup/text_hash.h"

namespace plimsoll::data {
namespace {

// What stands for bytes that are no character.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

using Encoding = InputLookup::Encoding;
using Split = InputLookup::Split;

// ASCII alone, as TensorFlow's operators without an encoding have it.
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}
char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

uint64_t hash_of(int64_t value) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const uint64_t mixed = static_cast<uint64_t>(value) * kOdd;
  return mixed ^ (mixed >> 32);
}

// Decimal digits, as tf.strings.as_string writes an integer.
std::string_view decimal(int64_t value, std::array<char, 24>& buffer) {
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), static_cast<size_t>(end - buffer.data())};
}

// Bytes of what begins a character of UTF-8 and does not end it, for one replacement: as much as a
// character could begin with (the Unicode Standard, 3.9, "maximal subpart").
size_t broken_length(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t first = byte(0);
  size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                  : first >= 0xE0 && first <= 0xEF ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 1;
  if (length == 1 || text.size() < 2) return 1;
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 1;
  size_t taken = 2;
  while (taken < length - 1 && taken < text.size() && (byte(taken) & 0xC0) == 0x80) ++taken;
  return taken;
}

}  // namespace

FieldIds::FieldIds(std::shared_ptr<const InputLookup> lookup) : lookup_(std::move(lookup)) {
  const bool integers = lookup_->kind == InputLookup::Kind::kIntegers;
  const size_t count = integers ? lookup_->integers.size() : lookup_->words.size();
  if (count == 0) return;
  slots_.resize(std::bit_ceil(count * 2));
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    size_t slot = 0;
    bool repeated = false;
    if (integers) {
      const int64_t value = lookup_->integers[i];
      slot = hash_of(value) & mask;
      while (slots_[slot] != 0 && lookup_->integers[slots_[slot] - 1] != value) {
        slot = (slot + 1) & mask;
      }
      repeated = slots_[slot] != 0 || (lookup_->has_mask && lookup_->mask_integer == value);
    } else {
      slot = slot_of(lookup_->words[i]);
      repeated = slots_[slot] != 0 ||
                 (lookup_->has_mask && std::string_view(lookup_->mask_text) == lookup_->words[i]);
    }
    if (repeated) {
      throw Error(ErrorKind::kModel,
                  fmt::format("[{}] vocabulary: expected each word once and the mask at its "
                              "beginning, received {} again.",
                              lookup_->layer,
                              integers ? std::to_string(lookup_->integers[i])
                                       : "\"" + std::string(lookup_->words[i]) + "\""));
    }
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

// The slot that holds the word, or a free one for it.
size_t FieldIds::slot_of(std::string_view word) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = fingerprint64(word) & mask;
  while (slots_[slot] != 0 && lookup_->words[slots_[slot] - 1] != word) slot = (slot + 1) & mask;
  return slot;
}

int64_t FieldIds::masked() const { return lookup_->encoding == Encoding::kIds ? 0 : kNone; }

int64_t FieldIds::bin(std::string_view text, int64_t bins) const {
  const uint64_t hash = lookup_->salt ? keyed_hash64(text, *lookup_->salt) : fingerprint64(text);
  return static_cast<int64_t>(hash % static_cast<uint64_t>(bins));
}

int64_t FieldIds::unknown(std::string_view text) const {
  const int64_t first = lookup_->first_id() - lookup_->oov_ids;
  if (lookup_->oov_ids == 0) return kUnknown;
  return lookup_->oov_ids == 1 ? first : first + bin(text, lookup_->oov_ids);
}

// A mask takes the first of the bins for itself.
int64_t FieldIds::hashed(std::string_view text, bool masked) const {
  const bool reserved = lookup_->has_mask && lookup_->bins > 1;
  if (!reserved) return bin(text, lookup_->bins);
  return masked ? 0 : 1 + bin(text, lookup_->bins - 1);
}

int64_t FieldIds::of_text(std::string_view text) const {
  const bool mask = lookup_->has_mask && text == lookup_->mask_text;
  if (lookup_->kind == InputLookup::Kind::kHash) return hashed(text, mask);
  if (mask) return masked();
  const uint32_t place = slots_[slot_of(text)];
  return place > 0 ? found(place - 1) : unknown(text);
}

int64_t FieldIds::of_integer(int64_t value) const {
  std::array<char, 24> buffer{};
  const bool mask = lookup_->has_mask && value == lookup_->mask_integer;
  if (lookup_->kind == InputLookup::Kind::kHash) return hashed(decimal(value, buffer), mask);
  if (mask) return masked();
  const size_t last = slots_.size() - 1;
  for (size_t slot = hash_of(value) & last; slots_[slot] != 0; slot = (slot + 1) & last) {
    if (lookup_->integers[slots_[slot] - 1] == value) return found(slots_[slot] - 1);
  }
  if (lookup_->oov_ids <= 1 || lookup_->hashes_integers) return unknown(decimal(value, buffer));
  const int64_t rest = value % lookup_->oov_ids;
  return lookup_->first_id() - lookup_->oov_ids + (rest < 0 ? rest + lookup_->oov_ids : rest);
}

bool FieldIds::holds(float value) {
  constexpr float kBeyond = 9.2e18F;
  return std::abs(value) < kBeyond;
}

// Hashing compares with its mask before the fraction is cut off, the others afterwards.
int64_t FieldIds::of_number(float value) const {
  const auto integer = static_cast<int64_t>(value);
  const bool fraction = static_cast<float>(integer) != value;
  if (lookup_->kind != InputLookup::Kind::kHash || !fraction) return of_integer(integer);
  std::array<char, 24> buffer{};
  return hashed(decimal(integer, buffer), false);
}

// Appends the tokens of a string that is made uniform.
void FieldIds::split(std::string_view text) {
  if (lookup_->split == Split::kNone) {
    tokens_.push_back(text);
    return;
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    if (lookup_->split == Split::kCharacters) {
      const size_t length = codec::utf8_length(text.substr(at));
      end = at + (length > 0 ? length : broken_length(text.substr(at)));
      tokens_.push_back(length > 0 ? text.substr(at, length) : kReplacement);
    } else {
      while (end < text.size() && !is_blank(text[end])) ++end;
      if (end > at) tokens_.push_back(text.substr(at, end - at));
      while (end < text.size() && is_blank(text[end])) ++end;
    }
    at = end;
  }
}

void FieldIds::of_tokens(const std::vector<std::string_view>& strings, int64_t most,
                         const std::function<void(int64_t)>& take) {
  tokens_.clear();
  standard_.resize(std::max(standard_.size(), strings.size()));
  for (size_t i = 0; i < strings.size(); ++i) {
    std::string& text = standard_[i];
    text.clear();
    for (const char c : strings[i]) {
      if (lookup_->strips_punctuation && is_punctuation(c)) continue;
      text += lookup_->lower ? lowered(c) : c;
    }
    split(text);
  }
  int64_t given = 0;
  if (lookup_->ngrams.empty()) {
    for (size_t i = 0; i < tokens_.size() && given < most; ++i, ++given) take(of_text(tokens_[i]));
    return;
  }
  for (const int64_t width : lookup_->ngrams) {
    for (size_t i = 0; i + static_cast<size_t>(width) <= tokens_.size() && given < most; ++i) {
      ngram_ = tokens_[i];
      for (size_t k = 1; k < static_cast<size_t>(width); ++k) {
        ngram_ += ' ';
        ngram_ += tokens_[i + k];
      }
      take(of_text(ngram_));
      ++given;
    }
  }
}

int64_t FieldIds::bytes_for(const InputLookup& lookup) {
  // The model's configuration holds a value for each token and weight, with what its list has
  // beside it, and a block for a text where it is long.
  constexpr size_t kValueBytes = 48;
  constexpr size_t kInside = 15;
  const size_t tokens = lookup.integers.size() + lookup.words.size();
  const size_t slots = tokens == 0 ? 0 : std::bit_ceil(tokens * 2);
  size_t bytes = (tokens + lookup.weights.size()) * kValueBytes + slots * sizeof(uint32_t);
  for (size_t i = 0; i < lookup.words.size(); ++i) {
    const size_t length = lookup.words[i].size();
    if (length > kInside) bytes += (length + 1 + 8 + 15) / 16 * 16;
  }
  return lookup.held_bytes() + static_cast<int64_t>(bytes);
}

int64_t FieldIds::held_bytes() const { return bytes_for(*lookup_) + buffer_bytes(); }

int64_t FieldIds::buffer_bytes() const {
  size_t bytes = tokens_.capacity() * sizeof(std::string_view) +
                 standard_.capacity() * sizeof(std::string) + ngram_.capacity();
  for (const std::string& text : standard_) bytes += text.capacity();
  return static_cast<int64_t>(bytes);
}

void FieldIds::free_buffers() {
  standard_ = std::vector<std::string>();
  tokens_ = std::vector<std::string_view>();
  ngram_ = std::string();
}

}  // namespace plimsoll::data
