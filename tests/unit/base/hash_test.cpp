#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plimsoll {
namespace {

// Values of the xxHash project's own reference implementation.
TEST(Hash, IsXxHash64) {
  EXPECT_EQ(hash_text(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(hash_text("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(hash_text("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(hash_text("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

TEST(Hash, EveryLengthAndSeedGivesAnother) {
  std::set<uint64_t> seen;
  const std::string text(100, 'x');
  for (size_t length = 0; length <= text.size(); ++length) {
    seen.insert(hash_text(std::string_view(text).substr(0, length)));
    seen.insert(hash_text(std::string_view(text).substr(0, length), 1));
  }
  EXPECT_EQ(seen.size(), 202u);
}

TEST(HashStream, PiecesOfAnyLengthGiveTheHashOfAll) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * 7 % 26);
  for (size_t length = 0; length <= text.size(); ++length) {
    for (const size_t piece : {1, 7, 31, 32, 33, 100}) {
      HashStream stream(5);
      for (size_t at = 0; at < length; at += piece) {
        stream.add(std::string_view(text).substr(at, std::min(piece, length - at)));
      }
      ASSERT_EQ(stream.value(), hash_text(std::string_view(text).substr(0, length), 5));
    }
  }
}

TEST(Fingerprint, OrderAndBordersCount) {
  const auto of = [](auto... parts) {
    Fingerprint fingerprint;
    (fingerprint.add(parts), ...);
    return fingerprint.value();
  };
  using Text = std::string_view;
  EXPECT_EQ(of(Text("ab"), uint64_t{1}), of(Text("ab"), uint64_t{1}));
  EXPECT_NE(of(Text("ab"), Text("c")), of(Text("a"), Text("bc")));
  EXPECT_NE(of(uint64_t{1}, uint64_t{2}), of(uint64_t{2}, uint64_t{1}));
  EXPECT_NE(of(uint64_t{0}), of(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(to_hex(0x0123456789abcdefu), "0123456789abcdef");
}

}  // namespace
}  // namespace plimsoll
