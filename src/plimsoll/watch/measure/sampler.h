#pragma once

// Takes the samples of one command's process tree.
//
// Two depths, since their costs differ by a factor of a hundred: `light` reads the group's account
// (or, without a group, the memory of the processes known so far), `full` finds the tree anew and
// reads everything of every process. Totals (CPU time, faults, bytes
// read) never fall: those of processes that ended are kept. Proportional memory is read rarely, and
// the more rarely the longer it takes.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watch/measure/command_tree.h"
#include "watch/measure/group.h"
#include "watch/measure/nvml.h"
#include "watch/measure/process.h"
#include "watch/measure/sample.h"

namespace plimsoll::watch {

// The machine's /dev/shm, in bytes; nothing where there is none.
struct SharedMemory {
  std::optional<int64_t> used, size;
};
SharedMemory read_shared_memory();

class Sampler {
 public:
  // `group` outlives the sampler and may be one that does not exist: then `tree` says which
  // processes are the command's.
  Sampler(int64_t main_pid, Group& group, CommandTree tree, bool with_gpu);

  // `seconds` since the start of the command.
  Sample full(double seconds);
  // Processor time of the latest full sample, without its proportional reading, which has a pace of
  // its own.
  double cost_seconds() const { return cost_seconds_; }
  Sample light(double seconds);

  // Looks which processes the tree has now.
  void find_tree();
  // The processes of the tree, as the latest look saw them; ascending.
  const std::vector<int64_t>& pids() const { return pids_; }
  // All that were ever seen, ascending.
  std::vector<int64_t> all_pids() const;
  // The process whose resident memory was largest at any time, and that peak (VmHWM).
  const ProcessReading& largest() const { return largest_; }
  // The process that holds most now, by the latest full sample.
  const ProcessReading& largest_now() const { return largest_now_; }
  std::optional<int64_t> file_limit() const { return file_limit_; }
  std::optional<int64_t> most_open_files() const { return most_open_files_; }
  std::optional<int64_t> address_space_limit() const { return address_space_limit_; }
  // The most that a process with such a limit had of it.
  int64_t address_space_used() const { return address_space_used_; }
  std::optional<int64_t> shm_size() const { return shm_size_; }
  std::string gpu_name() const { return nvml_ ? nvml_->device_name(0) : std::string(); }
  std::optional<int64_t> gpu_total() const { return gpu_total_; }

 private:
  struct Totals {
    double cpu = 0;
    int64_t major = 0, minor = 0, read = 0, written = 0, taken = 0;
    void add(const ProcessReading& reading);
    void add(const Totals& other);
  };

  void add_processes(Sample& sample);
  static void add_memory(const ProcessReading& reading, Sample& sample, int64_t& page_tables);
  int64_t held_of(const Sample& sample, int64_t page_tables) const;
  void add_limits(const ProcessReading& reading, Sample& sample);
  void add_group(Sample& sample);
  void add_machine(Sample& sample);
  void add_gpu(Sample& sample);
  void add_proportional(Sample& sample);

  int64_t main_pid_;
  Group& group_;
  CommandTree tree_;
  ProcessReader reader_;
  KernelFile file_;
  std::unique_ptr<Nvml> nvml_;
  std::vector<int64_t> pids_;
  std::map<int64_t, Totals> alive_;
  std::vector<int64_t> ended_pids_;
  Totals ended_;
  double ended_worker_cpu_ = 0;
  Sample last_;
  ProcessReading largest_, largest_now_;
  std::optional<int64_t> file_limit_, most_open_files_, address_space_limit_, shm_size_, gpu_total_;
  int64_t address_space_used_ = 0;
  std::optional<int64_t> first_network_;
  std::optional<double> first_memory_pressure_, first_io_pressure_;
  double cost_seconds_ = 0;
  double next_proportional_ = 1;
  double shared_ratio_ = 1;  // proportional / resident, of the latest reading
};

}  // namespace plimsoll::watch
