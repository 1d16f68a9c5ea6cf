// One short message per form of the grammar, and those that must not be taken for a failure.

#include <string>
#include <vector>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using Shape = std::vector<int64_t>;

struct Message {
  const char* name;
  const char* log;
  Resource resource;
  Cause cause;
  std::optional<int64_t> bytes;
};

void PrintTo(const Message& message, std::ostream* out) { *out << message.name; }

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

const Message kMessages[] = {
    {"tf_scalar",
     "ResourceExhaustedError: OOM when allocating tensor with shape[] and type float on "
     "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
     Resource::kGpuMemory, Cause::kUnknown, std::nullopt},
    {"tf_constant", "OOM when allocating tensor of shape [512,512] and type float", Resource::kNone,
     Cause::kUnknown, std::nullopt},
    {"tf_directml",
     "OOM when allocating tensor with shape[8,64,512,512] and type float on "
     "/job:localhost/replica:0/task:0/device:DML:0 by allocator DmlAllocator",
     Resource::kGpuMemory, Cause::kUnknown, std::nullopt},
    {"tf_cpu",
     "OOM when allocating tensor with shape[64,512,512,32] and type double on "
     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu",
     Resource::kHostMemory, Cause::kHostRamBatchOrDataset, std::nullopt},
    {"tf_host_pool",
     "OOM when allocating tensor with shape[64,512] and type float on "
     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator gpu_host_bfc",
     Resource::kHostMemory, Cause::kPinnedHostPool, std::nullopt},
    {"tf_events",
     "Could not open events file: /logs/events.out.tfevents.1: Resource exhausted: "
     "/logs/events.out.tfevents.1",
     Resource::kDisk, Cause::kDiskOrFdAmbiguous, std::nullopt},
    {"tf_driver_only",
     "failed to allocate 7.81G (8385986560 bytes) from device: "
     "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
     Resource::kGpuMemory, Cause::kGpuHeldByOtherProcess, 8385986560},
    {"tf_cudnn",
     "Failed to get convolution algorithm. This is probably because cuDNN failed to "
     "initialize, so try looking to see if a warning log message was printed above.",
     Resource::kGpuMemory, Cause::kDriverOrLibraryInit, std::nullopt},
    {"tf_hip_driver",
     "failed to allocate 15.98G (17163091968 bytes) from device: "
     "HIP_ERROR_OutOfMemory",
     Resource::kGpuMemory, Cause::kGpuHeldByOtherProcess, 17163091968},
    {"torch_10",
     "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.91 GiB "
     "total capacity; 11.20 GiB already allocated; 10.44 MiB free; 61.00 MiB cached)",
     Resource::kGpuMemory, Cause::kTruePeak, 20 * kMiB},
    {"torch_hip",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
     "total capacity of 15.98 GiB of which 200.00 MiB is free. Of the allocated memory "
     "15.20 GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but "
     "unallocated.",
     Resource::kGpuMemory, Cause::kTruePeak, 2 * kGiB},
    {"torch_beyond",
     "RuntimeError: CUDA out of memory. Tried to allocate 298.02 GiB (GPU 0; 15.90 "
     "GiB total capacity; 1.20 GiB already allocated; 13.90 GiB free; 1.30 GiB "
     "reserved in total by PyTorch)",
     Resource::kGpuMemory, Cause::kSingleTensorTooLarge, 319996538388},
    {"torch_old",
     "RuntimeError: $ Torch: not enough memory: you tried to allocate 20GB. Buy new RAM!",
     Resource::kHostMemory, Cause::kHostRamBatchOrDataset, 20 * kGiB},
    {"torch_cut",
     "iB total capacity; 9.50 GiB already allocated; 20.31 MiB free; 9.70 GiB reserved "
     "in total by PyTorch)",
     Resource::kGpuMemory, Cause::kUnknown, std::nullopt},
    {"jax_bytes", "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 6442450944 bytes.",
     Resource::kGpuMemory, Cause::kUnknown, 6 * kGiB},
    {"tpu_attempt",
     "RESOURCE_EXHAUSTED: Attempting to allocate 1.50G. That was not possible. There "
     "are 1.20G free.; (0x0x0_HBM0)",
     Resource::kGpuMemory, Cause::kTruePeak, 3 * kGiB / 2},
    {"numpy_dot",
     "MemoryError: Unable to allocate 184. MiB for an array with shape (200, 120603) and "
     "data type float64",
     Resource::kHostMemory, Cause::kHostRamBatchOrDataset, 184 * kMiB},
    {"windows_translated", "OSError: [WinError 1455] Le fichier de pagination est insuffisant.",
     Resource::kHostMemory, Cause::kWindowsPagefile, std::nullopt},
    {"rust_1455", "memory map failed (os error 1455)", Resource::kHostMemory,
     Cause::kWindowsPagefile, std::nullopt},
    {"shm_file",
     "RuntimeError: unable to write to file </torch_4242_1>: No space left on device (28)",
     Resource::kShm, Cause::kShmTooSmall, std::nullopt},
    {"ancdata", "RuntimeError: received 0 items of ancdata", Resource::kFileDescriptors,
     Cause::kFdLimit, std::nullopt},
    {"errno28", "OSError: [Errno 28] No space left on device: '/data/out.h5'", Resource::kDisk,
     Cause::kDiskFullOrQuota, std::nullopt},
    {"proto_serialized",
     "the serialized size (2203030420bytes) would be larger than the limit "
     "(2147483647 bytes)",
     Resource::kMessageSize, Cause::kProto2Gb, 2203030420},
    {"grpc_old", "RPC failed8: Received message larger than max (9000000 vs. 4194304)",
     Resource::kMessageSize, Cause::kMessageSizeLimit, 9000000},
    {"slurm_new",
     "slurmstepd: error: Detected 3 oom_kill events in StepId=99.0. Some of the step "
     "tasks have been OOM Killed.",
     Resource::kHostMemory, Cause::kHostRamContainerLimit, std::nullopt},
    {"pod", "Last State: Terminated  Reason: OOMKilled  Exit Code: 137", Resource::kHostMemory,
     Cause::kHostRamContainerLimit, std::nullopt},
    {"global_oom", "Out of memory: Killed process 812 (python) total-vm:90000kB, anon-rss:80000kB",
     Resource::kHostMemory, Cause::kHostRamBatchOrDataset, std::nullopt},
    {"exit_137", "The command terminated with exit code 137", Resource::kHostMemory,
     Cause::kUnknown, std::nullopt},
    {"elastic", "exitcode  : -9 (pid: 77)\ntraceback : Signal 9 (SIGKILL) received by PID 77",
     Resource::kHostMemory, Cause::kUnknown, std::nullopt},
    {"worker", "RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed.",
     Resource::kHostMemory, Cause::kUnknown, std::nullopt},
    {"cupy",
     "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes "
     "(allocated so far: 8,589,934,592 bytes).",
     Resource::kGpuMemory, Cause::kUnknown, kGiB},
    {"mac", "Epoch 1/10\nKilled: 9", Resource::kHostMemory, Cause::kUnknown, std::nullopt},
    {"time_limit", "slurmstepd: error: *** JOB 1 CANCELLED DUE TO TIME LIMIT ***\nKilled",
     Resource::kOther, Cause::kNotMemory, std::nullopt},
    {"ray_old",
     "RayOutOfMemoryError: More than 95% of the memory on node n1 is used (60.0 / 62.8 GB).",
     Resource::kHostMemory, Cause::kHostRamBatchOrDataset, 60 * kGiB},
    {"taken_at_start",
     "Total memory: 11.90GiB\nFree memory: 381.44MiB\nInternalError: Dst tensor is "
     "not initialized.",
     Resource::kGpuMemory, Cause::kGpuHeldByOtherProcess, std::nullopt},
    {"nearly_free",
     "CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacity of 4.00 GiB of "
     "which 41.56 MiB is free. Including non-PyTorch memory, this process has 3.44 GiB memory in "
     "use. "
     "Of the allocated memory 2.58 GiB is allocated by PyTorch, and 1.90 MiB is reserved by "
     "PyTorch "
     "but unallocated.",
     Resource::kGpuMemory, Cause::kGpuTooSmall, 32 * kMiB},
    {"chained_quota",
     "grpc: StatusCode.RESOURCE_EXHAUSTED details = \"Quota exceeded for quota "
     "metric 'Requests'\"",
     Resource::kOther, Cause::kNotMemory, std::nullopt},
};

