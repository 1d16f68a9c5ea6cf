// Hashes and ids of fields. What TensorFlow 2.21 gives stands here as numbers; whole layers are
// compared with Keras in tests/parity/test_looked_up_inputs.py.

#include "data/lookup/field_ids.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/lookup/text_hash.h"

namespace plimsoll::data {
namespace {

using Ids = std::vector<int64_t>;

// As tf.strings.to_hash_bucket_fast and to_hash_bucket_strong with key=[3, 7] give them.
TEST(TextHashTest, IsTensorFlows) {
  constexpr uint64_t kBuckets = uint64_t{1} << 62;
  struct Golden {
    std::string text;
    uint64_t fast;
    uint64_t strong;
  };
  // One of each length at which the hashes go another way.
  const std::vector<Golden> goldens = {
      {"", 1936946117179621455u, 4260434136022711673u},
      {"a", 3694432073954588131u, 1834374123143231496u},
      {"abcdefg", 4341691227789030229u, 3593220764130843272u},
      {"12345678", 3430003927990384362u, 398739132266515271u},
      {std::string(16, 'a'), 3481940567716887985u, 836152727406669220u},
      {std::string(17, 'b'), 3256592028984373237u, 664857502489017544u},
      {std::string(32, 'd'), 1454439327708489916u, 3325998458590001665u},
      {std::string(33, 'e'), 2085696148661965414u, 3027956830460654279u},
      {std::string(64, 'g'), 1542144938986418769u, 1623129789330958947u},
      {std::string(65, 'h'), 765031167146678351u, 1372110311364082122u},
      {std::string(128, 'j'), 2244420370616605297u, 1834710948650094319u},
      {std::string(129, 'k'), 930124591354907890u, 2102976318266616823u},
      {std::string(1000, 'm'), 3750123881101840856u, 361635164503483645u},
  };
  for (const Golden& golden : goldens) {
    EXPECT_EQ(fingerprint64(golden.text) % kBuckets, golden.fast) << golden.text.size();
    EXPECT_EQ(keyed_hash64(golden.text, {3, 7}) % kBuckets, golden.strong) << golden.text.size();
  }
}

std::shared_ptr<InputLookup> words(const std::vector<std::string>& vocabulary) {
  auto lookup = std::make_shared<InputLookup>();
  lookup->layer = "words";
  for (const std::string& word : vocabulary) lookup->words.add(word);
  return lookup;
}

TEST(FieldIdsTest, MaskThenUnknownThenWords) {
  const auto lookup = words({"sea", "", "ship"});
  lookup->has_mask = true;
  lookup->mask_text = "none";
  const FieldIds ids(lookup);
  EXPECT_EQ(ids.of_text("none"), 0);
  EXPECT_EQ(ids.of_text("Sea"), 1);
  EXPECT_EQ(ids.of_text("sea"), 2);
  EXPECT_EQ(ids.of_text(""), 3);
  EXPECT_EQ(ids.of_text("ship"), 4);
}

TEST(FieldIdsTest, InRowsAMaskIsNoClass) {
  const auto lookup = words({"sea"});
  lookup->has_mask = true;
  lookup->encoding = InputLookup::Encoding::kCount;
  lookup->depth = 2;
  const FieldIds ids(lookup);
  EXPECT_EQ(ids.of_text(""), FieldIds::kNone);
  EXPECT_EQ(ids.of_text("other"), 0);
  EXPECT_EQ(ids.of_text("sea"), 1);
}

TEST(FieldIdsTest, WithoutANumberForOthers) {
  const auto lookup = words({"sea"});
  lookup->oov_ids = 0;
  EXPECT_EQ(FieldIds(lookup).of_text("ship"), FieldIds::kUnknown);
  EXPECT_EQ(FieldIds(lookup).of_text("sea"), 0);
}

TEST(FieldIdsTest, IntegersByTheirRemainder) {
  InputLookup lookup;
  lookup.kind = InputLookup::Kind::kIntegers;
  lookup.integers = {7, 3};
  lookup.oov_ids = 4;
  const FieldIds ids(std::make_shared<const InputLookup>(lookup));
  EXPECT_EQ(ids.of_integer(7), 4);
  EXPECT_EQ(ids.of_integer(3), 5);
  EXPECT_EQ(ids.of_integer(10), 2);
  EXPECT_EQ(ids.of_integer(-1), 3);  // the remainder is never negative
}

TEST(FieldIdsTest, AWordTwiceIsRefused) {
  try {
    const FieldIds ids(words({"sea", "ship", "sea"}));
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_EQ(error.message(),
              "[words] vocabulary: expected each word once and the mask at its beginning, received "
              "\"sea\" again.");
  }
}

Ids tokens(const InputLookup& lookup, const std::string& text, int64_t most = 100) {
  FieldIds ids(std::make_shared<const InputLookup>(lookup));
  Ids found;
  ids.of_tokens({text}, most, [&](int64_t id) { found.push_back(id); });
  return found;
}

TEST(FieldIdsTest, TextsAreTakenApart) {
  InputLookup lookup = *words({"the", "sea", "the sea", "dont"});
  lookup.kind = InputLookup::Kind::kText;
  lookup.has_mask = true;
  lookup.lower = lookup.strips_punctuation = true;
  EXPECT_EQ(tokens(lookup, " The\tSEA; don't "), (Ids{2, 3, 5}));
  EXPECT_EQ(tokens(lookup, ""), Ids{});
  lookup.ngrams = {2, 1};
  EXPECT_EQ(tokens(lookup, "the sea x"), (Ids{4, 1, 2, 3, 1}));
  EXPECT_EQ(tokens(lookup, "the sea x", 3), (Ids{4, 1, 2}));
  EXPECT_EQ(tokens(lookup, "sea"), (Ids{3}));
}

TEST(FieldIdsTest, BuffersAreGivenBack) {
  InputLookup lookup = *words({"a"});
  lookup.kind = InputLookup::Kind::kText;
  FieldIds ids(std::make_shared<const InputLookup>(lookup));
  const int64_t tables = ids.held_bytes() - ids.buffer_bytes();
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "b ";
  ids.of_tokens({text}, 1, [](int64_t) {});
  EXPECT_GE(ids.buffer_bytes(), 10'000 * static_cast<int64_t>(sizeof(std::string_view)));
  EXPECT_EQ(ids.held_bytes(), tables + ids.buffer_bytes());
  ids.free_buffers();
  EXPECT_LE(ids.buffer_bytes(), 16);
}

// Bytes that are no character are one replacement for each part that could begin one.
TEST(FieldIdsTest, CharactersOfBrokenText) {
  InputLookup lookup = *words({"\xEF\xBF\xBD", "x", "\xF0\x9F\x98\x80"});
  lookup.kind = InputLookup::Kind::kText;
  lookup.has_mask = true;
  lookup.split = InputLookup::Split::kCharacters;
  EXPECT_EQ(tokens(lookup, "x\xF0\x9F\x98\x80"), (Ids{3, 4}));
  EXPECT_EQ(tokens(lookup, "\xE2\x82x\xED\xA0\x80"), (Ids{2, 3, 2, 2, 2}));
  EXPECT_EQ(tokens(lookup, "\xF0\x9F\x98x\xC3"), (Ids{2, 3, 2}));
}

}  // namespace
}  // namespace plimsoll::data
