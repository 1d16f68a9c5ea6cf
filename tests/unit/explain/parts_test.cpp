// The pieces under the parsers: the sieve, numbers, cleaning, counters.

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/format.h"
#include "explain/read/counters.h"
#include "explain/read/cursor.h"
#include "explain/read/document.h"
#include "explain/read/number.h"
#include "explain/read/patterns.h"
#include "explain/read/series_form.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

Document document_of(const std::vector<std::string>& lines) {
  std::vector<KeptSegment> segments;
  for (const std::string& line : lines) {
    segments.push_back({static_cast<int64_t>(segments.size()) + 1, 0, true, line});
  }
  return Document(segments);
}

TEST(Document, OfNothing) {
  const Document document = document_of({});
  EXPECT_EQ(document.line_count(), 0u);
  EXPECT_EQ(document.line_index(7), 0u);
  EXPECT_EQ(document.number(0), 0);
  EXPECT_EQ(document.start(0), 0u);
  EXPECT_EQ(document.line(0), "");
  EXPECT_FALSE(document.is_quiet(0));
  EXPECT_EQ(document.record_start(0), 0u);
  EXPECT_EQ(document.quote(0), "");
}

TEST(SeriesForm, IsALineWithoutItsNumbers) {
  EXPECT_EQ(series_form("Tried to allocate 2.00 GiB on GPU 0"),
            series_form("Tried to allocate 640 MiB on GPU 11"));
  EXPECT_EQ(series_form("InUse at 7f00950000 of size 1280"),
            series_form("InUse at 0x11 of size 7.5MiB"));
  EXPECT_NE(series_form("step 4 failed"), series_form("step 4 done"));
  EXPECT_NE(series_form("step 4"), series_form("step"));
  EXPECT_EQ(series_form(""), series_form(""));
}

TEST(Excerpt, KeepsALineThatCameOnceAmidAFlood) {
  Excerpt excerpt;
  constexpr int64_t kFlood = 20000;
  constexpr ClassMask kHits = mask_of(LineClass::kFailure);
  for (int64_t line = 1; line <= 2 * kFlood; ++line) {
    const std::string text = line == kFlood ? std::string("the one that matters")
                                            : fmt::format("request {} was refused", line);
    excerpt.add(line, 0, true, text, kHits);
  }
  const std::vector<KeptSegment> kept = excerpt.collect();
  const auto holds = [&kept](int64_t line) {
    return std::any_of(kept.begin(), kept.end(),
                       [line](const KeptSegment& segment) { return segment.line == line; });
  };
  EXPECT_TRUE(holds(1));
  EXPECT_TRUE(holds(kFlood));
  EXPECT_TRUE(holds(2 * kFlood));
  EXPECT_LT(kept.size(), 3000u);
  EXPECT_EQ(excerpt.count(LineClass::kFailure), 2 * kFlood);
}

TEST(PatternScanner, FindsEveryPatternInAnyCase) {
  for (const Pattern& pattern : all_patterns()) {
    PatternScanner scanner(PatternAutomaton::shared());
    std::string text = "xx " + std::string(pattern.text) + " yy";
    for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    EXPECT_TRUE(scanner.scan(text) & mask_of(pattern.line_class)) << pattern.text;
  }
}

TEST(PatternScanner, FindsAPatternThatALineEndBreaks) {
  PatternScanner scanner(PatternAutomaton::shared());
  EXPECT_EQ(scanner.scan("CUDA out of mem"), 0u);
  EXPECT_TRUE(scanner.scan("ory.") & mask_of(LineClass::kFailure));
  EXPECT_EQ(scanner.scan(" nothing here"), 0u);
}