class Messages : public testing::TestWithParam<Message> {};

TEST_P(Messages, AreUnderstood) {
  const Message& message = GetParam();
  const Explanation explanation = explain_text(message.log);
  EXPECT_NE(explanation.verdict, Verdict::kNoFailure);
  EXPECT_EQ(to_string(explanation.resource), to_string(message.resource));
  EXPECT_EQ(to_string(explanation.cause_label), to_string(message.cause)) << explanation.cause;
  EXPECT_EQ(explanation.bytes, message.bytes);
  EXPECT_FALSE(explanation.evidence.empty());
  EXPECT_FALSE(explanation.advice.empty());
}

INSTANTIATE_TEST_SUITE_P(Grammar, Messages, testing::ValuesIn(kMessages),
                         [](const auto& info) { return std::string(info.param.name); });

class Quiet : public testing::TestWithParam<const char*> {};

TEST_P(Quiet, NothingFires) {
  const Explanation explanation = explain_text(GetParam());
  EXPECT_EQ(explanation.verdict, Verdict::kNoFailure) << to_text(explanation, "");
  EXPECT_EQ(exit_code(explanation), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Successes, Quiet,
    testing::Values(
        "", "\n\n\n", "Epoch 1/2\n782/782 [====] - 3s - loss: 0.5\n",
        "INFO memory usage 3.2 GB\nINFO memory usage 3.2 GB\nINFO memory usage 3.2 GB\n",
        "all stale workers were killed and started again",
        "reading dangerously large protocol message is allowed",
        "docker inspect: \"OOMKilled\": false", "except MemoryError:\n    retry()",
        "I created device (/device:GPU:0 with 9000 MB memory)",
        "# ulimit -n raised so that there are never too few open files",
        "peak memory 512 MiB, limit 2 GiB, step 137 of 1455",
        "The worker was killed by management last year.\nEpoch 1/3 done\n",
        "README: if you see \"Killed\", the kernel ran out of memory. Reduce the batch size.\n",
        "Changelog: fix CUDA out of memory when evaluating (#1234)\n",
        "        except RuntimeError as e:\n            if \"out of memory\" in str(e):\n",
        "Nobody was\nkilled\nin the accident.\n", "killed 3 stale processes\nKilled enemies: 33\n",
        "Exit code 137 means the container was killed.\nUsage: run.sh [--memory M]\n",
        "tests/test_oom.py::test_resource_exhausted_error PASSED\n",
        "src/alloc.cc:81:  throw std::bad_alloc();\nsrc/main.cc:12: // out of memory\n",
        "oom_score_adj=500\noom_kill_disable 0\nunder_oom 0\noom_kill 0\n"));

constexpr std::string_view kRefused =
    "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 10.76 GiB total "
    "capacity; "
    "9.00 GiB already allocated; 500.00 MiB free; 9.50 GiB reserved in total by PyTorch)\n";
constexpr std::string_view kDisk = "OSError: [Errno 28] No space left on device: '/data/ckpt.pt'\n";
constexpr std::string_view kWentOn =
    "epoch 1 step 2/9 loss 5\nepoch 1 step 3/9 loss 4\nepoch 1 step 4/9 loss 3\n";

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) text += part;
  return text;
}

