#include "watch/measure/sampler.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace plimsoll::watch {
namespace {

constexpr size_t kMostEndedPids = 4096;

// Seconds in which some task waited, of "some avg10=… total=<microseconds>".
std::optional<double> pressure_seconds(KernelFile& file, const char* path) {
  const std::optional<std::string_view> text = file.read(path);
  if (!text) return std::nullopt;
  const size_t at = text->find("total=");
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> value = leading_number(text->substr(at + 6));
  return value ? std::optional<double>(static_cast<double>(*value) * 1e-6) : std::nullopt;
}

// Received and sent by all interfaces but the loopback.
std::optional<int64_t> network_bytes(KernelFile& file) {
  const std::optional<std::string_view> text = file.read("/proc/net/dev");
  if (!text) return std::nullopt;
  int64_t total = 0;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    std::string_view line = text->substr(at, end - at);
    at = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, colon).ends_with("lo")) continue;
    line.remove_prefix(colon + 1);
    total += leading_number(line).value_or(0);
    for (int field = 0; field < 8; ++field) {
      const size_t digits = line.find_first_not_of(' ');
      if (digits == std::string_view::npos) break;
      line.remove_prefix(std::min(line.find(' ', digits), line.size()));
    }
    total += leading_number(line).value_or(0);
  }
  return total;
}

}  // namespace

SharedMemory read_shared_memory() {
  struct statvfs space = {};
  if (::statvfs("/dev/shm", &space) != 0) return {};
  const auto block = static_cast<int64_t>(space.f_frsize);
  const int64_t size = static_cast<int64_t>(space.f_blocks) * block;
  return {size - static_cast<int64_t>(space.f_bfree) * block, size};
}

void Sampler::Totals::add(const ProcessReading& reading) {
  add(Totals{reading.cpu_seconds, reading.major_faults, reading.minor_faults, reading.read_bytes,
             reading.written_bytes, reading.taken_bytes});
}

void Sampler::Totals::add(const Totals& other) {
  cpu += other.cpu;
  major += other.major;
  minor += other.minor;
  read += other.read;
  written += other.written;
  taken += other.taken;
}

Sampler::Sampler(int64_t main_pid, Group& group, CommandTree tree, bool with_gpu)
    : main_pid_(main_pid),
      group_(group),
      tree_(std::move(tree)),
      nvml_(with_gpu ? Nvml::open() : nullptr) {}

std::vector<int64_t> Sampler::all_pids() const {
  std::set<int64_t> all(ended_pids_.begin(), ended_pids_.end());
  for (const auto& [pid, totals] : alive_) all.insert(pid);
  all.insert(main_pid_);
  return {all.begin(), all.end()};
}

void Sampler::find_tree() { pids_ = group_.exists() ? group_.members() : tree_.find(); }

void Sampler::add_processes(Sample& sample) {
  std::map<int64_t, Totals> alive;
  Totals sum = ended_;
  int64_t page_tables = 0;
  largest_now_ = {};
  std::vector<ProcessReading> readings;
  for (const int64_t pid : pids_) {
    std::optional<ProcessReading> reading = reader_.read(pid);
    if (!reading) continue;
    if (reading->resident > 0 || reading->state != 'Z') ++sample.processes;
    sample.threads += reading->threads;
    add_memory(*reading, sample, page_tables);
    sample.waiting += reading->state == 'D' ? 1 : 0;
    alive[pid].add(*reading);
    sum.add(*reading);
    add_limits(*reading, sample);
    if (reading->peak_resident > largest_.peak_resident) largest_ = *reading;
    readings.push_back(std::move(*reading));
  }
  for (const ProcessReading& reading : readings) {
    if (reading.resident > largest_now_.resident) largest_now_ = reading;
  }
  for (const auto& [pid, totals] : alive_) {
    if (alive.contains(pid)) continue;
    ended_.add(totals);
    sum.add(totals);
    if (pid != main_pid_) ended_worker_cpu_ += totals.cpu;
    if (ended_pids_.size() < kMostEndedPids) ended_pids_.push_back(pid);
  }
  alive_ = std::move(alive);
  sample.cpu_seconds = sum.cpu;
  sample.worker_cpu_seconds = ended_worker_cpu_;
  for (const auto& [pid, totals] : alive_) {
    if (largest_now_.pid > 0 && pid != largest_now_.pid) {
      sample.worker_cpu_seconds += totals.cpu;
    }
  }
  sample.major_faults = sum.major;
  sample.minor_faults = sum.minor;
  sample.read_bytes = sum.read;
  sample.written_bytes = sum.written;
  sample.taken_bytes = sum.taken;
  sample.held = held_of(sample, page_tables);
}

