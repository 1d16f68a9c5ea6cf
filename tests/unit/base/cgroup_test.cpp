#include "base/cgroup.h"

#include <gtest/gtest.h>

#include "base/process_memory.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::TemporaryFolder;

const char* kV1Mounts =
    "30 20 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:30 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "33 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

void write_v1(const TemporaryFolder& root) {
  root.write("proc/self/mountinfo", kV1Mounts);
  root.write("proc/self/cgroup", "4:memory:/jobs/a\n2:cpu,cpuacct:/jobs/a\n0::/\n");
  root.write("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
  const std::string memory = "sys/fs/cgroup/memory/";
  root.write(memory + "memory.limit_in_bytes", "9223372036854771712\n");
  root.write(memory + "jobs/memory.limit_in_bytes", "4194304\n");
  root.write(memory + "jobs/a/memory.limit_in_bytes", "8388608\n");
  root.write(memory + "jobs/a/memory.usage_in_bytes", "1000\n");
  root.write(memory + "jobs/a/memory.max_usage_in_bytes", "2000\n");
  root.write(memory + "jobs/a/memory.failcnt", "7\n");
  root.write(memory + "jobs/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/jobs/a/";
  root.write(cpu + "cpu.cfs_quota_us", "150000\n");
  root.write(cpu + "cpu.cfs_period_us", "100000\n");
}

TEST(Cgroup, ReadsVersion1WithTheTightestAncestor) {
  const TemporaryFolder root;
  write_v1(root);
  const CgroupMemory memory = read_cgroup_memory(root.path());
  EXPECT_EQ(to_string(memory.version), "v1");
  EXPECT_EQ(memory.path, root / "sys/fs/cgroup/memory/jobs/a");
  EXPECT_EQ(memory.limit, 4_MiB);
  EXPECT_EQ(memory.usage, Bytes(1000));
  EXPECT_EQ(memory.high_water, Bytes(2000));
  EXPECT_EQ(memory.oom_kills, 3);
  EXPECT_EQ(memory.limit_hits, 7);
  EXPECT_EQ(read_cgroup_cpu_quota(root.path()), 1.5);
  EXPECT_EQ(memory_available_to_process(root.path()), 4_MiB);
}

TEST(Cgroup, ReadsVersion2) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/user.slice/my\\job\n");
  root.write("proc/meminfo", "MemTotal:       16384 kB\n");
  root.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
  const std::string slice = "sys/fs/cgroup/user.slice/";
  root.write(slice + "memory.max", "max\n");
  root.write(slice + "cpu.max", "max 100000\n");
  root.write(slice + "my\\job/memory.max", "67108864\n");
  root.write(slice + "my\\job/memory.swap.max", "0\n");
  root.write(slice + "my\\job/memory.current", "5\n");
  root.write(slice + "my\\job/memory.peak", "6\n");
  root.write(slice + "my\\job/memory.events", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\n");
  root.write(slice + "my\\job/cpu.max", "50000 100000\n");
  const CgroupMemory memory = read_cgroup_memory(root.path());
  EXPECT_EQ(memory.version, CgroupVersion::kV2);
  EXPECT_EQ(memory.limit, 64_MiB);
  EXPECT_EQ(memory.swap_limit, Bytes(0));
  EXPECT_EQ(memory.usage, Bytes(5));
  EXPECT_EQ(memory.high_water, Bytes(6));
  EXPECT_EQ(memory.oom_kills, 1);
  EXPECT_EQ(memory.limit_hits, 12);
  EXPECT_EQ(read_cgroup_cpu_quota(root.path()), 0.5);
  EXPECT_EQ(memory_available_to_process(root.path()), 16_MiB);
}

TEST(Cgroup, ReadsWhatSlowsDownAndWhatIsLeft) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/slice/job\n");
  root.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n");
  root.write("proc/self/status",
             "VmHWM: 30720 kB\nVmRSS: 29696 kB\nRssAnon: 20480 kB\nRssFile: 9216 kB\n");
  root.write("proc/pressure/memory", "some avg10=9.00\nfull avg10=8.50 avg60=0.00 total=1\n");
  const std::string job = "sys/fs/cgroup/slice/job/";
  root.write(job + "memory.max", "104857600\n");
  root.write(job + "memory.high", "83886080\n");
  root.write(job + "memory.stat", "anon 31457280\nfile 999999999\nshmem 10485760\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).limit, 100_MiB);
  EXPECT_EQ(read_cgroup_memory(root.path()).high, 80_MiB);
  EXPECT_EQ(read_cgroup_memory(root.path()).left, 40_MiB);
  EXPECT_EQ(memory_available_to_process(root.path()), 80_MiB);
  EXPECT_EQ(memory_safe_for_process(root.path()), 60_MiB) << "its own 20 and the 40 that are left";
  EXPECT_EQ(read_memory_pressure(root.path()), 8.5) << "the machine's";
  root.write(job + "memory.pressure", "some avg10=40.00\nfull avg10=12.25 avg60=1.00 total=5\n");
  EXPECT_EQ(read_memory_pressure(root.path()), 12.25);
  // Others of the slice hold more than those of the job.
  root.write("sys/fs/cgroup/slice/memory.max", "209715200\n");
  root.write("sys/fs/cgroup/slice/memory.stat", "anon 199229440\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).left, 10_MiB);
  EXPECT_EQ(memory_safe_for_process(root.path()), 30_MiB);
  root.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 5120 kB\n");
  EXPECT_EQ(memory_safe_for_process(root.path()), 25_MiB) << "the machine has less left";
}

TEST(Cgroup, InAContainerTheMountedPartIsTheRoot) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo",
             "32 30 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  root.write("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).limit, 1_MiB);
  EXPECT_EQ(read_cgroup_memory(root.path()).path, root / "sys/fs/cgroup/memory/inner");
  root.write("proc/self/cgroup", "4:memory:/docker/abcdef\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).path, root / "sys/fs/cgroup/memory");
  root.write("proc/self/cgroup", "4:memory:/../../other\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).path, root / "sys/fs/cgroup/memory");
}

TEST(Cgroup, NothingIsReadWhereNothingIs) {
  const TemporaryFolder root;
  EXPECT_EQ(read_cgroup_memory(root.path()), CgroupMemory());
  EXPECT_EQ(read_cgroup_cpu_quota(root.path()), std::nullopt);
  root.write("proc/self/mountinfo", kV1Mounts);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).version, CgroupVersion::kNone);
}

TEST(Cgroup, OddContentIsAbsentNotZero) {
  const TemporaryFolder root;
  write_v1(root);
  root.write("sys/fs/cgroup/memory/jobs/a/memory.usage_in_bytes", "garbage\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/jobs/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(read_cgroup_memory(root.path()).usage, std::nullopt);
  EXPECT_EQ(read_cgroup_cpu_quota(root.path()), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