TEST(Survived, ARefusalAfterWhichTheProgramWentOn) {
  const Explanation explanation = explain_text(joined({kRefused, "retrying\n", kWentOn}));
  EXPECT_EQ(explanation.verdict, Verdict::kWarning);
  EXPECT_TRUE(explanation.survived);
  EXPECT_EQ(explanation.bytes, kGiB);
  EXPECT_EQ(to_text(explanation, "").substr(0, 9), "survived:");
}

TEST(Survived, ABarThatIsDrawnAgainIsNoProgress) {
  const Explanation explanation =
      explain_text(joined({kRefused, "step 2/9\nstep 2/9\nstep 2/9\nstep 2/9\n"}));
  EXPECT_EQ(explanation.verdict, Verdict::kFailure);
}

TEST(Survived, TheLastOfTwoFailuresEndedTheRun) {
  EXPECT_EQ(explain_text(joined({kRefused, kWentOn, kDisk})).resource, Resource::kDisk);
  EXPECT_EQ(explain_text(joined({kDisk, kWentOn, kRefused})).resource, Resource::kGpuMemory);
  EXPECT_EQ(explain_text(joined({kDisk, kWentOn, kRefused})).verdict, Verdict::kFailure);
}

TEST(Survived, TheSameRefusalAgainMayEndTheRun) {
  const std::string bare = "MemoryError\n";
  for (const std::string& refused : {std::string(kRefused), bare}) {
    EXPECT_EQ(explain_text(joined({refused, kWentOn})).verdict, Verdict::kWarning) << refused;
    const Explanation again =
        explain_text(joined({refused, kWentOn, refused, kWentOn, kWentOn, refused}));
    EXPECT_EQ(again.verdict, Verdict::kFailure) << refused;
    EXPECT_FALSE(again.survived);
    EXPECT_NE(again.family, "program_error");
  }
}

