#include "exec/spill_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "base/error.h"
#include "toys/count_allocations.h"

namespace plimsoll::exec {
namespace {

constexpr int64_t kPage = 4096;

std::vector<SpillPiece> pieces_of(const SpillRegion& region, int64_t most) {
  std::vector<SpillPiece> pieces;
  RegionWalk walk;
  for (walk.start(region, kPage, most); !walk.ended(); walk.advance(region)) {
    pieces.push_back(walk.piece(region));
  }
  return pieces;
}

TEST(RegionWalk, TakesWholePagesOfWhatIsContiguous) {
  std::vector<std::byte> memory(20000);
  const SpillRegion region{true, memory.data(), 100, 4, {5, 1000}, {4000, 4}, {4000, 4}};
  const std::vector<SpillPiece> pieces = pieces_of(region, 2 * kPage);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].offset, 100);
  EXPECT_EQ(pieces[0].bytes, 2 * kPage - 100);
  EXPECT_EQ(pieces[1].offset, 2 * kPage);
  EXPECT_EQ(pieces[1].bytes, 2 * kPage);
  EXPECT_EQ(pieces[2].memory - memory.data(), 4 * kPage - 100);
  EXPECT_EQ(pieces[2].offset + pieces[2].bytes, region.file_end());
}

TEST(RegionWalk, TakesRowsThatLieApartOneByOne) {
  std::vector<std::byte> memory(1000);
  const SpillRegion region{false, memory.data(), 0, 4, {3, 10}, {40, 4}, {400, 4}};
  const std::vector<SpillPiece> pieces = pieces_of(region, kPage);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[2].memory - memory.data(), 80);
  EXPECT_EQ(pieces[2].offset, 800);
  EXPECT_EQ(pieces[2].bytes, 40);
  EXPECT_EQ(region.file_end(), 840);
}

TEST(RegionWalk, HasNothingWhereThereAreNoRows) {
  const SpillRegion region{false, nullptr, 0, 4, {0, 10}, {40, 4}, {40, 4}};
  EXPECT_TRUE(pieces_of(region, kPage).empty());
}

SpillQueue::Shape shape(int64_t bytes, size_t open = 1) {
  return {Bytes(bytes), kSpillBuffer, 2, open};
}

// One dimension of bytes.
size_t announce(SpillQueue& queue, bool to_file, std::byte* memory, int64_t offset, int64_t bytes) {
  queue.next_region() = {to_file, memory, offset, 1, {bytes}, {1}, {1}};
  return queue.announce();
}

TEST(SpillQueue, ReadsWhatStoresInFrontOfALoadWrote) {
  constexpr int64_t kBytes = 3 << 20;
  SpillQueue queue(::testing::TempDir(), shape(kBytes));
  std::vector<std::byte> memory(kBytes, std::byte{1});
  std::vector<std::byte> back(kBytes);
  for (int round = 0; round < 5; ++round) {
    std::ranges::fill(memory, static_cast<std::byte>(round + 1));
    const size_t store = announce(queue, true, memory.data(), 0, kBytes);
    const size_t load = announce(queue, false, back.data(), 0, kBytes);
    queue.begin(store);
    queue.wait(store);
    // The memory is free again: the store has its bytes.
    std::ranges::fill(memory, std::byte{0xEE});
    queue.begin(load);
    queue.wait(load);
    queue.finish();
    EXPECT_EQ(back, std::vector<std::byte>(kBytes, static_cast<std::byte>(round + 1)));
  }
  EXPECT_EQ(queue.bytes_moved().read, 5 * kBytes);
  EXPECT_EQ(queue.bytes_moved().written, 5 * kBytes);
}

TEST(SpillQueue, WritesNoMemoryBeforeTheLoadBegins) {
  SpillQueue queue(::testing::TempDir(), shape(1 << 20));
  std::vector<std::byte> memory(1 << 18, std::byte{7});
  queue.write(0, memory);
  std::ranges::fill(memory, std::byte{3});
  const size_t load = announce(queue, false, memory.data(), 0, 1 << 18);
  while (queue.bytes_moved().read == 0) std::this_thread::yield();
  EXPECT_EQ(memory, std::vector<std::byte>(memory.size(), std::byte{3}));
  queue.begin(load);
  queue.wait(load);
  queue.finish();
  EXPECT_EQ(memory, std::vector<std::byte>(memory.size(), std::byte{7}));
}

TEST(SpillQueue, KeepsTheRegionThatIsFilledInWhileOthersEnd) {
  SpillQueue queue(::testing::TempDir(), shape(1 << 20, 3));
  std::vector<std::byte> memory(1 << 16, std::byte{7});
  std::vector<std::byte> back(1 << 16);
  const size_t store = announce(queue, true, memory.data(), 0, 1 << 16);
  queue.begin(store);
  queue.wait(store);
  queue.next_region() = {false, back.data(), 0, 1, {1 << 16}, {1}, {1}};
  queue.finish();  // the store is written now, and its place free
  const size_t load = queue.announce();
  queue.begin(load);
  queue.wait(load);
  queue.finish();
  EXPECT_EQ(back, memory);
}

