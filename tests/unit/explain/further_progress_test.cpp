// Progress of any form after a refusal, and what looks like it.

#include "explain/read/further_progress.h"

#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

constexpr const char* kRefusal =
    "RuntimeError: CUDA out of memory. Tried to allocate 392.00 MiB (GPU 0; 10.76 GiB total "
    "capacity; 9.11 GiB already allocated; 187.56 MiB free; 9.58 GiB reserved in total by "
    "PyTorch)";

std::vector<FurtherProgress> read_all(const std::vector<std::string>& lines) {
  FurtherProgressReader reader;
  reader.refuse(1);
  int64_t line = 1;
  for (const std::string& text : lines) reader.read(++line, text);
  return reader.found();
}

TEST(LineForm, HoldsFiguresAndLeavesOutWhatIsNone) {
  const LineForm form =
      form_of("10:11:12.131 2024-05-01 it 12/500 loss 0.25 mem 9.6GB 0x7f2a conv2d 81ms/step 1e-4");
  ASSERT_EQ(form.figures.size(), 5u);
  EXPECT_EQ(form.figures[0], (Figure{12, false, false, false}));
  EXPECT_EQ(form.figures[1], (Figure{500, false, false, false}));
  EXPECT_EQ(form.figures[2], (Figure{0.25, true, false, false}));
  EXPECT_EQ(form.figures[3], (Figure{81, false, true, false}));
  EXPECT_EQ(form.figures[4], (Figure{1e-4, true, false, false}));
}

TEST(LineForm, IsTheSameWhateverTheFiguresAndBars) {
  EXPECT_EQ(form_of("smp 100 [===>    ] ppl 9.1").words, form_of("smp 7 [======>] ppl 12").words);
  EXPECT_NE(form_of("smp 100 ppl 9.1").words, form_of("smp 100 acc 9.1").words);
}

TEST(FurtherProgress, NeedsNoVocabulary) {
  const auto found =
      read_all({"<007> q 2.00", "<014> q 1.90", "note", "<021> q 1.95", "<028> q 1.7"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (FurtherProgress{1, 6, "<028> q 1.7"}));
}

TEST(FurtherProgress, IsMoreThanACountOrAFigure) {
  EXPECT_TRUE(read_all({"task 1", "task 2", "task 3", "task 4", "task 5"}).empty());
  EXPECT_TRUE(read_all({"a 1 2.0", "a 1 1.9", "a 1 1.8", "a 1 1.7", "a 1 1.6"}).empty());
  EXPECT_TRUE(read_all({"a 4 2.0", "a 3 1.9", "a 2 1.8", "a 1 1.9", "a 0 1.6"}).empty());
  EXPECT_TRUE(read_all({"1. size 4.0G", "2. size 3.1G", "3. size 2.9G", "4. size 1.0G"}).empty());
}

TEST(FurtherProgress, IsNotWhatADyingProgramPrints) {
  EXPECT_TRUE(read_all({"again 1 in 0.5 s", "again 2 in 1.0 s", "again 3 in 2.0 s",
                        "again 4 in 4.0 s", "again 5 in 8.0 s"})
                  .empty());
  EXPECT_TRUE(read_all({"retry 1 of 9, loss 0.5", "retry 2 of 9, loss 0.4",
                        "retry 3 of 9, loss 0.2", "retry 4 of 9, loss 0.1"})
                  .empty());
  EXPECT_TRUE(read_all({"t 1700000001 x 0.2", "t 1700000002 x 0.1", "t 1700000003 x 0.4",
                        "t 1700000004 x 0.3"})
                  .empty());
}

TEST(FurtherProgress, IsNoListOfThings) {
  EXPECT_TRUE(
      read_all({"GPU 0: 35.1 C", "GPU 1: 36.2 C", "GPU 2: 33.0 C", "GPU 3: 31.5 C"}).empty());
  EXPECT_TRUE(read_all({"layer.0.weight mean 0.2", "layer.1.weight mean 0.1",
                        "layer.2.weight mean 0.3", "layer.3.weight mean 0.2"})
                  .empty());
  EXPECT_TRUE(
      read_all({"USER PID %CPU %MEM COMMAND", "root 12 99.1 1.2 train", "root 13 98.1 1.1 train",
                "root 14 97.9 1.3 train", "root 15 99.0 1.2 train"})
          .empty());
}

TEST(FurtherProgress, BeginsAnewAfterEachRefusal) {
  FurtherProgressReader reader;
  reader.refuse(10);
  reader.read(11, "i 1 l 0.5");
  reader.read(12, "i 2 l 0.4");
  reader.refuse(13);
  reader.read(14, "i 3 l 0.3");
  reader.read(15, "i 4 l 0.2");
  EXPECT_TRUE(reader.found().empty());
  reader.read(16, "i 5 l 0.3");
  reader.read(17, "i 6 l 0.1");
  ASSERT_EQ(reader.found().size(), 1u);
  EXPECT_EQ(reader.found()[0].after, 13);
}

TEST(FurtherProgress, IsQuotedWhereThePlaceOfTheFailureIsTold) {
  std::string log = std::string(kRefusal) + "\n";
  for (int i = 1; i <= 6; ++i) {
    log += "é" + std::string(120, '.') + " round " + std::to_string(i) + " q 0." +
           std::to_string(9 - i) + "\n";
  }
  const Explanation explanation = explain_text(log);
  EXPECT_EQ(explanation.verdict, Verdict::kWarning);
  EXPECT_TRUE(explanation.survived);
  EXPECT_NE(explanation.when_text.find("(line 5)"), std::string::npos) << explanation.when_text;
}

TEST(FurtherProgress, StaysBoundedHoweverOftenSomethingIsRefused) {
  FurtherProgressReader reader;
  int64_t line = 0;
  for (int i = 0; i < 2000; ++i) {
    reader.refuse(++line);
    for (int k = 0; k < 4; ++k) reader.read(++line, "i " + std::to_string(k) + " l 0." + "4321"[k]);
  }
  EXPECT_LE(reader.found().size(), 256u);
  EXPECT_EQ(reader.found().back().line, line);
}

}  // namespace
}  // namespace plimsoll::explain
