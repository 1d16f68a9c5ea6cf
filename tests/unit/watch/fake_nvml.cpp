// NVIDIA's management library with two devices that are not there. FAKE_NVML_OLD_DRIVER leaves out
// what drivers in containers leave out: who uses the memory.

#include <cstdlib>
#include <cstring>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

constexpr unsigned long long kGiB = 1ull << 30;
int devices[2] = {0, 1};

int index_of(void* device) { return *static_cast<int*>(device); }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int nvmlInit_v2() { return 0; }
__attribute__((visibility("default"))) int nvmlShutdown() { return 0; }

__attribute__((visibility("default"))) int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetHandleByIndex_v2(unsigned index,
                                                                         void** device) {
  *device = &devices[index];
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetName(void* device, char* name,
                                                             unsigned length) {
  std::strncpy(name, index_of(device) == 0 ? "Fake A" : "Fake B", length);
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long used = index_of(device) == 0 ? 3 * kGiB : 5 * kGiB;
  *memory = {16 * kGiB, 16 * kGiB - used, used};
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetUtilizationRates(void* device,
                                                                         Utilization* rates) {
  rates->gpu = index_of(device) == 0 ? 20 : 85;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetTemperature(void* device, int,
                                                                    unsigned* celsius) {
  *celsius = index_of(device) == 0 ? 71 : 64;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 150500;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetCurrentClocksThrottleReasons(
    void* device, unsigned long long* reasons) {
  *reasons = index_of(device) == 0 ? 0x1 : 0x20;  // idle; software thermal slowdown
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetComputeRunningProcesses_v3(
    void* device, unsigned* count, Process* processes) {
  if (*count < 2) return 7;
  const bool told = std::getenv("FAKE_NVML_OLD_DRIVER") == nullptr;
  *count = 2;
  processes[0] = {100, told ? kGiB : ~0ull, 0, 0};
  processes[1] = {200u + static_cast<unsigned>(index_of(device)), 2 * kGiB, 0, 0};
  return 0;
}
}