TEST(SpillQueue, ForgetsWhatIsAbandoned) {
  SpillQueue queue(::testing::TempDir(), shape(8 << 20, 3));
  std::vector<std::byte> memory(8 << 20, std::byte{7});
  queue.write(0, memory);
  for (int round = 0; round < 20; ++round) {
    queue.begin(announce(queue, false, memory.data(), 0, 4 << 20));
    queue.begin(announce(queue, true, memory.data() + (4 << 20), 4 << 20, 4 << 20));
    announce(queue, false, memory.data(), 1 << 20, 1 << 20);
    queue.abandon();
  }
  std::vector<std::byte> back(100);
  queue.read(12345, back);
  EXPECT_EQ(back, std::vector<std::byte>(100, std::byte{7}));
}

TEST(SpillQueue, NamesTheFolderThatHasNoRoom) {
  try {
    SpillQueue queue(::testing::TempDir(), shape(int64_t{1} << 60));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("--spill-dir"), std::string::npos);
  }
}

// Transfers of random regions, begun and waited for at random, announced as far ahead as there is
// room, against the same copies done at once.
TEST(SpillQueue, IsAsIfEachTransferWereDoneAtOnce) {
  constexpr int64_t kFile = 1 << 19;
  constexpr size_t kOpen = 4;
  struct Transfer {
    SpillRegion region;
    size_t name = 0;
    std::vector<std::byte> memory;    // its own
    std::vector<std::byte> expected;  // of a load
  };
  std::mt19937 random(5);
  const auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % most); };
  SpillQueue queue(::testing::TempDir(), shape(kFile, kOpen));
  std::vector<std::byte> file(kFile);
  queue.write(0, file);
  for (int run = 0; run < 20; ++run) {
    std::deque<Transfer> all(200);
    for (Transfer& t : all) {
      const int64_t row = 1 + draw(draw(2) == 0 ? 100 : 20000);
      const int64_t rows = 1 + draw(4);
      const int64_t gap = draw(2) == 0 ? 0 : draw(9000);
      const int64_t extent = rows * (row + gap);
      t.memory.resize(static_cast<size_t>(rows * row));
      for (std::byte& byte : t.memory) byte = static_cast<std::byte>(random());
      t.region = {draw(2) == 0, t.memory.data(), draw(kFile - extent), 1,
                  {rows, row},  {row, 1},        {row + gap, 1}};
    }
    size_t announced = 0;
    size_t begun = 0;
    std::vector<size_t> open;
    while (begun < all.size() || !open.empty()) {
      while (announced < all.size() && (announced == begun || queue.has_room())) {
        queue.next_region() = all[announced].region;
        all[announced++].name = queue.announce();
      }
      if (begun < all.size() && open.size() < kOpen && draw(3) > 0) {
        Transfer& t = all[begun];
        // What is under way elsewhere must not be written over, nor be read half written.
        const bool meets = std::ranges::any_of(open, [&](size_t o) {
          return all[o].region.offset < t.region.file_end() &&
                 t.region.offset < all[o].region.file_end();
        });
        if (!meets) {
          for (int64_t r = 0; r < t.region.rows[0]; ++r) {
            std::byte* there = file.data() + t.region.offset + r * t.region.file_strides[0];
            std::byte* here = t.memory.data() + r * t.region.rows[1];
            const auto bytes = static_cast<size_t>(t.region.rows[1]);
            if (t.region.to_file) {
              std::memcpy(there, here, bytes);
            } else {
              t.expected.insert(t.expected.end(), there, there + bytes);
            }
          }
          queue.begin(t.name);
          open.push_back(begun++);
          continue;
        }
      }
      if (open.empty()) continue;
      const auto at = open.begin() + draw(std::ssize(open));
      Transfer& t = all[*at];
      queue.wait(t.name);
      if (t.region.to_file) {
        std::ranges::fill(t.memory, std::byte{0xEE});
      } else {
        ASSERT_EQ(t.memory, t.expected);
      }
      open.erase(at);
    }
    queue.finish();
    std::vector<std::byte> whole(kFile);
    queue.read(0, whole);
    ASSERT_EQ(whole, file);
  }
}

TEST(SpillQueue, AllocatesNothing) {
  SpillQueue queue(::testing::TempDir(), shape(4 << 20, 2));
  std::vector<std::byte> memory(4 << 20);
  const SpillRegion out{true, memory.data(), 0, 1, {4, 1 << 20}, {1 << 20, 1}, {1 << 20, 1}};
  const SpillRegion in{false, memory.data(), 100, 1, {3, 1000}, {1000, 1}, {1 << 20, 1}};
  const int64_t before = toys::allocation_count();
  for (int round = 0; round < 10; ++round) {
    queue.next_region() = out;
    const size_t store = queue.announce();
    queue.next_region() = in;
    const size_t load = queue.announce();
    queue.begin(store);
    queue.wait(store);
    queue.begin(load);
    queue.wait(load);
    queue.finish();
  }
  EXPECT_EQ(toys::allocation_count(), before);
}

}  // namespace
}  // namespace plimsoll::exec
