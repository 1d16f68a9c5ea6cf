#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::TemporaryFolder;

// Anonymous pages without huge pages, given back at the end.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    data_ = static_cast<char*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  Pages(const Pages&) = delete;
  ~Pages() { ::munmap(data_, bytes_); }
  char* data() { return data_; }

 private:
  char* data_;
  size_t bytes_;
};

TEST(ProcessMemory, ReadsTheKernelsLines) {
  const TemporaryFolder root;
  root.write("proc/self/status",
             "Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1500 kB\nRssAnon:\t     900 kB\n"
             "RssFile:\t     500 kB\nRssShmem:\t     100 kB\nVmPTE:\t      44 kB\n"
             "VmSwap:\t       8 kB\nThreads:\t3\n");
  const ProcessMemory memory = read_process_memory(root.path());
  EXPECT_EQ(memory.peak_resident, 2000_KiB);
  EXPECT_EQ(memory.resident, 1500_KiB);
  EXPECT_EQ(memory.anonymous + memory.file + memory.shared, memory.resident);
  EXPECT_EQ(memory.page_tables, 44_KiB);
  EXPECT_EQ(memory.swapped, 8_KiB);
  EXPECT_EQ(memory.kernel_stacks, 48_KiB);
  EXPECT_EQ(memory.peak(), 2092_KiB);
  EXPECT_EQ(memory.now(), 1592_KiB);
  root.write("proc/self/status", "Name:\tzombie\n");
  test::expect_error(ErrorKind::kIo, "VmHWM", [&] { read_process_memory(root.path()); });
}

TEST(ProcessMemory, SeesWhatThisProcessTouches) {
  constexpr size_t kBytes = 32 << 20;
  const Bytes before = read_process_memory().anonymous;
  Pages pages(kBytes);
  std::memset(pages.data(), 1, kBytes);
  const ProcessMemory after = read_process_memory();
  // The kernel sums per-processor counters lazily: some hundred pages either way.
  EXPECT_NEAR(static_cast<double>((after.anonymous - before).count()), kBytes, 2 << 20);
  EXPECT_GE(process_memory_peak(), after.resident);
  EXPECT_EQ(read_process_memory_of(::getpid()).threads, after.threads);
}

TEST(ProcessMemory, CountsResidentPagesOfARange) {
  const auto page = static_cast<size_t>(page_size().count());
  Pages pages(page * 2000);
  EXPECT_EQ(resident_bytes(pages.data(), Bytes(static_cast<int64_t>(page) * 2000)), Bytes(0));
  pages.data()[3 * page] = 1;
  pages.data()[1999 * page + 5] = 1;
  const Bytes whole(static_cast<int64_t>(page) * 2000);
  EXPECT_EQ(resident_bytes(pages.data(), whole), page_size() * 2);
  const std::vector<bool> flags = resident_pages(pages.data(), whole);
  ASSERT_EQ(flags.size(), 2000u);
  EXPECT_TRUE(flags[3]);
  EXPECT_TRUE(flags[1999]);
  EXPECT_FALSE(flags[4]);
  // A range that begins and ends inside a page counts that page.
  EXPECT_EQ(resident_bytes(pages.data() + 3 * page + 10, Bytes(1)), page_size());
  EXPECT_TRUE(resident_pages(pages.data(), Bytes(0)).empty());
}

TEST(ProcessMemory, CountsFaults) {
  const PageFaults before = page_faults();
  Pages pages(1 << 20);
  std::memset(pages.data(), 1, 1 << 20);
  EXPECT_GE(page_faults().minor - before.minor, (1 << 20) / page_size().count());
}

TEST(ProcessMemory, WhatThisProcessMayUseIsAtMostTheMachines) {
  EXPECT_LE(memory_available_to_process(), physical_memory());
  EXPECT_GT(memory_available_to_process(), Bytes(0));
}

}  // namespace
}  // namespace plimsoll