// Blocks are scanned at several places at once; one byte after another tells what that must find.
TEST(PatternScanner, FindsTheSameInBlocksOfAnyLength) {
  const std::span<const Pattern> patterns = all_patterns();
  uint64_t seed = 1;
  const auto random = [&seed](size_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(seed >> 33) % below;
  };
  std::string text;
  while (text.size() < 40000) {
    const std::string_view pattern = patterns[random(patterns.size())].text;
    text += pattern.substr(0, 1 + random(pattern.size()));
    constexpr std::string_view kBetween[] = {"", "", "\n", "\r\n", "\n\n\n\n\n\n\n\n", " ", "x"};
    text += kBetween[random(std::size(kBetween))];
  }
  PatternScanner slow(PatternAutomaton::shared());
  PatternScanner quick(PatternAutomaton::shared());
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view block = std::string_view(text).substr(begin, random(700));
    std::vector<PatternHit> expected;
    for (size_t i = 0; i < block.size(); ++i) {
      const ClassMask classes = slow.scan(block.substr(i, 1));
      const bool is_break = block[i] == '\n' || block[i] == '\r';
      if (classes != 0 && !is_break) expected.push_back({static_cast<uint32_t>(i), classes});
    }
    const std::span<const PatternHit> hits = quick.scan_block(block);
    ASSERT_EQ(std::vector<PatternHit>(hits.begin(), hits.end()), expected) << begin;
    begin += block.size();
  }
}

TEST(Numbers, HaveBinaryUnits) {
  const auto bytes = [](std::string_view text) {
    size_t at = 0;
    return read_bytes(text, at);
  };
  EXPECT_EQ(bytes("18.00MiB"), 18.0 * 1024 * 1024);
  EXPECT_EQ(bytes("41.2 GB"), 41.2 * 1024 * 1024 * 1024);
  EXPECT_EQ(bytes("184. MiB"), 184.0 * 1024 * 1024);
  EXPECT_EQ(bytes("2.46G"), 2.46 * 1024 * 1024 * 1024);
  EXPECT_EQ(bytes("4096 bytes"), 4096.0);
  EXPECT_EQ(bytes("512 Megawatt"), std::nullopt);
  EXPECT_EQ(bytes("12"), std::nullopt);
  EXPECT_EQ(bytes("GiB"), std::nullopt);
}

TEST(Numbers, AreReadInTheWaysOfOtherLanguages) {
  const auto read = [](std::string_view text) {
    size_t at = 0;
    const std::string number = read_number(text, at);
    return number + "|" + std::string(text.substr(at));
  };
  EXPECT_EQ(read("18.00MiB"), "18.00|MiB");
  EXPECT_EQ(read("1,024.00 MiB"), "1024.00| MiB");
  EXPECT_EQ(read("1.024,50 MiB"), "1024.50| MiB");
  EXPECT_EQ(read("1 024,00 MiB"), "1024.00| MiB");
  EXPECT_EQ(read("2,00 GiB"), "2.00| GiB");
  EXPECT_EQ(read("1,073,741,824 bytes"), "1073741824| bytes");
  EXPECT_EQ(read("1.073.741.824 bytes"), "1073741824| bytes");
  EXPECT_EQ(read("1'073'741'824"), "1073741824|");
  EXPECT_EQ(read("1_073_741_824"), "1073741824|");
  EXPECT_EQ(read("1.024 KiB"), "1.024| KiB");    // decimals
  EXPECT_EQ(read("3,512 MiB"), "3512| MiB");     // groups
  EXPECT_EQ(read("0 512 MiB"), "0| 512 MiB");    // two numbers
  EXPECT_EQ(read("17 512 MiB"), "17| 512 MiB");  // so are these
  EXPECT_EQ(read("184. MiB"), "184| MiB");
  EXPECT_EQ(read("12,3,4"), "12.3|,4");
  EXPECT_EQ(read("GiB"), "|GiB");
  EXPECT_EQ(read(""), "|");
}

TEST(Cleaning, TakesAwayWhatIsNoText) {
  EXPECT_EQ(clean_line("\x1b[1;31mred\x1b[0m [2mlost[0m"), "red lost");
  EXPECT_EQ(clean_line("a &lt;b&gt; &amp; \xef\xbc\x88"
                       "c\xef\xbc\x9a\xef\xbc\x89"),
            "a <b> & (c:)");
  EXPECT_EQ(clean_line("> quoted"), "quoted");
  EXPECT_EQ(clean_line("[rank5]: text"), "text");
  EXPECT_EQ(clean_line("out of mem" + std::string(40, ' ') + "ory"), "out of mem\x01ory");
  EXPECT_EQ(clean_line("\xff\xc3"), "??");
}

