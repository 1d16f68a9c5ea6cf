#pragma once

// Where a run's time went: by layer and operation, as a table, as JSON, and step by step for a
// viewer of traces.
//
// Where the machine's speed is known, each kernel's time stands beside its limit, the time below
// which this machine could not do it: max(operations / peak, bytes / bandwidth). Operations and
// bytes are those of the operator as it is defined, whole tensors once: a kernel that skips what is
// zero, or that finds its operands in a cache, may pass the limit, and shows as above 100 %.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/attributes.h"

namespace plimsoll::report {

// A value that a kernel takes or makes, at its program's batch.
struct Operand {
  std::string dtype;
  std::vector<int64_t> shape;
};

// What a kernel is asked for: enough to ask another program for the same.
struct KernelCall {
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  graph::Attributes attributes;
};

// All runs of one step of a program's plan.
struct ProfileRow {
  std::string layer;   // empty: no layer's
  std::string what;    // the node's or input's name
  std::string kind;    // "kernel", "data", "transfer", "other"
  std::string op;      // kernels
  std::string family;  // of these: "convolution", "dense", "recurrent", "attention", "other"
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;      // of all runs; 0 where the operator does not say
  double bytes = 0;      // read and written in all runs
  bool bf16 = false;     // of bfloat16 numbers
  double estimated = 0;  // seconds that the plan was chosen by; 0: not known
  int phase = -1;        // which of the plan's outermost loops it stands in; −1: in none
  std::optional<KernelCall> call{};  // of kernels, where somebody filled it in
};

// One step in the last run, from its start.
struct ProfileMark {
  size_t row = 0;
  double begin = 0;
  double seconds = 0;
};

struct ProgramProfile {
  std::string program;
  int64_t runs = 0;
  double seconds = 0;  // of all runs
  std::vector<ProfileRow> rows;
  std::vector<ProfileMark> marks;
};

// What a machine can do at most. 0: not measured, or there is no such instruction.
struct MachineSpeed {
  std::string isa;
  int threads = 1;
  double flops_per_second = 0;  // float32
  double bf16_flops_per_second = 0;
  double bytes_per_second = 0;  // of memory, past the caches
  friend bool operator==(const MachineSpeed&, const MachineSpeed&) = default;
};

struct Profile {
  std::vector<ProgramProfile> programs;  // that ran
  std::optional<MachineSpeed> machine{};
};

// The training steps, or else what took longest; nullptr: nothing ran.
const ProgramProfile* main_program(const Profile& profile);
// Seconds that the machine needs for all runs of a row at least; 0 where nothing is known of it.
double limit_seconds(const ProfileRow& row, const MachineSpeed& machine);
// "2 threads of avx512_bf16: 227.3 GFLOP/s, bf16 455.1 GFLOP/s, memory 38.1 GB/s".
std::string to_text(const MachineSpeed& machine);
// {"isa", "threads", "flops_per_second", "bf16_flops_per_second", "bytes_per_second"}.
std::string to_json(const MachineSpeed& machine);

// All rows of one of the plan's outermost loops.
struct PhaseTime {
  int phase = -1;     // −1: what stands in none
  std::string first;  // the layers of its first and last kernels
  std::string last;
  double seconds = 0;  // of all runs
  double estimated = 0;
};
// In the order in which they first run.
std::vector<PhaseTime> find_phases(const ProgramProfile& program);

// The training steps, or else the program that took longest: what it waited for, its slowest rows,
// and the others' times. With the machine's speed, rows stand in the order of the time that they
// take above their limits, and the first of them is named.
std::string to_text(const Profile& profile);
// {"machine": {"isa", "threads", "flops_per_second", "bf16_flops_per_second", "bytes_per_second"}
// or null, "programs": [{"program", "runs", "seconds", "estimated_seconds", "phases": [{"phase",
// "first", "last", "seconds", "estimated_seconds"}], "rows": [{"layer", "what", "kind", "op",
// "calls", "seconds", "estimated_seconds", "phase", "share", "flops", "bytes", "bf16",
// "limit_seconds"}]}]}; limit_seconds is null where there is none, phase where it stands in none.
// With a call: "inputs" and "outputs", each [{"dtype", "shape"}], and "attributes", too.
std::string to_json(const Profile& profile);
// The last run of that program, in Chrome's trace event format (chrome://tracing,
// Perfetto): complete events, microseconds; each event's args say its layer, operator, and its
// row's operations and bytes a second and share of the limit.
std::string to_chrome_trace(const Profile& profile);

}  // namespace plimsoll::report
