#pragma once

// What Plimsoll says about a failure log, as plain data.
//
// An Explanation answers what ran out, how much, who asked, when, why, and what to do. A field that
// the log does not hold stays empty; it is never guessed. Byte counts are exact where the log
// prints bytes, otherwise rounded from the printed figure (`bytes_exact` tells which). Names of
// fields and labels are stable: they are the schema of `plimsoll explain --json`
// (docs/reference/explain.md). Strings hold no control characters: terminal escapes of the log
// never get here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

// What ran out. kNone: nothing did, or the log does not say.
enum class Resource {
  kNone,
  kGpuMemory,
  kHostMemory,
  kShm,
  kFileDescriptors,
  kDisk,
  kMessageSize,
  kOther,
};

enum class Cause {
  kUnknown,
  kTruePeak,               // the step needs more than there is
  kFragmentation,          // enough is free in the pool, but not in one piece
  kFreeExceedsRequest,     // more was free than was asked for: not a shortage of bytes
  kGpuHeldByOtherProcess,  // somebody else has the device
  kGpuTooSmall,            // a small card, full
  kMemoryLimitTooSmall,    // the framework was given little of the device
  kSingleTensorTooLarge,   // one request beyond all there is
  kSingleAllocationLimit,  // a driver's limit on one allocation
  kWeightsOrOptimizer,     // weights, gradients or optimizer slots; no batch in it
  kVocabSoftmaxOrOneHot,   // tokens x vocabulary
  kConvWorkspace,          // scratch of a convolution
  kDatasetCopiedToDevice,  // the whole array became one constant on the device
  kShuffleBufferOrCache,   // the input pipeline holds the data
  kEvalLargerThanTrain,    // validation runs larger inputs than training
  kGraphGrowthInLoop,      // nodes are added to one graph again and again
  kLeakOverTime,           // grows without end
  kPaddingOrDtypeBlowup,   // padded to a larger size
  kPreallocationRefused,   // the share that a framework takes at its start was not to be had
  kDriverOrLibraryInit,    // cuDNN, cuBLAS or the context found no room
  kPinnedHostPool,         // page-locked host memory
  kHostRamBatchOrDataset,  // the data in host memory
  kHostRamContainerLimit,  // a cgroup's, job's or pod's limit
  kWindowsPagefile,        // Windows' commit limit
  kShmTooSmall,
  kAmbiguousBusError,
  kFdLimit,
  kDiskFullOrQuota,
  kDiskOrFdAmbiguous,
  kMessageSizeLimit,
  kProto2Gb,
  kNotMemory,
};

enum class When {
  kUnknown,
  kBuilding,  // model, session or library is being set up
  kLoading,   // a checkpoint, weights or the data set
  kFirstStep,
  kSecondStep,  // the first step's results were still alive
  kTraining,    // after steps that fitted
  kNewShape,    // short last batch, longer sequence, larger image
  kValidation,
  kCheckpoint,
  kSecondFit,  // another fit or model in the same process
  kSlowly,
};

// kWarning: every line found is survivable by its own words, or only announces trouble.
enum class Verdict { kNoFailure, kWarning, kFailure };

std::string_view to_string(Resource resource);  // "" for kNone
std::string_view to_string(Cause cause);
std::string_view to_string(When when);
std::string_view to_string(Verdict verdict);

// All in bytes. `held`: taken from the system by the process (pool or reservation); `in_use`: of
// that, handed out; `others`: on the device, but neither free nor this process's.
struct Amounts {
  std::optional<int64_t> in_use;
  std::optional<int64_t> held;
  std::optional<int64_t> free;
  std::optional<int64_t> limit;
  std::optional<int64_t> capacity;
  std::optional<int64_t> others;
  std::optional<int64_t> pool_free;
  std::optional<int64_t> largest_free;
  std::optional<double> fragmentation;  // 1 - largest_free / pool_free
  std::optional<int64_t> program;       // what a compiled program needs in all
  bool operator==(const Amounts&) const = default;
};

struct Evidence {
  int64_t line = 0;  // 1-based; 0: figures from counting lines
  std::string text;
  bool operator==(const Evidence&) const = default;
};

struct Advice {
  std::string action;
  std::string arithmetic;  // "" where the log gives no number
  std::string code;        // the call in the user's framework, "" if there is none
  std::optional<int64_t> saves_bytes;
  bool operator==(const Advice&) const = default;
};

struct NotWorth {
  std::string action;
  std::string reason;
  bool operator==(const NotWorth&) const = default;
};

struct LayerMatch {
  std::string layer;
  bool is_weight = false;
  std::optional<int64_t> batch;
  bool operator==(const LayerMatch&) const = default;
};

struct Explanation {
  Verdict verdict = Verdict::kNoFailure;
  bool survived = false;  // something was refused, and the program went on
  std::string framework;  // "tensorflow", "pytorch", "jax", …, "" unknown
  std::string family;     // which form of message, e.g. "torch_cuda_2x"
  std::string what;       // ran out, in words, where it is no memory and has a name of its own

  Resource resource = Resource::kNone;
  std::string device;     // as printed
  std::string allocator;  // as printed
  std::optional<int64_t> bytes;
  bool bytes_exact = false;
  std::string bytes_text;
  Amounts amounts;

  std::optional<std::vector<int64_t>> tensor_shape;
  std::string dtype;  // as printed
  std::optional<int64_t> tensor_bytes_from_shape;
  std::string op;
  std::string op_type;
  std::string kernel_file;
  std::vector<LayerMatch> layers;
  std::optional<int64_t> batch;  // a dimension that may be one

  When when = When::kUnknown;
  std::string when_text;

  Cause cause_label = Cause::kUnknown;
  std::string cause_basis;  // "log", "inference", "" when unknown
  std::string cause;
  double confidence = 0;  // of the cause; >= 0.8 high, >= 0.5 medium, else low
  std::vector<std::string> usual_reasons;
  std::vector<Evidence> evidence;

  std::vector<Advice> advice;
  std::vector<NotWorth> not_worth;
  std::vector<std::string> corrections;  // wrong advice seen in the log or script
  std::vector<std::string> collect;      // what the log does not say, and how to get it
  std::string plimsoll_command;

  int64_t lines_read = 0;
  int64_t bytes_read = 0;

  bool operator==(const Explanation&) const = default;
};

// 0 no failure · 10 device memory · 11 host memory · 12 shared memory · 13 descriptors · 14 disk ·
// 15 message size · 16 something else under that name · 17 a failure, resource not said · 18
// warnings only. Apart from 0 none is an exit code of another command.
int exit_code(const Explanation& explanation);

// "true_peak (medium confidence)", "unknown".
std::string cause_words(const Explanation& explanation);

// Bytes that are free for the process: on the device, and within the limit that it set for itself.
std::optional<int64_t> left_for(const Explanation& explanation);

// Whether the figure that was printed reads otherwise than the bytes in words do: "7605.33 MiB".
bool is_printed_otherwise(const Explanation& explanation);

// For people. `name` is the log's name for the first line; may be empty.
std::string to_text(const Explanation& explanation, std::string_view name);

// One JSON object, keys in a fixed order, ends with a newline.
std::string to_json(const Explanation& explanation, std::string_view name);

}  // namespace plimsoll::explain
