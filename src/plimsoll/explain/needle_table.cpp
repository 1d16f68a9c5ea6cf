#include <iterator>
#include <vector>

#include "explain/forms.h"
#include "explain/needles.h"

namespace plimsoll::explain {
namespace {

using enum LineClass;

// Lower case. Several needles per message on purpose: a wrap or a cut breaks one of them.
constexpr Needle kNeedles[] = {
    // Refusals under any framework's name
    {"oom when allocating", kFailure},
    {"cating tensor with shape", kFailure},
    {"cating tensor of shape", kFailure},
    {" by allocator ", kFailure},
    {"resourceexhausted", kFailure},
    {"resource ex", kFailure},
    {"resource_ex", kFailure},
    {"failed to allocate", kFailure},
    {"failed to alloc ", kFailure},
    {"out of memory", kFailure},
    {"ran out of mem", kFailure},
    {"tried to allocate", kFailure},
    {"trying to allocate", kFailure},
    {"exceeds the memory limit", kFailure},
    {"request to allocate", kFailure},
    {"cannot allocate", kFailure},
    {"can't allocate", kFailure},
    {"could not allocate", kFailure},
    {"unable to alloc", kFailure},
    {"not enough memory", kFailure},
    {"insufficient memory", kFailure},
    {"outofmemory", kFailure},
    {"cumemallocasync", kFailure},
    {"dst tensor is not", kFailure},
    {"failed copying", kFailure},
    {"enforce allocating", kFailure},
    {"badalloc", kFailure},
    {"no available memory", kFailure},
    {"smaller than requested bytes", kFailure},
    {"cudamalloc failed", kFailure},
    {"reported by cuda", kFailure},
    {"more memory than is available", kFailure},
    {"is below the lower bound", kFailure},

    // PyTorch
    {"cuda error", kTorch},
    {"cuda runtime error", kTorch},
    {"hip error", kTorch},
    {"thcudacheck", kTorch},
    {"total capac", kTorch},
    {"already allocated", kTorch},
    {"reserved in total", kTorch},
    {"of the allocated memory", kTorch},
    {"would exceed allowed", kTorch},
    {"currently allocated", kTorch},
    {"(according to cuda)", kTorch},
    {"mps backend", kTorch},
    {"enforce fail at", kTorch},
    {"defaultcpuallocator", kTorch},

    // Kernel, schedulers, clusters
    {"oom-kill", kKernel},
    {"oom_kill", kKernel},
    {"oom_reaper", kKernel},
    {"mem_cgroup_oom", kKernel},
    {"killed process", kKernel},
    {"kill process", kKernel},
    {"slurmstepd", kKernel},
    {"out_of_memory", kKernel},
    {"memory limit", kKernel},
    {"oomkilled", kKernel},
    {"low on resource", kKernel},
    {"low on memory", kKernel},
    {"of the memory on node", kKernel},
    {"due to time limit", kKernel},
    {"memory on the node", kKernel},
    {"all available ram", kKernel},
    {"excessive memory usage", kKernel},
    {"memory resource limit", kKernel},

    // Something that is not memory, or not device memory, under the same names
    {"too many open files", kLimits},
    {"[errno ", kLimits},
    {"ancdata", kLimits},
    {"bus error", kLimits},
    {"sigbus", kLimits},
    {"signal 7", kLimits},
    {"code 135", kLimits},
    {"shared memory segment", kLimits},
    {"/torch_", kLimits},
    {"semlock", kLimits},
    {"no space left", kLimits},
    {"disk quota", kLimits},
    {"quota exceeded", kLimits},
    {"tempstate", kLimits},
    {"events file", kLimits},
    {"larger than max", kLimits},
    {"larger than 2gb", kLimits},
    {"2gb limit", kLimits},
    {"2147483647", kLimits},
    {"too big (more than", kLimits},
    {"exceeded maximum protobuf", kLimits},
    {"maximum protobuf size", kLimits},
    {"error 1455", kLimits},
    {"error: 1455", kLimits},
    {"paging file", kLimits},

    {"killed", kKilled},
    {"sigkill", kKilled},
    {"signal 9", kKilled},
    {"code 137", kKilled},
    {"code: 137", kKilled},
    {"code 247", kKilled},
    {"status 137", kKilled},
    {"exit 137", kKilled},
    {"kernel appears to have died", kKilled},
    {"exitcode", kKilled},
    {"exit_code", kKilled},
    {"exit code", kKilled},
    {"exit status", kKilled},
    {"stopped unexpectedly", kKilled},
    {"non-zero status", kKilled},
    {"status code", kKilled},
    {"appears to have died", kKilled},
    {"status -9", kKilled},
    {"terminated abruptly", kKilled},
    {"unexpectedly terminated", kKilled},
    {"exited unexpectedly", kKilled},

    // Crashes, whose words shells print
    {"segmentation fault", kKilled},
    {"core dumped", kKilled},
    {"sigsegv", kKilled},
    {"sigabrt", kKilled},
    {"aborted", kKilled},
    {"illegal instruction", kKilled},
    {"floating point exception", kKilled},
    {"interrupted by signal", kKilled},

    // Drivers and libraries
    {"cuda_error_", kDriver},
    {"hip_error", kDriver},
    {"cudnn_status_", kDriver},
    {"cublas_status_", kDriver},
    {"cusolver_status_", kDriver},
    {"cufft_", kDriver},
    {"convolution algorithm", kDriver},
    {"implicit initialization", kDriver},
    {"cudeviceprimaryctxretain", kDriver},
    {"work area", kDriver},
    {"initialize params", kDriver},
    {"nccl warn", kDriver},
    {"cuda failure", kDriver},
    {"illegal memory access", kDriver},
    {"device-side assert", kDriver},
    {"unspecified launch", kDriver},
    {"uncorrectable ecc", kDriver},
    {"no kernel image", kDriver},
    {"misaligned address", kDriver},
    {"memory access fault", kDriver},

    // Dumps of the BFC and async allocators
    {"limit:  ", kPool},
    {"inuse:  ", kPool},
    {"numallocs:", kPool},
    {"maxallocsize:", kPool},
    {"peakreserved:", kPool},
    {"largestfreeblock:", kPool},
    {"sum total of in-use", kPool},
    {"total_region_allocated", kPool},
    {"bin for ", kPool},
    {"bfcallocator dump", kPool},
    {"histogram of current", kPool},

    // XLA
    {"buffer assignment", kXla},
    {"bufferassignment", kXla},
    {" allocation:  ", kXla},
    {"total fragmentation", kXla},
    {"peak buffers", kXla},
    {"op_name=", kXla},
    {"xla label", kXla},
    {" hbm", kXla},
    {"rematerialization", kXla},
    {"unpadded size", kXla},
    {"due to padding", kXla},
    {"parameter subshape", kXla},

    {"[[node", kNode},
    {"{{node", kNode},
    {"function_node", kNode},
    {"caused by op", kNode},
    {"detected at node", kNode},
    {"node: '", kNode},
    {"root error", kNode},
    {"[op:", kNode},
    {"op_requires", kNode},
    {"raises an exception", kNode},

    {"current usage from device", kTensorList},
    {"nodes with ", kTensorList},

    {"of system memory", kWarning},
    {"of free system memory", kWarning},
    {"this is not a failure", kWarning},

    {"memoryerror", kHost},
    {"bad_alloc", kHost},
    {"terminate called", kHost},
    {"os.fork", kHost},
    {"failed to map segment", kHost},

    // Banners, settings, wrong advice
    {"tensorflow device (", kContext},
    {"created device ", kContext},
    {"freememory", kContext},
    {"free memory:", kContext},
    {"memory allocated: 0", kContext},
    {"shuffle buffer", kContext},
    {"cache_dataset_ops", kContext},
    {"memory_growth", kContext},
    {"memory growth", kContext},
    {"allow_growth", kContext},
    {"physical devices cannot be", kContext},
    {"virtual devices cannot be", kContext},
    {"tf_gpu_allocator", kContext},
    {"alloc_conf", kContext},
    {"expandable_segments", kContext},
    {"jit_compile", kContext},
    {"tf_xla_flags", kContext},
    {"separableconv", kContext},
    {"prune_low_magnitude", kContext},
    {"tfliteconverter", kContext},
    {"post-training quant", kContext},
    {"xla_python_client", kContext},
    {"batch_size", kContext},
    {"batch size", kContext},
    {"import tensorflow", kContext},
    {"import torch", kContext},
    {"import jax", kContext},
    {"tracing tf.function", kContext},
    {"function retracing", kContext},

    {"file \"", kTrace},
    {"file \\\"", kTrace},
    {"file &quot", kTrace},
    {"traceback (most", kTrace},
    {"handling of the above exception", kTrace},

    {"validat", kPhase},
    {"evaluat", kPhase},
    {"saving ", kPhase},
    {"checkpoint", kPhase},

    {"error", kError},
    {"exception", kError},
    {"invalid: ", kError},
    {"argument: ", kError},
    {".fail: ", kError},
    {"failure: ", kError},
    {"timeout: ", kError},
    {"panic", kError},

    {"chunks of size", kChunk},
    {"chunk at ", kChunk},
    {"inuse at ", kChunk},
    {"free at ", kChunk},
    {"free  at ", kChunk},
    {"in_use: 0", kChunk},
    {"total chunks:", kChunk},

    {"rss", kSeries},
    {"memory usage", kSeries},
    {"memory used", kSeries},
    {"mem used", kSeries},
    {"used memory", kSeries},

    {"epoch", kProgress},
    {"step", kProgress},
    {"iter", kProgress},
    {"it/s", kProgress},
    {"s/it", kProgress},
    {"/s]", kProgress},
    {"eta:", kProgress},

    // What may stand within a needle: nine blanks, the beginning of a terminal sequence, and those
    // whose ESC was lost
    {"         ", kDisguise},
    {"\x1b", kDisguise},
    {"[0m", kDisguise},
    {"[1m", kDisguise},
    {"[22m", kDisguise},
    {"[31m", kDisguise},
    {"[33m", kDisguise},
    {"[39m", kDisguise},
    {"[49m", kDisguise},
    {"[m", kDisguise},
    {"\\u", kDisguise},  // of JSON
};

LineClass class_of(const Form& form) {
  if (form.resource == Resource::kGpuMemory) return kFailure;
  return form.resource == Resource::kHostMemory ? kHost : kLimits;
}

}  // namespace

std::span<const Needle> all_needles() {
  static const std::vector<Needle> all = [] {
    std::vector<Needle> needles(std::begin(kNeedles), std::end(kNeedles));
    for (const Form& form : forms()) needles.push_back({form.phrase, class_of(form)});
    for (std::string_view word : translated_kills()) needles.push_back({word, kKilled});
    for (std::string_view word : translated_bus_errors()) needles.push_back({word, kLimits});
    return needles;
  }();
  return all;
}

}  // namespace plimsoll::explain
