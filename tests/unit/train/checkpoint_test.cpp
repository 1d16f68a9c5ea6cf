#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll::train {
namespace {

TEST(CheckpointSchedule, IsSpelledWithAUnit) {
  EXPECT_EQ(parse_schedule("epoch"), (CheckpointSchedule{1, 0, 0}));
  EXPECT_EQ(parse_schedule("3 epochs"), (CheckpointSchedule{3, 0, 0}));
  EXPECT_EQ(parse_schedule("500steps"), (CheckpointSchedule{0, 500, 0}));
  EXPECT_EQ(parse_schedule("90s"), (CheckpointSchedule{0, 0, 90}));
  EXPECT_EQ(parse_schedule("1.5min"), (CheckpointSchedule{0, 0, 90}));
  EXPECT_EQ(parse_schedule("2h"), (CheckpointSchedule{0, 0, 7200}));
}

TEST(CheckpointSchedule, AnythingElseIsRefused) {
  for (const char* text : {"", "5", "0steps", "-1epoch", "5cows", "0.5steps", "1.2.3s", "inf s"}) {
    EXPECT_THROW(parse_schedule(text), Error) << text;
  }
}

TEST(CheckpointHead, SurvivesItsText) {
  CheckpointHead head{{17, 2, 5}, 64,        1000,   ~uint64_t{0}, data::Shuffle::kBlock,
                      "bf16",     "slice:4", "00ff", "set1",       2,
                      7,          {}};
  EXPECT_EQ(parse_checkpoint_head(to_config(head)), head);
  head.callbacks = {0.1 + 0.2, 3, 2, -1e-300, 4, 1, true};
  EXPECT_EQ(parse_checkpoint_head(to_config(head)), head);
}

TEST(CheckpointHead, OfBeforeThereWereBlocksAndCallbacks) {
  CheckpointHead head;
  const layers::Config now = to_config(head);
  layers::Config::Object old;
  for (const auto& [key, value] : now.as_object()) {
    if (key == "callbacks" || key == "precision" || key == "batch_norm") continue;
    old.emplace_back(key, key == "shuffle" ? layers::Config(false) : value);
  }
  head.shuffle = data::Shuffle::kNone;
  EXPECT_EQ(parse_checkpoint_head(old), head);
}

class OneTensor final : public TensorSource {
 public:
  explicit OneTensor(float value) : value_(value), infos_{{"a/kernel", DType::kFloat32, {1}}} {}
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t, int64_t begin, std::span<std::byte> to) override {
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&value_) + begin, to.size());
  }

 private:
  float value_;
  std::vector<TensorInfo> infos_;
};

class CheckpointFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(path_); }

  void write(CheckpointFolder& folder, int64_t step) {
    OneTensor tensor(static_cast<float>(step));
    CheckpointHead head;
    head.position.steps = step;
    folder.write(head, "plan of " + std::to_string(step), tensor);
  }
  static void overwrite(const std::string& path, const std::string& content) {
    File::create(path).write_at(0, std::as_bytes(std::span(content)));
  }
  static float value_of(FoundCheckpoint& found) {
    float value = 0;
    found.tensors->read(0, 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  const std::string path_ = ::testing::TempDir() + "checkpoint_folder_test";
  std::vector<std::string> damaged_;
};

TEST_F(CheckpointFolderTest, KeepsTheLastOnes) {
  CheckpointFolder folder(path_, 2);
  EXPECT_FALSE(folder.newest(&damaged_));
  for (int64_t step : {1, 5, 20, 100}) write(folder, step);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"step-000000000000020.ckpt", "step-000000000000100.ckpt"}));
  auto found = folder.newest(&damaged_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->head.position.steps, 100);
  EXPECT_EQ(value_of(*found), 100);
}

// Any change of a byte that means something is noticed, and so is any shorter file.
TEST_F(CheckpointFolderTest, DamageIsNoticed) {
  CheckpointFolder folder(path_, 3);
  write(folder, 1);
  write(folder, 2);
  const std::string path = folder.newest(&damaged_)->path;
  const std::string good = read_text_file(path, 1 << 20);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    overwrite(path, bad);
    damaged_.clear();
    auto found = folder.newest(&damaged_);
    ASSERT_TRUE(found);
    if (!damaged_.empty()) {
      EXPECT_EQ(found->head.position.steps, 1);
    } else {  // a byte that means nothing: dates and the like
      EXPECT_EQ(found->head.position.steps, 2);
      EXPECT_EQ(value_of(*found), 2);
    }
  }
  for (size_t size = 0; size < good.size(); size += 7) {
    overwrite(path, good.substr(0, size));
    damaged_.clear();
    EXPECT_EQ(folder.newest(&damaged_)->head.position.steps, 1);
    EXPECT_EQ(damaged_.size(), 1);
  }
}

TEST_F(CheckpointFolderTest, OtherFilesAreLeftAlone) {
  CheckpointFolder folder(path_, 1);
  write_text_file(path_ + "/notes.txt", "mine");
  write_text_file(path_ + "/step-7.ckpt", "mine");
  for (int64_t step : {1, 2, 3}) write(folder, step);
  EXPECT_EQ(read_text_file(path_ + "/notes.txt", 100), "mine");
  EXPECT_EQ(read_text_file(path_ + "/step-7.ckpt", 100), "mine");
  EXPECT_EQ(folder.newest(&damaged_)->head.position.steps, 3);
  EXPECT_TRUE(damaged_.empty());
}

}  // namespace
}  // namespace plimsoll::train
