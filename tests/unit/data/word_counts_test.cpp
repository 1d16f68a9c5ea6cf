#include "data/text/word_counts.h"

#include <gtest/gtest.h>

#include <map>

#include "unit/base/allocation_counter.h"

namespace plimsoll::data {
namespace {

std::map<std::string, int64_t> all(WordCounts& counts) {
  std::map<std::string, int64_t> words;
  std::string before;
  counts.for_each([&](std::string_view word, int64_t count) {
    EXPECT_TRUE(words.empty() || before < word);
    before = word;
    words.emplace(word, count);
  });
  return words;
}

TEST(WordCounts, AFewWords) {
  WordCounts counts("");
  for (const char* word : {"b", "a", "b", "", "b"}) counts.add(word);
  EXPECT_EQ(all(counts), (std::map<std::string, int64_t>{{"", 1}, {"a", 1}, {"b", 3}}));
}

// More than any table holds, so that runs are written and merged on several levels.
TEST(WordCounts, WordsInManyRuns) {
  WordCounts counts("/var/tmp");
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 90'000; ++i) {
    // Long words fill the table soon.
    std::string word = std::to_string(i * 7919 % 30'000) + std::string(900, 'x');
    counts.add(word);
    ++expected[std::move(word)];
  }
  EXPECT_EQ(all(counts), expected);
}

TEST(WordCounts, LongWords) {
  WordCounts counts("/var/tmp");
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string word = std::to_string(i % 90) + std::string(65'000, 'y');
    counts.add(word);
    ++expected[word];
  }
  EXPECT_EQ(all(counts), expected);
}

TEST(WordCounts, TheMostFrequentOnes) {
  const auto most = [](int64_t number) {
    WordCounts counts("");
    for (const char* word : {"d", "a", "c", "b", "c", "d", "d", "e"}) counts.add(word);
    return most_frequent(counts, number);
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(most(0), Words{});
  EXPECT_EQ(most(3), (Words{"d", "c", "a"}));
  EXPECT_EQ(most(10), (Words{"d", "c", "a", "b", "e"}));
}

// Where the table is enough and where runs are written, of words inside of a string and beyond.
TEST(WordCounts, PeakIsWhatIsHeldAndNotMuchMore) {
  for (const auto& [number, length, most] :
       {std::tuple{20'000, 9, 20'000}, std::tuple{30'000, 22, 100}, std::tuple{20'000, 22, 20'000},
        std::tuple{70'000, 22, 70'000}, std::tuple{60'000, 9, 60'000},
        std::tuple{40'000, 300, 40'000}, std::tuple{40'000, 300, 100}}) {
    SCOPED_TRACE(testing::Message() << number << " words of " << length << ", " << most << " kept");
    int64_t told = 0;
    const int64_t held = test::peak_of([&] {
      WordCounts counts("/var/tmp");
      for (int i = 0; i < number; ++i) {
        std::string word = std::to_string(i);
        word.insert(0, static_cast<size_t>(length) - word.size(), 'x');
        counts.add(word);
      }
      EXPECT_EQ(std::ssize(most_frequent(counts, most)), most);
      told = counts.peak_bytes();
    });
    EXPECT_LE(held, told);
    EXPECT_LE(told, held + held / 4 + (1 << 20));
  }
}

}  // namespace
}  // namespace plimsoll::data
