#include "base/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

void write_quota(const TemporaryFolder& root, const std::string& cpu_max) {
  root.write("proc/self/mountinfo", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", cpu_max);
}

TEST(Cpu, AQuotaBoundsTheThreads) {
  const TemporaryFolder root;
  write_quota(root, "20000 100000\n");
  const CpuInfo info = read_cpu_info(root.path());
  EXPECT_EQ(info.cpu_quota, 0.2);
  EXPECT_EQ(info.default_threads, 1);
  write_quota(root, "100000000 100000\n");
  EXPECT_EQ(read_cpu_info(root.path()).default_threads, info.allowed_cpus);
}

TEST(Cpu, ReadsCacheSizes) {
  const TemporaryFolder root;
  const std::string cache = "sys/devices/system/cpu/cpu0/cache/index";
  const char* rows[4][3] = {{"1", "Data", "48K\n"},
                            {"1", "Instruction", "32K\n"},
                            {"2", "Unified", "1024K\n"},
                            {"3", "Unified", "32M\n"}};
  for (int i = 0; i < 4; ++i) {
    const std::string folder = cache + std::to_string(i);
    root.write(folder + "/level", rows[i][0]);
    root.write(folder + "/type", rows[i][1]);
    root.write(folder + "/size", rows[i][2]);
  }
  const CpuInfo info = read_cpu_info(root.path());
  EXPECT_EQ(info.l1d_bytes, 48_KiB);
  EXPECT_EQ(info.l2_bytes, 1_MiB);
  EXPECT_EQ(info.l3_bytes, 32_MiB);
}

TEST(Cpu, AMachineThatTellsNothingGetsSafeSizes) {
  const TemporaryFolder root;
  const CpuInfo info = read_cpu_info(root.path());
  EXPECT_EQ(info.l1d_bytes, 32_KiB);
  EXPECT_EQ(info.l2_bytes, 512_KiB);
  EXPECT_EQ(info.l3_bytes, Bytes(0));
  EXPECT_EQ(info.cpu_quota, std::nullopt);
}

TEST(Cpu, TheProcessorIsCalledByItsModel) {
  const TemporaryFolder root;
  EXPECT_EQ(read_processor_name(root.path()), "");
  root.write("proc/cpuinfo",
             "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: A Processor\n"
             "stepping\t: 1\n\nprocessor\t: 1\nmodel name\t: Another\n");
  EXPECT_EQ(read_processor_name(root.path()), "A Processor 25.17.1");
  root.write("proc/cpuinfo",
             "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"
             "CPU revision\t: 1\n");
  EXPECT_EQ(read_processor_name(root.path()), "0x41 0xd0c 0x3 1");
}

TEST(Cpu, TheRealMachineHasThreadsAndAName) {
  const CpuInfo info = read_cpu_info();
  EXPECT_GE(info.default_threads, 1);
  EXPECT_LE(info.default_threads, info.allowed_cpus);
  EXPECT_FALSE(info.isa.empty());
  EXPECT_EQ(info, read_cpu_info());
}

TEST(Cpu, AnotherProcessorCanBeAskedFor) {
  CpuInfo info;
  info.isa = "avx512_bf16";
  info.l2_bytes = 1_MiB;
  info.l3_bytes = 32_MiB;
  force_processor(info, "avx2/l2=512K");
  EXPECT_EQ(info.isa, "avx2");
  EXPECT_EQ(info.l2_bytes, 512_KiB);
  EXPECT_EQ(info.l3_bytes, 32_MiB);
  EXPECT_TRUE(info.forced);
  force_processor(info, "generic/l1=48K/l3=16M");
  EXPECT_EQ(info.isa, "generic");
  EXPECT_EQ(info.l1d_bytes, 48_KiB);
  EXPECT_EQ(info.l3_bytes, 16_MiB);
}

TEST(Cpu, AnotherProcessorIsRefusedByName) {
  const auto message = [](const std::string& text) {
    CpuInfo info;
    info.isa = "avx2";
    try {
      force_processor(info, text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message("avx512"), HasSubstr("(generic, sse2, avx2), received avx512"));
  EXPECT_THAT(message("avx3"), HasSubstr("received avx3"));
  EXPECT_THAT(message(""), HasSubstr("an instruction set"));
  EXPECT_THAT(message("avx2/l2"), HasSubstr("a cache size such as l2=512K, received l2"));
  EXPECT_THAT(message("avx2/l2=much"), HasSubstr("received l2=much"));
  EXPECT_THAT(message("avx2/l4=1M"), HasSubstr("expected l1, l2 or l3, received l4"));
}

}  // namespace
}  // namespace plimsoll
