#pragma once

// What stands around a failure in its log: banners, settings, frames, progress, and what speaks
// against a cause. Read by the detect_… files; nothing is concluded here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::explain {

// A line that counts steps or epochs of the program's work.
struct Progress {
  std::optional<int64_t> epoch, epochs, step, steps;
  int64_t line = 0;
  bool validation = false;
  bool is_bare_bar = false;  // a bar without a word that says what it counts
};

// A bar of other work: downloads, shards that are loaded, files that are converted.
struct Task {
  std::string name;
  int64_t step = 0, steps = 0;
  int64_t line = 0;
};

struct Frame {
  std::string name;
  bool is_foreign = false;  // in a library that trains nothing
};

struct Traceback {
  size_t at = 0;              // of its head
  size_t end = 0;             // of its last frame's line
  std::vector<Frame> frames;  // outermost first
};

// What the log says against a cause that its message would have.
struct CounterEvidence {
  std::optional<size_t> versions_at;   // libraries or a driver that do not match
  std::optional<size_t> assertion_at;  // of a kernel on the device
  std::optional<size_t> free_at;       // how much of the device was free
  std::optional<int64_t> device_free, device_total;
  std::optional<size_t> unsupported_at;  // growing segments, on this platform
};

// Everything around the failure.
struct Context {
  std::string framework;
  std::optional<int64_t> created_mib;  // "Created device (… with N MB memory)"
  size_t created_at = 0;
  std::string created_device;
  std::optional<int64_t> banner_free, banner_total;
  size_t banner_at = 0;
  std::optional<int64_t> device_used, device_size;  // of nvidia-smi's table, before the failure
  size_t device_at = 0;
  bool nothing_allocated = false;  // "memory allocated: 0"
  size_t nothing_at = 0;
  std::optional<int64_t> batch_size;
  size_t batch_at = 0;
  std::vector<Traceback> tracebacks;  // in the order of the log
  size_t shuffle_at = 0, cache_at = 0;
  bool shuffle_buffer = false, cache_dataset = false;
  bool growth_on = false, growth_late = false, xla_on = false, separable = false, pruning = false;
  bool quantization = false, keras_exception = false, retracing = false;
  bool expandable = false, async_allocator = false, windows_paths = false;
  size_t growth_late_at = 0, xla_at = 0, separable_at = 0, pruning_at = 0, quantization_at = 0;
  size_t keras_exception_at = 0, expandable_at = 0, retracing_at = 0, async_at = 0;
  std::vector<Progress> progress;  // in the order of the log
  std::vector<Task> tasks;
  CounterEvidence counter;
  std::string allocator_variable;  // which the message itself names for the allocator's settings
  bool is_mac = false;
  int64_t first_epoch_restarts = 0;
};

}  // namespace plimsoll::explain
