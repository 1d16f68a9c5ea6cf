// Readings of the kernel's files: processes, trees, maps, its log, the groups around.

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "unit/base/temporary_folder.h"
#include "watch/capture.h"
#include "watch/measure/command_tree.h"
#include "watch/measure/group.h"
#include "watch/measure/kernel_file.h"
#include "watch/measure/kernel_log.h"
#include "watch/measure/process.h"

namespace plimsoll::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeSystem {
 public:
  const std::string& root() const { return folder_.path(); }
  void write(const std::string& path, const std::string& text) const {
    folder_.write(path.substr(1), text);
  }
  void process(int pid, int parent, const std::string& name, int started = 12345) const {
    write("/proc/" + std::to_string(pid) + "/stat",
          std::to_string(pid) + " (" + name + ") S " + std::to_string(parent) +
              " 1 1 0 -1 4194560 500 0 7 0 250 50 0 0 20 0 3 0 " + std::to_string(started) +
              " 1000000 2000 0 0\n");
    write("/proc/" + std::to_string(pid) + "/status",
          "Name:\tx\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\nRssAnon:\t 1024 kB\nRssFile:\t 768 "
          "kB\nRssShmem:\t 256 kB\nVmPTE:\t 44 kB\nVmSwap:\t 12 kB\n");
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(ProcessReader, ReadsWhatTheKernelWrites) {
  FakeSystem system;
  system.process(42, 7, "a (strange) name");
  ProcessReader reader(system.root());
  const std::optional<ProcessReading> reading = reader.read(42);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->name, "a (strange) name");
  EXPECT_EQ(reading->parent, 7);
  EXPECT_EQ(reading->state, 'S');
  EXPECT_EQ(reading->resident, 2048 << 10);
  EXPECT_EQ(reading->peak_resident, 4096 << 10);
  EXPECT_EQ(reading->anonymous, 1024 << 10);
  EXPECT_EQ(reading->shared, 256 << 10);
  EXPECT_EQ(reading->swapped, 12 << 10);
  EXPECT_EQ(reading->page_tables, 44 << 10);
  EXPECT_EQ(reading->threads, 3);
  EXPECT_EQ(reading->major_faults, 7);
  EXPECT_EQ(reading->minor_faults, 500);
  EXPECT_GT(reading->cpu_seconds, 0);
}

TEST(ProcessReader, AProcessThatIsGoneIsNothing) {
  FakeSystem system;
  ProcessReader reader(system.root());
  EXPECT_FALSE(reader.read(42));
  EXPECT_FALSE(reader.proportional(42));
  EXPECT_FALSE(reader.open_files(42));
}

TEST(ProcessReader, FindsATreeWhateverTheOrderOfNumbers) {
  FakeSystem system;
  system.process(10, 1, "main");
  system.process(5, 10, "child with a smaller number");
  system.process(30, 5, "grandchild");
  system.process(11, 1, "a stranger");
  system.process(31, 11, "the stranger's child");
  ProcessReader reader(system.root());
  EXPECT_THAT(with_descendants(reader.links(), {10}), ElementsAre(5, 10, 30));
  EXPECT_THAT(with_descendants(reader.links(), {99}), ElementsAre(99));
}

// What numbers that are given anew between two looks make of a tree.
TEST(ProcessReader, ParentsThatGoInCirclesAreFoundOnce) {
  FakeSystem system;
  system.process(10, 30, "main");
  system.process(5, 10, "child");
  system.process(30, 5, "grandchild, and parent of the first");
  system.process(7, 7, "its own parent");
  ProcessReader reader(system.root());
  EXPECT_THAT(with_descendants(reader.links(), {10}), ElementsAre(5, 10, 30));
  EXPECT_THAT(with_descendants(reader.links(), {7}), ElementsAre(7));
}

TEST(ProcessStat, IsReadWhateverTheProgramCallsItself) {
  for (const char* name : {"a b", "x) S 1 (y", ")", "(", "", "line\nend) R 9", "1 2 3"}) {
    FakeSystem system;
    system.process(42, 7, name);
    ProcessReader reader(system.root());
    const std::vector<ProcessLink> links = reader.links();
    ASSERT_EQ(links.size(), 1u) << name;
    EXPECT_EQ(links[0].pid, 42) << name;
    EXPECT_EQ(links[0].parent, 7) << name;
    EXPECT_EQ(links[0].started, 12345) << name;
    EXPECT_EQ(reader.read(42)->name, name);
  }
  for (const char* line : {"", "42", "42 (", "42 (x", "42 (x)", "42 (x) S", "42 (x) S 7 no"}) {
    EXPECT_FALSE(parse_process_stat(line)) << line;
  }
}

TEST(CommandTree, HasNoProcessesThatTheCommandDidNotStart) {
  FakeSystem system;
  const auto environment = [&](int pid, const std::string& mark) {
    system.write("/proc/" + std::to_string(pid) + "/environ",
                 std::string("PATH=/bin\0", 10) + "PLIMSOLL_WATCH=" + mark + '\0');
  };
  system.process(10, 1, "the watcher");
  system.process(20, 10, "the command");
  system.process(21, 20, "its child");
  system.process(30, 10, "was a child of the shell that became the watcher");
  system.process(31, 30, "and a child of that");
  environment(30, "9-1");
  system.process(40, 10, "an orphan of the command");
  environment(40, "8-1:10-77:41-2");
  system.process(50, 10, "an orphan of who knows whom");
  CommandTree tree(20, 10, "10-77", system.root());
  EXPECT_THAT(tree.find(), ElementsAre(20, 21, 40));
  // Seen below the command once, it is the command's wherever it goes.
  system.process(21, 10, "its child, an orphan now");
  EXPECT_THAT(tree.find(), ElementsAre(20, 21, 40));
  // Numbers that are given anew are others.
  system.process(20, 1, "a stranger", 99999);
  system.process(21, 10, "another", 99999);
  EXPECT_THAT(tree.find(), ElementsAre(40));
}

TEST(ProcessReader, ReadsLimitsAndUnlimited) {
  FakeSystem system;
  system.write("/proc/9/limits",
               "Limit                     Soft Limit           Hard Limit           Units\n"
               "Max address space         4294967296           unlimited            bytes\n"
               "Max open files            1024                 4096                 files\n");
  ProcessReader reader(system.root());
  EXPECT_EQ(reader.file_limit(9), 1024);
  EXPECT_EQ(reader.address_space_limit(9), int64_t{4} << 30);
  system.write("/proc/8/limits", "Max address space         unlimited            unlimited\n");
  EXPECT_FALSE(reader.address_space_limit(8));
}

TEST(ProcessReader, ReadsItself) {
  ProcessReader reader;
  const std::optional<ProcessReading> reading = reader.read(::getpid());
  ASSERT_TRUE(reading);
  EXPECT_GT(reading->resident, 0);
  EXPECT_GT(reader.open_files(::getpid()).value_or(0), 2);
  const std::optional<int64_t> proportional = reader.proportional(::getpid());
  ASSERT_TRUE(proportional);
  EXPECT_LE(*proportional, reading->resident + (1 << 20));
}

TEST(MapReader, SortsMappingsByWhatTheyAreFor) {
  MapReader reader;
  const auto mapping = [&](const char* header, const char* kilobytes) {
    reader.line(header);
    reader.line("Size:               9999 kB");
    reader.line("Rss:  " + std::string(kilobytes) + " kB");
    reader.line("VmFlags: rd wr mr mw me ac sd");
  };
  mapping("5581c0000000-5581c0100000 rw-p 00000000 00:00 0                          [heap]", "10");
  mapping("7f0000000000-7f0080000000 rw-p 00000000 00:00 0 ", "2000000");
  mapping("7f1000000000-7f1000100000 r-xp 00000000 08:01 77    /usr/lib/libx.so.1", "30");
  mapping("7f2000000000-7f2000100000 rw-s 00000000 00:18 5     /dev/shm/torch_1 (deleted)", "40");
  mapping("7f3000000000-7f3000100000 r--s 00000000 08:01 78    /data/train.npy", "50");
  mapping("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]", "60");
  mapping("7f4000000000-7f4000100000 rw-s 00000000 00:05 9     /dev/nvidia0", "70");
  mapping("7f5000000000-7f5000100000 ---p 00000000 00:00 0 ", "0");
  MapKinds kinds;
  std::vector<Mapping> mappings;
  reader.finish(kinds, mappings);
  EXPECT_EQ(kinds.heap, 10 << 10);
  EXPECT_EQ(kinds.anonymous, int64_t{2000000} << 10);
  EXPECT_EQ(kinds.binaries, 30 << 10);
  EXPECT_EQ(kinds.shared, 40 << 10);
  EXPECT_EQ(kinds.files, 50 << 10);
  EXPECT_EQ(kinds.stacks, 60 << 10);
  EXPECT_EQ(kinds.devices, 70 << 10);
  ASSERT_EQ(mappings.size(), 7u);
  EXPECT_EQ(mappings.front().name, "anonymous");
  EXPECT_EQ(mappings.front().extent, int64_t{1} << 31);
}

TEST(MapReader, FiguresBeyondAllSenseStayBounded) {
  MapReader reader;
  for (int i = 0; i < 1000; ++i) {
    reader.line("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ");
    reader.line("Rss:        9223372036854775807 kB");
  }
  MapKinds kinds;
  std::vector<Mapping> mappings;
  reader.finish(kinds, mappings);
  ASSERT_FALSE(mappings.empty());
  EXPECT_GT(mappings.front().resident, 0);
  EXPECT_GT(kinds.anonymous, 0);
}

TEST(ProcessReader, FiguresBeyondAllSenseStayBounded) {
  FakeSystem system;
  system.process(42, 7, "a");
  system.write("/proc/42/status", "VmRSS:\t9223372036854775807 kB\nVmHWM:\t-5 kB\n");
  ProcessReader reader(system.root());
  const std::optional<ProcessReading> reading = reader.read_memory(42);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->resident, kMostMemory);
  EXPECT_EQ(reading->peak_resident, 0);
}

