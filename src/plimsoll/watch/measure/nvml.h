#pragma once

// NVIDIA's management library, loaded when the watcher starts and only if it is there.
//
// No header and no link: the handful of functions is declared in the source file after the
// library's documented C interface. Any failure means "no reading", never an error. Loading costs
// several MiB, so it is not done where no NVIDIA device file exists.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::watch {

struct GpuReading {
  std::optional<int64_t> process_bytes;  // of the processes asked for, all devices
  std::optional<int64_t> used_bytes;     // of all processes, fullest device
  std::optional<int64_t> total_bytes;    // of that device
  std::optional<double> busy;            // 0 to 1, busiest device
  std::optional<double> celsius;         // hottest
  std::optional<double> watts;           // sum
  bool throttled = false;                // slowed down by heat or power
};

class Nvml {
 public:
  // Nothing where there is no library or no device.
  static std::unique_ptr<Nvml> open();
  // The same for a library of that name, whatever devices there are.
  static std::unique_ptr<Nvml> open(const char* name);
  ~Nvml();

  int64_t device_count() const;
  std::string device_name(int64_t device) const;
  // `pids` sorted.
  GpuReading read(const std::vector<int64_t>& pids);

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace plimsoll::watch
