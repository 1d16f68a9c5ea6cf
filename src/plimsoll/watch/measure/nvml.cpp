#include "watch/measure/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/format.h"

namespace plimsoll::watch {
namespace {

// This is NVML's C interface, as its reference manual gives it.
using Device = struct NvmlDevice*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kInsufficientSize = 7;
constexpr int kTemperatureGpu = 0;
constexpr unsigned long long kUnknownUsage = ~0ull;

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

// Bits of "clocks event reasons": software power cap, hardware slowdown, software and hardware
// thermal slowdown, power brake.
constexpr unsigned long long kSlowed = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*get_count)(unsigned*) = nullptr;
  Status (*get_device)(unsigned, Device*) = nullptr;
  Status (*get_name)(Device, char*, unsigned) = nullptr;
  Status (*get_memory)(Device, Memory*) = nullptr;
  Status (*get_utilization)(Device, Utilization*) = nullptr;
  Status (*get_temperature)(Device, int, unsigned*) = nullptr;
  Status (*get_power)(Device, unsigned*) = nullptr;
  Status (*get_throttle)(Device, unsigned long long*) = nullptr;
  Status (*get_processes)(Device, unsigned*, Process*) = nullptr;
  std::vector<Device> devices;

  template <typename Function>
  bool load(Function& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<Function>>(::dlsym(handle, name));
    return function != nullptr;
  }

  bool load_all() {
    load(get_name, "nvmlDeviceGetName");
    load(get_utilization, "nvmlDeviceGetUtilizationRates");
    load(get_temperature, "nvmlDeviceGetTemperature");
    load(get_power, "nvmlDeviceGetPowerUsage");
    load(get_throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!load(get_processes, "nvmlDeviceGetComputeRunningProcesses_v3")) {
      load(get_processes, "nvmlDeviceGetComputeRunningProcesses_v2");
    }
    return load(init, "nvmlInit_v2") && load(shutdown, "nvmlShutdown") &&
           load(get_count, "nvmlDeviceGetCount_v2") &&
           load(get_device, "nvmlDeviceGetHandleByIndex_v2") &&
           load(get_memory, "nvmlDeviceGetMemoryInfo");
  }

  // Bytes that the processes `pids` hold on the device; nothing where the driver does not tell.
  std::optional<int64_t> held_by(Device device, const std::vector<int64_t>& pids) const {
    if (get_processes == nullptr) return std::nullopt;
    std::array<Process, 256> processes{};
    unsigned count = processes.size();
    const Status status = get_processes(device, &count, processes.data());
    if (status != kSuccess && status != kInsufficientSize) return std::nullopt;
    int64_t held = 0;
    for (size_t i = 0; i < std::min<size_t>(count, processes.size()); ++i) {
      if (!std::binary_search(pids.begin(), pids.end(), int64_t{processes[i].pid})) continue;
      if (processes[i].used == kUnknownUsage) return std::nullopt;
      held += static_cast<int64_t>(processes[i].used);
    }
    return held;
  }
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}

std::unique_ptr<Nvml> Nvml::open() {
  if (::access("/dev/nvidiactl", F_OK) != 0 && ::access("/dev/dxg", F_OK) != 0) return nullptr;
  return open("libnvidia-ml.so.1");
}

std::unique_ptr<Nvml> Nvml::open(const char* name) {
  auto library = std::make_unique<Library>();
  library->handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return nullptr;
  if (!library->load_all() || library->init() != kSuccess) {
    ::dlclose(library->handle);
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(library)));
  unsigned count = 0;
  if (nvml->library_->get_count(&count) != kSuccess) return nullptr;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (nvml->library_->get_device(i, &device) == kSuccess) {
      nvml->library_->devices.push_back(device);
    }
  }
  return nvml->library_->devices.empty() ? nullptr : std::move(nvml);
}

Nvml::~Nvml() {
  library_->shutdown();
  ::dlclose(library_->handle);
}

int64_t Nvml::device_count() const { return static_cast<int64_t>(library_->devices.size()); }

std::string Nvml::device_name(int64_t device) const {
  std::array<char, 96> name{};
  if (library_->get_name == nullptr ||
      library_->get_name(library_->devices[static_cast<size_t>(device)], name.data(),
                         name.size()) != kSuccess) {
    return fmt::format("GPU {}", device);
  }
  return name.data();
}

GpuReading Nvml::read(const std::vector<int64_t>& pids) {
  GpuReading reading;
  const auto raise = [](std::optional<double>& value, double by) {
    value = value ? std::max(*value, by) : by;
  };
  for (Device device : library_->devices) {
    if (const std::optional<int64_t> held = library_->held_by(device, pids)) {
      reading.process_bytes = reading.process_bytes.value_or(0) + *held;
    }
    Memory memory{};
    if (library_->get_memory(device, &memory) == kSuccess &&
        (!reading.used_bytes || static_cast<int64_t>(memory.used) > *reading.used_bytes)) {
      reading.used_bytes = static_cast<int64_t>(memory.used);
      reading.total_bytes = static_cast<int64_t>(memory.total);
    }
    Utilization busy{};
    if (library_->get_utilization && library_->get_utilization(device, &busy) == kSuccess) {
      raise(reading.busy, busy.gpu / 100.0);
    }
    unsigned value = 0;
    if (library_->get_temperature &&
        library_->get_temperature(device, kTemperatureGpu, &value) == kSuccess) {
      raise(reading.celsius, value);
    }
    if (library_->get_power && library_->get_power(device, &value) == kSuccess) {
      reading.watts = reading.watts.value_or(0) + value / 1000.0;
    }
    unsigned long long reasons = 0;
    if (library_->get_throttle && library_->get_throttle(device, &reasons) == kSuccess) {
      reading.throttled = reading.throttled || (reasons & kSlowed) != 0;
    }
  }
  return reading;
}

}  // namespace plimsoll::watch
