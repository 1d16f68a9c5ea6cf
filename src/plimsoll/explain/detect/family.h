#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::explain {

// Message forms, most telling first: of several in one log the earliest in this list is explained.
// Names are those of `family` in the JSON output.
enum class Family : uint8_t {
  kTfZeroBytes,
  kGrpcMessageSize,
  kProtobuf2Gb,
  kTooManyOpenFiles,
  kDiskFull,
  kTfOomLine,
  kTorchCuda2x,
  kTorchCuda1x,
  kTorchHip,
  kTorchXpu,
  kTorchNpu,
  kTorchMps,
  kTorchCudaMallocAsync,
  kCudaMallocAsync,
  kTorchCpu,
  kTorchSnapshot,
  kJaxBufferAssignment,
  kXlaTpuHbm,
  kNumpyMemoryError,
  kPaddle,
  kOtherGpu,
  kItexAlloc,
  kTfAutotuneLimit,
  kWinPagefile,
  kShmBusError,
  kTfDisguised,
  kTfPinnedHost,
  kTfBfcDump,
  kJaxOomLine,
  kTorchThc,
  kTorchCublas,
  kCudnnInit,
  kTorchPlain,
  kCudaContext,
  kTfCufft,
  kNccl,
  kErrno12,
  kBadAlloc,
  kOtherHost,
  kOomKiller,
  kSlurmOom,
  kSchedulerLimit,
  kK8s,
  kRayOom,
  kColab,
  kPlimsollLimit,
  kKernelResources,
  kProcessLimit,
  kMemoryErrorBare,
  kTfExhausted,
  kTfDriverAlloc,
  kTfTensorList,
  kKilled,
  kXlaRematWarning,
  kTfNonfatalWarning,
  kTfCpuWarning,
  kMemorySeries,
  // How a program ended for no want of memory. These are kept apart from the findings.
  kDeviceFault,
  kProgramError,
  kCrash,
};

std::string_view to_string(Family family);

}  // namespace plimsoll::explain
