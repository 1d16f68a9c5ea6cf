#pragma once

// The rates of this machine: how fast its kernels are by family of operators, precision and where
// operands lie, what starting a call costs, copying, and the disk of spill files.
//
// They are measured once a machine, in two or three seconds, on two small networks that have an
// operator of every family, and kept beside the times of `--tune` (calibration.h). Plans that fit
// are chosen by them; what fits, and the smallest limits, go by the backend's own table everywhere
// (plan/search/choice.h). Each is a factor on the table's estimate, rounded to a step of 2^(1/4).
// Whoever measures runs kernels, whose code and heap stay in the process for a while: it is done by
// a process of its own (cli/rates.h).

#include <optional>
#include <string>

#include "planning/request.h"

namespace plimsoll::planning {

// What a process that measures takes at least: the engine, probes and the operands of their calls.
// With less left nobody need start one.
inline constexpr Bytes kRatesRoom = 112_MiB;

// What is measured: for which backend and threads, and which folder has the spill file.
struct RatesRequest {
  TimesOptions times;
  std::string backend;         // empty: the default
  int parts = 0;               // of kernels' work; 0: as many as threads
  int threads = 0;             // 0: the process's
  std::string spill_folder;    // empty: no disk is measured
  std::optional<Bytes> limit;  // of the process that measures
};

// Measures them and keeps them there. False: the limit has no room for it, or the backend computes
// nothing. Throws kIo where the file cannot be written.
bool measure_rates(const RatesRequest& request);

}  // namespace plimsoll::planning