constexpr std::string_view kUncaught =
    "Traceback (most recent call last):\n  File \"train.py\", line 7, in main\n    step(batch)\n"
    "  File \"net.py\", line 31, in step\n    return x.reshape(shape)\n           "
    "~~~~~~~~~^^^^^^^\n"
    "ValueError: bad shape\n";

TEST(Endings, TheErrorAfterWhatWasSurvivedEndedTheProgram) {
  const std::string log = joined({"step 100\n", kRefused, "step 101\nstep 102\nstep 103\n"});
  const Explanation survived = explain_text(log);
  EXPECT_TRUE(survived.survived);
  const Explanation explanation = explain_text(log + std::string(kUncaught));
  EXPECT_EQ(explanation.verdict, Verdict::kFailure);
  EXPECT_EQ(exit_code(explanation), 16);
  EXPECT_EQ(explanation.family, "program_error");
  EXPECT_NE(explanation.cause.find("ValueError"), std::string::npos) << explanation.cause;
  EXPECT_NE(explanation.cause.find("(line 2) was survived"), std::string::npos);
  ASSERT_EQ(explanation.evidence.size(), 3u);
  EXPECT_EQ(explanation.evidence[0].text, "ValueError: bad shape");
  EXPECT_EQ(explanation.evidence[0].line, 12);
  EXPECT_EQ(explanation.evidence[1].text, "File \"net.py\", line 31, in step");
  EXPECT_EQ(explanation.when_text, "after step 103 (line 5)");
  EXPECT_TRUE(explanation.plimsoll_command.empty());
}

// A log that was cut, or searched for lines: the exception stands alone.
TEST(Endings, AnExceptionWithoutItsTracebackIsNamed) {
  for (std::string_view line :
       {"ValueError: bad shape", "AssertionError", "KeyError: 'labels'",
        "12/40 [00:02<00:05, 5.1it/s]RuntimeError: bad shape",
        "2024-05-01 10:00:00,123 - ERROR - train - TypeError: bad operand",
        "[rank3]: torch.nn.modules.module.ModuleAttributeError: no attribute 'fc'",
        "Exception in thread \"main\" java.lang.IllegalStateException: no batch",
        "Caused by: java.io.FileNotFoundException: a.csv",
        "Uncaught TypeError: x is not a function",
        "Unhandled exception. System.IO.IOException: The handle is invalid.",
        "pyarrow.lib.ArrowInvalid: offset overflow", "panic: runtime error: index out of range",
        "thread 'main' panicked at src/main.rs:3:5:",
        "libc++abi: terminating due to uncaught exception of type std::out_of_range: vector"}) {
    const Explanation explanation = explain_text("step 1\n" + std::string(line) + "\n");
    EXPECT_EQ(explanation.verdict, Verdict::kFailure) << line;
    EXPECT_EQ(explanation.family, "program_error") << line;
    EXPECT_EQ(explanation.cause_label, Cause::kNotMemory) << line;
  }
}

