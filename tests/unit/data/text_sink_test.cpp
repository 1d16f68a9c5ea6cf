#include "data/text_sink.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/base/temporary_folder.h"

namespace plimsoll::data {
namespace {

using Form = TextSink::Form;

TEST(TextSink, Tables) {
  const test::TemporaryFolder folder;
  TextSink sink(Form::kCsv, folder / "p.csv", DType::kFloat32, 3, {2});
  const float rows[] = {0.1f, 2, std::numeric_limits<float>::infinity(), -3e-9f, 5, 6};
  sink.take(0, 0, 2, rows);
  sink.take(1, 0, 1, rows);              // another output
  EXPECT_EQ(folder.count_entries(), 1);  // under another name
  sink.take(0, 2, 1, rows + 4);
  sink.finish();
  EXPECT_EQ(folder.read(folder / "p.csv"), "y0,y1\n0.1,2\ninf,-3e-09\n5,6\n");
}

TEST(TextSink, JsonLines) {
  const test::TemporaryFolder folder;
  TextSink sink(Form::kJsonLines, folder / "p.jsonl", DType::kFloat32, 2, {2, 2});
  const float rows[] = {1, 2, 3, std::numeric_limits<float>::quiet_NaN(), 5, 6, 7, 0.5f};
  sink.take(0, 0, 1, rows);
  sink.take(0, 1, 1, rows + 4);
  sink.finish();
  EXPECT_EQ(folder.read(folder / "p.jsonl"),
            "{\"row\": 0, \"output\": [[1, 2], [3, null]]}\n"
            "{\"row\": 1, \"output\": [[5, 6], [7, 0.5]]}\n");
}

TEST(TextSink, ManyRowsLeaveInPieces) {
  const test::TemporaryFolder folder;
  constexpr int64_t kRows = 50'000;
  TextSink sink(Form::kCsv, folder / "p.csv", DType::kInt64, kRows, {});
  std::string expected = "y0\n";
  for (int64_t i = 0; i < kRows; ++i) {
    sink.take(0, i, 1, &i);
    expected += std::to_string(i) + "\n";
  }
  sink.finish();
  EXPECT_EQ(folder.read(folder / "p.csv"), expected);
}

}  // namespace
}  // namespace plimsoll::data
