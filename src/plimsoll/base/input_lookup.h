#pragma once

// What becomes of an input's strings or whole numbers before a model sees them: Keras's
// StringLookup, IntegerLookup, TextVectorization and Hashing, as plain data.
//
// Layers read it from a model's file, data sources carry it out (data/lookup), and neither knows
// the other. A model's input is then what the layer gives, of `output_shape`. Nothing is computed
// here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Words by number, one after another in one text.
class PackedWords {
 public:
  void add(std::string_view word) {
    text_ += word;
    ends_.push_back(static_cast<uint32_t>(text_.size()));
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }
  size_t text_bytes() const { return text_.size(); }
  int64_t held_bytes() const {
    return static_cast<int64_t>(text_.capacity() + ends_.capacity() * sizeof(uint32_t));
  }
  void shrink_to_fit() {
    text_.shrink_to_fit();
    ends_.shrink_to_fit();
  }

 private:
  std::string text_;
  std::vector<uint32_t> ends_;
};

struct InputLookup {
  enum class Kind : uint8_t { kWords, kIntegers, kText, kHash };
  enum class Encoding : uint8_t { kIds, kOneHot, kMultiHot, kCount, kTfIdf };
  enum class Split : uint8_t { kNone, kWhitespace, kCharacters };

  static constexpr int64_t kMostWords = int64_t{1} << 17;      // of a vocabulary
  static constexpr int64_t kMostWordBytes = int64_t{2} << 20;  // of a vocabulary
  static constexpr int64_t kMostDepth = int64_t{1} << 20;      // numbers of an encoded row
  static constexpr int64_t kMostBins = int64_t{1} << 31;       // of Hashing
  static constexpr int64_t kMostLength = int64_t{1} << 20;     // tokens of a sample
  static constexpr int64_t kMostNgram = 16;                    // tokens of one, and widths

  std::string layer{};       // its name, for messages
  std::string class_name{};  // its class
  Kind kind = Kind::kWords;
  Encoding encoding = Encoding::kIds;

  // Vocabulary, without its special tokens: words, or integers where `kind` says so.
  PackedWords words{};
  std::vector<int64_t> integers{};
  int64_t oov_ids = 1;  // numbers for what is not in it; 0: that is refused
  bool has_mask = false;
  std::string mask_text{};
  int64_t mask_integer = 0;
  bool hashes_integers = false;  // unknown ones are hashed; false: their remainder counts
  std::optional<std::array<uint64_t, 2>> salt{};
  int64_t bins = 0;              // of kHash
  int64_t depth = 0;             // numbers of an encoded row; 0 for kIds
  std::vector<float> weights{};  // by number, of kTfIdf; one beyond them is 0

  // These are for kText.
  bool lower = false;
  bool strips_punctuation = false;
  Split split = Split::kWhitespace;
  std::vector<int64_t> ngrams{};  // widths in their order; none: the tokens themselves
  int64_t length = 0;             // tokens of a sample of kIds

  // What the layer is called on, and what it gives for a sample.
  bool takes_text = true;
  bool takes_fractions = false;  // an input of floating point, which is cut to whole numbers
  std::vector<int64_t> input_shape{};
  std::vector<int64_t> output_shape{};

  int64_t input_elements() const {
    int64_t elements = 1;
    for (const int64_t size : input_shape) elements *= size;
    return elements;
  }
  // The number of the vocabulary's first token.
  int64_t first_id() const { return oov_ids + (has_mask && encoding == Encoding::kIds ? 1 : 0); }
  int64_t held_bytes() const {
    return words.held_bytes() + static_cast<int64_t>(integers.capacity() * sizeof(int64_t) +
                                                     weights.capacity() * sizeof(float));
  }
};

}  // namespace plimsoll