TEST(Endings, AnExceptionThatWasCaughtOrIsOnlySpokenOfIsNone) {
  for (std::string_view log :
       {"WARNING:root:ValueError: bad sample", "INFO:train:KeyError: 'aux'",
        "2024-05-01 10:00:00,123 - WARNING - loader - OSError: image file is truncated",
        "{\"level\": \"warning\", \"msg\": \"ValueError: bad sample\"}",
        "W0814 09:12:55.120338  211 train.py:3] ValueError: bad sample",
        "ConnectionError: timed out\nRetrying in 5 s", "ValueError: no label, skipping",
        "Exception ignored in: <function f>\nValueError: closed",
        "Raises:\n    ValueError: where the batch is empty", "ValueError: if the batch is empty",
        "DeprecationWarning: old", "UserWarning: Error", "KeyboardInterrupt",
        "val_error: 0.31 TestError=0.2", "Standard Error: 0.31", "test_ValueError PASSED",
        "ValueError: bad\nEpoch 1/3\nEpoch 2/3\nEpoch 3/3\n",
        "    raise ValueError(x)\n    except OSError: pass"}) {
    EXPECT_EQ(explain_text(std::string(log) + "\n").verdict, Verdict::kNoFailure) << log;
  }
}

TEST(Endings, WhatOthersReportOfAFailedProcessComesBehindIt) {
  const std::string cause = "[rank2]: ValueError: bad shape\n";
  const std::string report = "[rank0]: torch.distributed.DistBackendError: NCCL error\n";
  EXPECT_EQ(explain_text(cause + report).evidence.front().line, 1);
  EXPECT_EQ(explain_text(report + cause).evidence.front().line, 2);
  const Explanation alone = explain_text(report);
  EXPECT_EQ(alone.verdict, Verdict::kFailure);
  EXPECT_EQ(alone.resource, Resource::kNone);
  EXPECT_EQ(alone.cause_label, Cause::kUnknown);
}

TEST(Endings, ARefusalThatEndedTheProgramIsStillWhatIsExplained) {
  const std::string oom(kRefused);
  const std::string traceback =
      "Traceback (most recent call last):\n  File \"train.py\", line 7, in main\n    step()\n" +
      oom;
  EXPECT_EQ(explain_text(traceback).resource, Resource::kGpuMemory);
  EXPECT_EQ(explain_text(traceback + "Aborted (core dumped)\n").resource, Resource::kGpuMemory);
  EXPECT_EQ(explain_text(oom + std::string(kUncaught)).resource, Resource::kGpuMemory);
}

TEST(Endings, AnUncaughtErrorIsNamed) {
  const Explanation explanation = explain_text("step 1\nstep 2\n" + std::string(kUncaught));
  EXPECT_EQ(explanation.verdict, Verdict::kFailure);
  EXPECT_EQ(explanation.cause_label, Cause::kNotMemory);
  EXPECT_EQ(exit_code(explanation), 16);
  EXPECT_NE(to_text(explanation, "").find("line 9: ValueError: bad shape"), std::string::npos)
      << to_text(explanation, "");
  EXPECT_FALSE(explanation.advice.empty());
}

TEST(Endings, TheLastOfSeveralErrorsIsNamed) {
  const Explanation explanation = explain_text(
      joined({kUncaught,
              "\nDuring handling of the above exception, another exception occurred:\n\n"
              "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
              "    main()\nproject.errors.TrainingFailed: no good\n"}));
  EXPECT_NE(explanation.cause.find("project.errors.TrainingFailed"), std::string::npos);
}

