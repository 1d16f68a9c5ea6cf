#pragma once

// A text as numbers: characters or words.
//
// The text is read once for its vocabulary and once to be rewritten as token numbers in an unlinked
// file of one, two or four bytes a token, from which windows are read in any order.
//
//   characters   UTF-8, in the order of their codes: number 0 is the smallest that occurs
//   words        what stands between white space; number 0 is every word that is not in the
//                vocabulary, then the most frequent ones (of equal frequency the bytewise smaller)
//
// At most 65,536 characters; words are counted exactly, however many there are (word_counts.h).

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/byte_reader.h"
#include "data/rows/array_rows.h"

namespace plimsoll::data {

struct Vocabulary {
  bool words = false;
  std::vector<std::string> tokens;  // by number; words: tokens[0] is "[UNK]"
  Bytes opening_peak{};             // the most that finding and using it held
  Bytes resident_bytes() const;
  friend bool operator==(const Vocabulary&, const Vocabulary&) = default;
};

// `most` words at most, the unknown one included (0: 10,000). Throws kData naming the place of a
// byte that is no UTF-8. A byte order mark is skipped.
Vocabulary find_vocabulary(const std::shared_ptr<const codec::FileReader>& file, bool words,
                           int64_t most, const std::string& spill_directory);

// The text as one array of token numbers. A character that is not in the vocabulary is kData.
ArrayPlace tokenize(const std::shared_ptr<const codec::FileReader>& file,
                    const Vocabulary& vocabulary, const std::string& spill_directory);

}  // namespace plimsoll::data