void Sampler::add_limits(const ProcessReading& reading, Sample& sample) {
  const std::optional<int64_t> open_files = reader_.open_files(reading.pid);
  if (open_files && (!sample.open_files || *open_files > *sample.open_files)) {
    sample.open_files = open_files;
    if (!most_open_files_ || *open_files > *most_open_files_) {
      most_open_files_ = open_files;
      file_limit_ = reader_.file_limit(reading.pid);
    }
  }
  if (const std::optional<int64_t> limit = reader_.address_space_limit(reading.pid)) {
    address_space_limit_ = limit;
    address_space_used_ = std::max(address_space_used_, reading.peak_address_space);
  }
}

void Sampler::add_group(Sample& sample) {
  const GroupMemory memory = group_.memory();
  sample.held = memory.held();
  sample.group_usage = memory.usage;
  sample.group_cache = memory.cache;
  if (memory.swapped > 0) sample.swapped = memory.swapped;
}

void Sampler::add_machine(Sample& sample) {
  const SharedMemory shared = read_shared_memory();
  shm_size_ = shared.size;
  sample.shm_used = shared.used;
  const auto since = [](auto& first, const auto& now) {
    if (!first) first = now;
    auto result = now;
    if (result && first) *result -= *first;
    return result;
  };
  sample.network_bytes = since(first_network_, network_bytes(file_));
  sample.memory_pressure =
      since(first_memory_pressure_, pressure_seconds(file_, "/proc/pressure/memory"));
  sample.io_pressure = since(first_io_pressure_, pressure_seconds(file_, "/proc/pressure/io"));
}

void Sampler::add_gpu(Sample& sample) {
  if (!nvml_) return;
  const GpuReading gpu = nvml_->read(pids_);
  // Where the driver does not tell processes apart, what all of them use.
  sample.gpu_bytes = gpu.process_bytes ? gpu.process_bytes : gpu.used_bytes;
  sample.gpu_busy = gpu.busy;
  sample.gpu_celsius = gpu.celsius;
  sample.gpu_watts = gpu.watts;
  sample.gpu_throttled = gpu.throttled;
  gpu_total_ = gpu.total_bytes;
}

void Sampler::add_proportional(Sample& sample) {
  if (sample.seconds < next_proportional_) return;
  const auto begin = std::chrono::steady_clock::now();
  int64_t sum = 0;
  for (const int64_t pid : pids_) sum += reader_.proportional(pid).value_or(0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  // At most a thousandth of the time, and every ten seconds at most.
  next_proportional_ = sample.seconds + std::max(10.0, 1000 * taken.count());
  if (sum == 0 || sample.resident == 0) return;
  sample.proportional = sum;
  shared_ratio_ = std::min(1.0, static_cast<double>(sum) / static_cast<double>(sample.resident));
  // One process shares only with strangers: its own pages are its own.
  if (sample.processes <= 1) shared_ratio_ = 1;
}

Sample Sampler::full(double seconds) {
  const double begin = own_cpu_seconds();
  Sample sample;
  sample.seconds = seconds;
  find_tree();
  add_processes(sample);
  if (group_.exists()) add_group(sample);
  add_machine(sample);
  add_gpu(sample);
  cost_seconds_ = own_cpu_seconds() - begin;
  add_proportional(sample);
  sample.held_low = sample.held;
  last_ = sample;
  return sample;
}

Sample Sampler::light(double seconds) {
  Sample sample = last_;
  sample.seconds = seconds;
  sample.proportional.reset();
  if (group_.exists()) {
    add_group(sample);
  } else {
    sample.resident = sample.anonymous = sample.shared = sample.swapped = 0;
    int64_t page_tables = 0;
    for (const int64_t pid : pids_) {
      const std::optional<ProcessReading> reading = reader_.read_memory(pid);
      if (reading) add_memory(*reading, sample, page_tables);
    }
    sample.held = held_of(sample, page_tables);
  }
  sample.held_low = sample.held;
  return sample;
}

void Sampler::add_memory(const ProcessReading& reading, Sample& sample, int64_t& page_tables) {
  sample.resident += reading.resident;
  sample.anonymous += reading.anonymous;
  sample.shared += reading.shared;
  sample.swapped += reading.swapped;
  page_tables += reading.page_tables;
}

int64_t Sampler::held_of(const Sample& sample, int64_t page_tables) const {
  const double held = static_cast<double>(sample.anonymous + sample.shared) * shared_ratio_;
  return static_cast<int64_t>(held) + page_tables + sample.swapped;
}

}  // namespace plimsoll::watch