TEST(Endings, AnErrorThatTheProgramOutlivedIsNone) {
  const std::string uncaught(kUncaught);
  for (const std::string& log :
       {"step 1\nstep 2\n" + uncaught + "step 3\nstep 4\n", uncaught + "Epoch 1/3\nEpoch 2/3\n",
        uncaught + "seen 10 of 90, score 0.10\nseen 20 of 90, score 0.12\n"
                   "seen 30 of 90, score 0.15\nseen 40 of 90, score 0.11\n",
        uncaught + "Using the default shape instead.\n",
        "UserWarning: the plugin could not be loaded\n" + uncaught,
        "Exception ignored in: <function Iterator.__del__ at 0x7f>\n" + uncaught,
        "Exception in thread Thread-3:\n" + uncaught, uncaught + std::string(120, '\n'),
        std::string("^CTraceback (most recent call last):\n  File \"a.py\", line 3\n"
                    "KeyboardInterrupt\n")}) {
    EXPECT_EQ(explain_text(log).verdict, Verdict::kNoFailure) << log;
  }
}

TEST(Endings, ACrashIsAFailureOfWhichTheLogDoesNotTellMore) {
  for (const char* log :
       {"train.sh: line 3:  2012 Segmentation fault (core dumped) python train.py",
        "[1]    2012 segmentation fault (core dumped)  python train.py",
        "step 3\nSegmentation fault\n", "Fatal Python error: Segmentation fault",
        "DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
        "Process finished with exit code 139"}) {
    const Explanation explanation = explain_text(log);
    EXPECT_EQ(explanation.family, "crash") << log;
    EXPECT_EQ(exit_code(explanation), 17) << log;
    EXPECT_NE(explanation.cause.find("SIGSEGV"), std::string::npos) << log;
    EXPECT_FALSE(explanation.collect.empty());
  }
  for (const char* log :
       {"the parser had a segmentation fault last year\n", "fixed: aborted (rarely)\n",
        "Exit code 139 means a segmentation fault.\n", "tests: 12 aborted so far\n",
        "12 jobs aborted\nall others are done\n"}) {
    EXPECT_EQ(explain_text(log).verdict, Verdict::kNoFailure) << log;
  }
}

TEST(Endings, AFaultOfTheDeviceIsNoShortage) {
  for (const char* log : {"CUDA error: an illegal memory access was encountered",
                          "RuntimeError: CUDA error: device-side assert triggered\n",
                          "could not synchronize on CUDA context: CUDA_ERROR_ILLEGAL_ADDRESS: an "
                          "illegal memory access was encountered\nAborted (core dumped)\n"}) {
    const Explanation explanation = explain_text(log);
    EXPECT_EQ(explanation.family, "device_fault") << log;
    EXPECT_EQ(exit_code(explanation), 16) << log;
  }
  EXPECT_EQ(explain_text(joined({"step 1\nCUDA error: misaligned address\n", kWentOn})).verdict,
            Verdict::kNoFailure);
}

TEST(Plimsoll, ItsOwnRefusalIsALimitThatIsTooSmall) {
  const std::string reason =
      "the limit 15 MiB (15728640 B) is below the lower bound 23.8 MiB (24985856 B): 22.7 MiB for "
      "the process outside of the arena, and one (layer conv2d_1) in program train needs 79.8 KiB "
      "for its operands, 21.1 KiB for its results and 89.1 KiB of scratch at once.\n";
  for (const char* start : {"plimsoll: ", "impossible: "}) {
    const Explanation explanation = explain_text(start + reason);
    EXPECT_EQ(explanation.family, "plimsoll_limit");
    EXPECT_EQ(explanation.cause_label, Cause::kMemoryLimitTooSmall);
    EXPECT_EQ(exit_code(explanation), 11);
    EXPECT_EQ(explanation.amounts.limit, 15728640);
    EXPECT_EQ(explanation.amounts.program, 24985856);
    EXPECT_EQ(explanation.plimsoll_command, "plimsoll plan MODEL --batch N");
    EXPECT_NE(to_text(explanation, "").find("too small"), std::string::npos);
  }
}

TEST(Plimsoll, ItsFirstLineTellsWhatIsNeeded) {
  for (const char* needs : {"needs", "the best plan found needs"}) {
    const Explanation explanation = explain_text(joined(
        {"plimsoll: does not fit: ", needs, " 24.0 MiB, 9.0 MiB above the limit of 15.0 MiB\n"}));
    EXPECT_EQ(explanation.family, "plimsoll_limit");
    EXPECT_EQ(exit_code(explanation), 11);
    EXPECT_EQ(explanation.amounts.limit, 15 << 20);
    EXPECT_EQ(explanation.amounts.program, 24 << 20);
  }
  EXPECT_EQ(explain_text("fits: 10.0 of 15.0 MiB (5.0 MiB to spare)\n").verdict,
            Verdict::kNoFailure);
}

