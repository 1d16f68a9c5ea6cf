#include "explain/forms.h"

namespace plimsoll::explain {
namespace {

using enum Family;
constexpr Resource kHost = Resource::kHostMemory;
constexpr Resource kElse = Resource::kOther;

constexpr Form kHostForms[] = {
    // Runtimes
    {"java heap space", kOtherHost, kHost, "", "heap", "", ""},
    {"gc overhead limit exceeded", kOtherHost, kHost, "", "heap", "", ""},
    {"outofmemoryerror: direct buffer memory", kOtherHost, kHost, "", "heap", "", ""},
    {"outofmemoryerror: metaspace", kOtherHost, kHost, "", "heap", "", ""},
    {"javascript heap out of memory", kOtherHost, kHost, "", "heap", "", ""},
    {"insufficient memory for the java runtime", kOtherHost, kHost, "", "", "failed to map ", ""},
    {"fatal error: runtime: out of memory", kOtherHost, kHost, "", "", "", ""},
    {"outofmemoryerror()", kOtherHost, kHost, "julia", "", "", ""},
    {"cannot allocate vector of size ", kOtherHost, kHost, "", "", "vector of size ", ""},
    {"vector memory exhausted", kOtherHost, kHost, "", "", "", ""},
    {"vector memory limit of ", kOtherHost, kHost, "", "", "", "reached"},
    {"system.outofmemoryexception", kOtherHost, kHost, "", "", "", ""},
    {"out of memory or dimension too large for octave", kOtherHost, kHost, "", "", "", ""},
    {"allowed memory size of ", kOtherHost, kHost, "", "heap", "tried to allocate ",
     "bytes exhausted"},
    {"out of memory in perl:", kOtherHost, kHost, "", "", "", ""},
    {"exceeds maximum array size preference", kOtherHost, kHost, "", "", "", ""},
    {" bytes failed", kOtherHost, kHost, "", "", "memory allocation of ", "memory allocation of "},
    // Programs
    {"out of memory error: failed to allocate", kOtherHost, kHost, "", "",
     "failed to allocate data of size ", ""},
    {"out_of_host_memory", kOtherHost, kHost, "", "", "", ""},
    {"malloc of size ", kOtherHost, kHost, "", "", "malloc of size ", "arrowmemoryerror"},
    {"(-4:insufficient memory)", kOtherHost, kHost, "", "", "failed to allocate ", ""},
    {"lightgbmerror: bad allocation", kBadAlloc, kHost, "", "", "", ""},
    {"out of host memory", kOtherHost, kHost, "", "", "", ""},
    {"insufficient memory (attempted to allocate ", kOtherHost, kHost, "", "",
     "attempted to allocate ", ""},
    {"model requires more system memory", kOtherHost, kHost, "", "model", "system memory (", ""},
    {"fail to alloc memory of ", kOtherHost, kHost, "paddle", "", "fail to alloc memory of ", ""},
    {"error code: <1455>", kWinPagefile, kHost, "pytorch", "", "", ""},
    {"winerror 1450]", kWinPagefile, kHost, "", "", "", ""},
    {"winerror 8]", kWinPagefile, kHost, "", "", "", ""},
    {"winerror 14]", kWinPagefile, kHost, "", "", "", ""},
    {"exceeded 95% memory budget", kOtherHost, kHost, "dask", "heap", "", ""},
    {"(0xc0000017)", kOtherHost, kHost, "", "", "", ""},
    {"exit code -1073741801", kOtherHost, kHost, "", "", "", ""},
    {"use an instance type with more memory", kColab, kHost, "", "instance", "", ""},
    {"ran out-of-memory and exited", kColab, kHost, "", "instance", "", ""},
    {"runtime.outofmemory", kSchedulerLimit, kHost, "", "service", "", ""},
    {"memory quota vastly exceeded", kSchedulerLimit, kHost, "", "service", "", ""},
    {"memory limit of ", kSchedulerLimit, kHost, "", "service", "", "exceeded with"},
    // Killed by somebody who says so
    {"has run out of application memory", kOomKiller, kHost, "", "global", "", ""},
    {"container oom ", kK8s, kHost, "", "", "", "(image="},
    {"killed by the oom killer", kOomKiller, kHost, "", "global", "", ""},
    {"system oom encountered", kOomKiller, kHost, "", "global", "", ""},
    {"due to memory pressure for", kOomKiller, kHost, "", "daemon", "", ""},
    {"low swap: killing", kOomKiller, kHost, "", "daemon", "", ""},
    {"badness ", kOomKiller, kHost, "", "daemon", "", "earlyoom"},
    {"killed due to memory pressure (oom)", kRayOom, kHost, "ray", "", "", ""},
    {"node_out_of_memory", kRayOom, kHost, "ray", "", "", ""},
    // Schedulers
    {": out of memory", kSlurmOom, kHost, "", "task", "", "srun: error: "},
    {"out_of_me+", kSlurmOom, kHost, "", "state", "", ""},
    {"exceeded memory limit (", kSlurmOom, kHost, "", "limit", "", ""},
    {"pbs: job killed: mem ", kSchedulerLimit, kHost, "", "used", "killed: mem ", ""},
    {"pbs: job killed: vmem ", kSchedulerLimit, kHost, "", "used", "killed: vmem ", ""},
    {"term_memlimit", kSchedulerLimit, kHost, "", "", "", ""},
    {"reaching lsf memory usage limit", kSchedulerLimit, kHost, "", "", "", ""},
    {"exceeds job hard limit \"h_vmem\"", kSchedulerLimit, kHost, "", "", "", ""},
    {"has gone over memory limit of ", kSchedulerLimit, kHost, "", "", "", ""},
    {"has gone over cgroup memory limit of ", kSchedulerLimit, kHost, "", "", "", ""},
    {"by yarn for exceeding memory limits", kSchedulerLimit, kHost, "", "", "", ""},
    {"running beyond physical memory limits", kSchedulerLimit, kHost, "", "", "", ""},
    {"cancelled at ", kKilled, kElse, "", "time_limit", "", "due to time limit"},
};

constexpr Form kLimitForms[] = {
    {"ephemeral-storage", kDiskFull, Resource::kDisk, "", "ephemeral", "", "low on resource"},
    {"ephemeral local storage usage exceeds", kDiskFull, Resource::kDisk, "", "ephemeral", "", ""},
    {"winerror 112]", kDiskFull, Resource::kDisk, "", "full", "", ""},
    {"unexpected pos ", kDiskFull, Resource::kDisk, "pytorch", "writer", "", "inline_container"},
    {"pytorchstreamwriter failed writing", kDiskFull, Resource::kDisk, "pytorch", "writer", "", ""},
    {"objectstorefullerror", kShmBusError, Resource::kShm, "ray", "plasma", "object size is ", ""},
    {"not enough disk space. needed: ", kDiskFull, Resource::kDisk, "", "full", "", ""},
    {"database or disk is full", kDiskFull, Resource::kDisk, "", "full", "", ""},
    {"unable to create new native thread", kProcessLimit, kElse, "", "", "", ""},
    {"unable to create native thread", kProcessLimit, kElse, "", "", "", ""},
    {"can't start new thread", kProcessLimit, kElse, "", "", "", ""},
    {"resource temporarily unavailable", kProcessLimit, kElse, "", "", "", "pthread_create"},
    {"resource temporarily unavailable", kProcessLimit, kElse, "", "", "", "omp thread"},
    {"fork: retry: resource temporarily unavailable", kProcessLimit, kElse, "", "", "", ""},
    {"out of resource: ", kKernelResources, kElse, "pytorch", "", "required: ", "hardware limit"},
};

}  // namespace

std::span<const Form> host_forms() { return kHostForms; }
std::span<const Form> limit_forms() { return kLimitForms; }

}  // namespace plimsoll::explain
