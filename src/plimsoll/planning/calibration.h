#pragma once

// Measured times of this machine, kept between runs in a file of the user's cache folder.
//
//   FOLDER/times-0123456789abcdef.txt      the name: a hash of what the times hold for
//     plimsoll-times 1
//     machine onednn-3.2/r3/avx2/l2=512K/l3=32768K/t2 AMD EPYC 25.1.1
//     date 2026-05-28
//     rates 2026-05-28                      when the machine's rates were measured
//     copy 9.1e+09                          bytes a second
//     disk 1.1e+09 2.1e+09 /var/tmp         bytes a second read and written there
//     call 0123456789abcdef 1.2e-05         seconds (backend/kernel/kernel_times.h)
//     factor 0123456789abcdef 1.3
//     rate 0123456789abcdef 1.189207115002721   a step of 2^(1/4)
//
// Times hold for a backend with its revision, instruction set, caches and threads, and for a model
// of processor. They choose between plans and never change a result: no plan, checkpoint or kernel
// set names them. A file is untrusted: it is bounded, and one that is damaged or of another machine
// counts as none.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/kernel/kernel_times.h"

namespace plimsoll::planning {

// Measures the machine's rates into the folder, where its file has none. Answers with why it could
// not; empty: it did.
using MeasureRates = std::shared_ptr<const std::function<std::string()>>;

struct TimesOptions {
  std::string folder;     // of such files; empty: the backend's estimates are taken
  bool tune = false;      // measures first, and keeps that there
  std::string note = {};  // why no rates were measured, for people; empty: nothing is to be said
  MeasureRates measure_rates = {};  // null: rates that are not there are not measured
  std::shared_ptr<const backend::KernelTimes> known = {};  // what was found there, once asked
};

// `name`: a folder, "none", or empty: the user's cache folder.
TimesOptions named_times(const std::string& name, bool tune);

// What times hold for: of a kernel set, whatever its blocks are, and this processor.
// `threads`: where they are fewer than the parts.
std::string times_fingerprint(const std::string& kernel_set, int parts, int threads);
// The same for a backend by its name (empty: the default) with so many parts and threads (0: the
// process's).
std::string times_fingerprint_of(const std::string& backend, int parts, int threads);
// The file's path in `folder`.
std::string times_path(const std::string& folder, const std::string& fingerprint);

std::string print_times(const backend::KernelTimes& times, const std::string& fingerprint);
// None where the text is not whole, or of another machine; `reason` says why.
std::optional<backend::KernelTimes> parse_times(const std::string& text,
                                                const std::string& fingerprint,
                                                std::string& reason);

// Whether there is a file of this machine, whatever is in it.
bool has_times(const std::string& folder, const std::string& fingerprint);
// Null where there is no file of this machine; one that cannot be used is told as a warning.
std::shared_ptr<const backend::KernelTimes> load_times(const std::string& folder,
                                                       const std::string& fingerprint);
// Appears whole or not at all; a folder that does not let itself be written is told as a warning.
void save_times(const std::string& folder, const std::string& fingerprint,
                const backend::KernelTimes& times);

// What reading and holding them takes at most, until a plan is chosen.
Bytes held_bytes(const backend::KernelTimes& times);

// "2026-05-28", in UTC.
std::string date_of_today();

}  // namespace plimsoll::planning