TEST(Survived, AKillIsNot) {
  EXPECT_EQ(explain_text(joined({"Killed\n", kWentOn})).verdict, Verdict::kFailure);
  const Explanation alone = explain_text("Killed");
  EXPECT_EQ(alone.verdict, Verdict::kFailure);
  EXPECT_FALSE(alone.survived);
  EXPECT_NE(alone.when, When::kTraining);
}

TEST(Cited, AMessageWithinASentenceIsNotThisProgramsOwn) {
  const std::string message(kRefused.substr(0, kRefused.size() - 1));
  const Explanation explanation = explain_text("Q: I get \"" + message + "\", how to fix it?\n");
  EXPECT_EQ(explanation.verdict, Verdict::kWarning);
  EXPECT_EQ(explain_text('"' + message + '"').verdict, Verdict::kFailure);
}

constexpr std::string_view kBare = "torch.cuda.OutOfMemoryError: CUDA out of memory.";

class Collected : public testing::TestWithParam<const char*> {};

TEST_P(Collected, LinesSayTheSameWithoutTheirPrefix) {
  const std::string prefix = GetParam();
  EXPECT_EQ(explain_text(prefix + "Killed\n").family, "killed") << prefix;
  EXPECT_EQ(explain_text(prefix + std::string(kBare) + "\n").family, "torch_plain") << prefix;
  EXPECT_EQ(explain_text(prefix + "Epoch 1/3\n").verdict, Verdict::kNoFailure) << prefix;
}

INSTANTIATE_TEST_SUITE_P(
    Prefixes, Collected,
    testing::Values("May  3 10:11:12 gpu-host train[712]: ", "[2024-05-01 10:11:12] ",
                    "2024-05-01T10:11:12.123456+02:00 host python3[88]: ",
                    "2024-05-01 10:11:12,123 - root - ERROR - ", "trainer-1  | ",
                    "[2024-05-01 10:11:12,123][trainer][ERROR] - ", "[1,3]<stderr>:", "12: ",
                    "ERROR 03-23 10:11:12 [engine.py:430] ", "E0501 10:11:12.123456 140 a.py:3] ",
                    "2024-05-01 10:11:12.123 | ERROR    | train:fit:77 - ",
                    "ERROR:root:", "trainer-5c9f4b-x2x7z main ", "[rank: 0] ", "stderr: "));