TEST(Capture, TakesTheLargestProcessFirst) {
  FakeSystem system;
  system.process(10, 1, "small");
  system.process(11, 10, "large");
  system.write("/proc/11/status", "VmRSS:\t 90000 kB\nRssAnon:\t 80000 kB\n");
  system.write("/proc/11/smaps", "7f00-7f10 rw-p 00000000 00:00 0    [heap]\nRss:   500 kB\n");
  Capture capture;
  capture_processes({10, 11, 12}, capture, system.root());
  EXPECT_EQ(capture.process_count, 2);
  ASSERT_EQ(capture.processes.size(), 2u);
  EXPECT_EQ(capture.processes.front().name, "large");
  EXPECT_EQ(capture.kinds.heap, 500 << 10);
}

TEST(OomRecord, TwoLinesAreOneEvent) {
  std::vector<OomRecord> records;
  read_oom_record(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
      "oom_memcg=/plimsoll-watch-7,task_memcg=/plimsoll-watch-7,task=python3,pid=4711,uid=0",
      records);
  read_oom_record(
      "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9000kB, "
      "anon-rss:2048kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:84kB oom_score_adj:0",
      records);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].pid, 4711);
  EXPECT_EQ(records[0].name, "python3");
  EXPECT_TRUE(records[0].in_group);
  EXPECT_EQ(records[0].group, "/plimsoll-watch-7");
  EXPECT_EQ(records[0].anonymous, 2048 << 10);
  EXPECT_THAT(records[0].text, HasSubstr("Killed process 4711"));
}

TEST(OomRecord, AGlobalOneIsNotAGroups) {
  std::vector<OomRecord> records;
  read_oom_record("Out of memory: Killed process 12 (a b) total-vm:1kB, anon-rss:3kB", records);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_FALSE(records[0].in_group);
  EXPECT_EQ(records[0].name, "a b");
  read_oom_record("usb 1-1: new device", records);
  EXPECT_EQ(records.size(), 1u);
}

TEST(Ancestors, TheSmallestLimitIsTheOneThatBinds) {
  FakeSystem system;
  system.write("/proc/self/cgroup", "0::/a/b\n");
  system.write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  system.write("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  system.write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  system.write("/sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n");
  system.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  system.write("/sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n");
  const AncestorReading reading = read_ancestors(system.root());
  EXPECT_EQ(reading.limit, int64_t{1} << 30);
  EXPECT_EQ(reading.limit_hits, 12);
  EXPECT_EQ(reading.oom_kills, 2);
  EXPECT_THAT(reading.limit_folder, HasSubstr("/sys/fs/cgroup/a"));
}

}  // namespace
}  // namespace plimsoll::watch