TEST(Documents, LookThroughWraps) {
  const Document document = document_of(
      {"RuntimeError: CUDA out of memory. Of the allocated memory of the whole device here 4",
       "0.30 GiB is allocated"});
  const size_t at = document.find("device here ");
  ASSERT_NE(at, std::string::npos);
  Cursor cursor(document, document.match("device here ", at));
  const std::optional<Size> size = cursor.size();
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->text, "40.30 GiB");
  EXPECT_EQ(document.number_at(document.find("allocated", at)), 2);
}

TEST(Documents, DoNotJoinRecords) {
  const Document document = document_of(
      {"2000-01-01 00:00:00.000000: W a/b/bfc_allocator.cc:271] trying to allocate 123456",
       "2000-01-01 00:00:00.000000: I a/b/cuda_driver.cc:1] next"});
  Cursor cursor(document, document.find("123456"));
  EXPECT_EQ(cursor.integer(), 123456);
  EXPECT_EQ(cursor.peek(), '\n');
}

TEST(Cursor, ReadsShapes) {
  const auto shape = [](const std::string& text) {
    const Document document = document_of({text});
    return Cursor(document, 0).shape();
  };
  EXPECT_EQ(shape("[3,3,512,1024]"), (std::vector<int64_t>{3, 3, 512, 1024}));
  EXPECT_EQ(shape("(172928, 32001)"), (std::vector<int64_t>{172928, 32001}));
  EXPECT_EQ(shape("(7,)"), (std::vector<int64_t>{7}));
  EXPECT_EQ(shape("[]"), std::vector<int64_t>{});
  EXPECT_EQ(shape("[3,n]"), std::nullopt);
  EXPECT_EQ(shape("[3,4"), std::nullopt);
}

TEST(ChunkCounter, ReadsAllErasOfTheDump) {
  ChunkCounter counter;
  counter.add(1,
              "Bin (256): \tTotal Chunks: 2, Chunks in use: 1 2.0KiB allocated for chunks. 1.0KiB "
              "client-requested for chunks. 1.0KiB in use in bin.");
  counter.add(2, "Chunk at 0x7000 of size 1280");
  counter.add(3, "Free at 0x7100 of size 500");
  counter.add(4, "InUse at 0x7200 next 3 of size 100");
  counter.add(5, "Free  at 7f3a18000000 of size 4000 next 19");
  counter.add(6,
              "  Size: 2.0KiB | Requested Size: 1B | in_use: 0, prev:   Size: 9.0MiB | in_use: 1");
  counter.add(7, "3 Chunks of size 512 totalling 1.5KiB");
  counter.add(8, "1 Chunks of size 4096 totalling 4.0KiB");
  const ChunkCounts& counts = counter.counts();
  EXPECT_EQ(counts.free_bytes, 500 + 4000 + 2048);
  EXPECT_EQ(counts.largest_free, 4000);
  EXPECT_EQ(counts.largest_free_line, 5);
  EXPECT_EQ(counts.used_bytes, 1380);
  EXPECT_EQ(counts.holder_size, 4096);
  EXPECT_EQ(counts.summary_chunks, 4);
  EXPECT_EQ(counts.bins_allocated - counts.bins_in_use, 1024);
}

TEST(MemorySeries, TellsGrowthFromAPlateau) {
  const auto trend = [](auto curve) {
    MemorySeries series;
    for (int i = 0; i < 1000; ++i) {
      series.add(i + 1,
                 "iteration " + std::to_string(i) + ": rss " + std::to_string(curve(i)) + " MB");
    }
    return series.trend();
  };
  EXPECT_TRUE(trend([](int i) { return 800 + i / 4 + i % 7; }).grows);
  EXPECT_FALSE(trend([](int) { return 900; }).grows);
  EXPECT_FALSE(trend([](int i) { return 900 + i % 20; }).grows);
  EXPECT_FALSE(trend([](int i) { return i < 50 ? 400 + 10 * i : 900 + i % 3; }).grows);
  EXPECT_FALSE(trend([](int i) { return 900 - i / 10; }).grows);
  const SeriesTrend linear = trend([](int i) { return 100 + i; });
  EXPECT_NEAR(linear.slope_bytes, 1048576.0, 1000.0);
}

}  // namespace
}  // namespace plimsoll::explain