TEST(Records, RecordsSayTheSameAsTheTextInThem) {
  for (const char* log : {R"({"log":"Killed\n","stream":"stderr","time":"2024-05-01T10:11:12Z"})",
                          R"({"level": "error", "msg": "Killed", "pid": 7})",
                          R"({"message":"step 3\nKilled","level":"error"})",
                          R"(time=2024-05-01T10:11:12Z level=error msg="Killed" job=train)",
                          R"({"log":"\u001b[31mKilled\u001b[0m\n"})"}) {
    const Explanation explanation = explain_text(log);
    EXPECT_EQ(explanation.family, "killed") << log;
    ASSERT_FALSE(explanation.evidence.empty());
    EXPECT_EQ(explanation.evidence[0].text, "Killed") << log;
  }
  EXPECT_EQ(explain_text(R"({"state":"killed","job":"7"})").verdict, Verdict::kNoFailure);
  EXPECT_EQ(explain_text(R"({"event":"exit","exitCode":137})").family, "killed");
}

TEST(Records, Utf16IsRead) {
  std::string wide = "\xff\xfe";
  for (const char c : kBare) (wide += c) += '\0';
  EXPECT_EQ(explain_text(wide).family, "torch_plain");
}

TEST(Amounts, OfOthersAreWithoutTheProcessesOwnContext) {
  const std::string of_all =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of "
      "which 1.12 GiB is free. ";
  const std::string of_it =
      "Of the allocated memory 21.80 GiB is allocated by PyTorch, and 190.00 MiB is reserved by "
      "PyTorch but unallocated.";
  const auto others = [&](const std::string& between) {
    return explain_text(of_all + between + of_it).amounts.others.value_or(-1);
  };
  EXPECT_NEAR(others("this process has 22.56 GiB memory in use. "), 0.01 * kGiB, kMiB);
  EXPECT_NEAR(others("Process 7 has 22.56 GiB memory in use. "), 0.01 * kGiB, kMiB);
  EXPECT_NEAR(others("Process 9 has 8.00 GiB memory in use. this process has 14.56 GiB memory in "
                     "use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and 100.00 "
                     "MiB is reserved by PyTorch but unallocated. "),
              8.01 * kGiB, 10.0 * kMiB);
}

TEST(Advice, NamesTheModelThatWasGiven) {
  ModelShapes model;
  model.spelled = "big.keras";
  const std::string log =
      "OOM when allocating tensor with shape[128,32,254,254] and type float on "
      "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc";
  EXPECT_EQ(explain_text(log, model).plimsoll_command, "plimsoll plan big.keras --batch 128");
  EXPECT_EQ(explain_text(log).plimsoll_command, "plimsoll plan MODEL --batch 128");
}

TEST(Operators, AreTheOnesThatFailed) {
  EXPECT_EQ(explain_text("ResourceExhaustedError: OOM when allocating tensor with shape[8,9]\n"
                         "\t [[Node: a-b/c_1 = MatMul[T=DT_HALF](x, y)]]\n"
                         "\t [[Node: add/_25 = _Recv[]()]]\n")
                .op,
            "a-b/c_1");
  EXPECT_EQ(explain_text("    y = torch.gather(logits.log_softmax(-1), dim=2, index=i)\n"
                         "RuntimeError: CUDA error: out of memory\n")
                .op,
            "log_softmax");
  EXPECT_EQ(
      explain_text("    a = np.zeros((1000, 70000), dtype=np.float64)\nMemoryError\n").tensor_shape,
      (Shape{1000, 70000}));
}

TEST(Shapes, AreMatchedWithTheModel) {
  ModelShapes model;
  model.layers = {{"conv2d", {254, 254, 32}, {{3, 3, 3, 32}, {32}}},
                  {"conv2d_1", {125, 125, 32}, {{3, 3, 32, 32}, {32}}}};
  const Explanation explanation = explain_text(
      "OOM when allocating tensor with shape[128,32,254,254] and type float on "
      "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
      model);
  ASSERT_EQ(explanation.layers.size(), 1u);
  EXPECT_EQ(explanation.layers[0].layer, "conv2d");
  EXPECT_EQ(explanation.layers[0].batch, 128);
  const Explanation weight = explain_text(
      "OOM when allocating tensor with shape[3,3,32,32] and type float on "
      "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
      model);
  ASSERT_EQ(weight.layers.size(), 1u);
  EXPECT_TRUE(weight.layers[0].is_weight);
  EXPECT_FALSE(weight.batch.has_value());
}

TEST(Moments, FollowTheProgressBeforeTheFailure) {
  const std::string oom =
      "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total "
      "capacity; "
      "7.00 GiB already allocated; 100.00 MiB free; 7.10 GiB reserved in total by PyTorch)\n";
  const auto when = [&](const std::string& before) { return explain_text(before + oom).when; };
  EXPECT_EQ(when(""), When::kUnknown);
  EXPECT_EQ(when("Epoch 1/3\n1/500 [>.....] - loss: 1\n"), When::kSecondStep);
  EXPECT_EQ(when("Epoch 2/3\n77/500 [=>....] - loss: 1\n"), When::kTraining);
  EXPECT_EQ(when("Epoch 1/3\n500/500 [======] - loss: 1\n"), When::kNewShape);
  EXPECT_EQ(when("Epoch 1/3\n3/5 [=>]\nEpoch 1/3\n3/5 [=>]\n"), When::kSecondFit);
}

}  // namespace
}  // namespace plimsoll::explain
