#pragma once

// Numbers of strings and whole numbers, as Keras's layers that look up give them.
//
// A table of numbers over the words of an InputLookup, which it shares, finds each in one or two
// comparisons. Ids are those of the layer: mask, then unknown ones, then the vocabulary. Nothing
// here knows where a string comes from. Calls of one object come one at a time: texts are taken
// apart in buffers of its own. Internal to data.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_lookup.h"

namespace plimsoll::data {

class FieldIds {
 public:
  // In encoded rows a masked value is no class.
  static constexpr int64_t kNone = -1;
  // What is not in the vocabulary, where there is no number for that.
  static constexpr int64_t kUnknown = -2;

  explicit FieldIds(std::shared_ptr<const InputLookup> lookup);

  const InputLookup& lookup() const { return *lookup_; }

  // Ids, kNone or kUnknown. A lookup of words or hashes, of integers or hashes, of any of these
  // whose input is floating point.
  int64_t of_text(std::string_view text) const;
  int64_t of_integer(int64_t value) const;
  int64_t of_number(float value) const;
  // Whether a whole number of 64 bits is what is left of it without its fraction.
  static bool holds(float value);

  // Hands out the ids of a text's tokens in their order, at most `most` of them. `strings` are the
  // fields of one sample: one, where the lookup splits it.
  void of_tokens(const std::vector<std::string_view>& strings, int64_t most,
                 const std::function<void(int64_t)>& take);

  // Its tables and buffers, and what model and configuration hold of the vocabulary.
  int64_t held_bytes() const;
  // The same before there are any: but for buffers.
  static int64_t bytes_for(const InputLookup& lookup);
  // Buffers are as large as the largest text was; they are given back when no text is left.
  int64_t buffer_bytes() const;
  void free_buffers();

 private:
  int64_t found(int64_t place) const { return place + lookup_->first_id(); }
  int64_t masked() const;
  int64_t unknown(std::string_view text) const;
  int64_t bin(std::string_view text, int64_t bins) const;
  int64_t hashed(std::string_view text, bool masked) const;
  size_t slot_of(std::string_view word) const;
  void split(std::string_view text);

  std::shared_ptr<const InputLookup> lookup_;
  // Place of a word or integer in the vocabulary plus 1; 0: free. A power of two of them.
  std::vector<uint32_t> slots_;
  std::vector<std::string> standard_;     // the sample's strings, made uniform
  std::vector<std::string_view> tokens_;  // parts of these
  std::string ngram_;
};

}  // namespace plimsoll::data
