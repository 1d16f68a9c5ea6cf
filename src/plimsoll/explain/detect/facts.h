#pragma once

// What the parsers found in a log, before anything is concluded from it.
//
// A Finding is one printed statement that something was refused, killed or announced, with the
// fields it holds. Pool, Program and Context gather figures that stand in lines of their own.
// Parsers only read; which finding counts and why it happened is decided by conclude.h and
// cause.h.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "explain/detect/family.h"
#include "explain/explanation.h"
#include "explain/read/context.h"
#include "explain/read/counters.h"
#include "explain/read/document.h"
#include "explain/read/further_progress.h"
#include "explain/read/task_table.h"

namespace plimsoll::explain {

// What a message says about another process on the device: "Process 20398 has 14.52 GiB".
struct ProcessShare {
  int64_t pid = 0;
  int64_t bytes = 0;
};

struct Finding {
  Family family = Family::kTfExhausted;
  bool survivable = false;  // a warning by its own words
  Resource resource = Resource::kNone;
  std::string framework;
  std::string device;
  std::string allocator;
  std::optional<int64_t> bytes;
  bool bytes_exact = false;
  std::string bytes_text;
  std::optional<std::vector<int64_t>> shape;
  std::string dtype;
  std::string attribute_dtype;  // of the node, where the message prints none
  std::string op;
  std::string op_type;
  std::string kernel_file;
  std::string path;  // of a file
  Amounts amounts;
  std::vector<ProcessShare> processes;
  std::optional<int64_t> process_bytes;  // "this process has", all of it
  std::optional<int64_t> requested;      // of a scheduler, for the container that failed
  std::optional<int64_t> line_limit;     // limit of a message size, workspace, …
  std::string note;                      // which form within the family
  std::string victim;                    // killed program
  // A size beyond all that machines can address, as printed; `bytes` is then empty.
  std::string bogus_size;
  std::optional<int64_t> bogus_bytes;  // where it is a count that fits
  std::string negative_size;           // what it is with a sign, where that is likely
  // What a server of language models says: tokens of one sequence that were asked for and that
  // would fit, and layers that were put on the device.
  std::optional<int64_t> tokens_wanted, tokens_fit, layers;
  size_t at = 0;           // offset in the document
  bool after_gap = false;  // others of its family that stand before it were not kept
};

// A statement that was read, whether or not its finding was kept.
struct Reading {
  Family family = Family::kTfExhausted;
  Resource resource = Resource::kNone;
  bool has_size = false;
};

// An allocator's dump and its five to eight figures.
struct Pool {
  bool seen = false;
  size_t at = 0;
  std::string allocator;
  std::optional<int64_t> limit, in_use, max_in_use, num_allocs, max_alloc_size;
  std::optional<int64_t> region_bytes, available, growth_bytes;
  std::optional<int64_t> request;  // of "Bin for", or trying to allocate
  std::string request_text;
  bool request_exact = false;
  size_t request_at = 0;
  std::string request_op;
  std::optional<int64_t> device_free, device_total;
  ChunkCounts chunks;
};

// What the driver refused a pool that asks for a tenth less each time: the sizes of the first
// round, and the largest of the rounds after it.
struct DriverRefusals {
  int64_t first = 0, last = 0, later = 0;
  int rounds = 0, steps = 0;  // steps: refusals of the first round
  size_t first_at = 0, last_at = 0;
};

struct ProgramBuffer {
  int64_t bytes = 0;
  std::string op;
  std::string source;
  std::string shape;
  size_t at = 0;
};

// XLA's account of a compiled program.
struct Program {
  std::optional<int64_t> parameters, outputs, temporaries, total, fragmentation, padding;
  std::optional<int64_t> base_limit;   // of what its arguments and results may take
  std::string expansion;               // by padding, as printed: "64.0x expansion"
  std::vector<ProgramBuffer> buffers;  // largest first, as printed
  size_t at = 0;
};

struct TensorList {
  std::string device, allocator;
  int64_t sum = 0;
  std::string largest;
  int64_t largest_bytes = 0;
  int64_t entries = 0;
  size_t at = 0;
};

// What was counted while the log streamed by.
struct Counts {
  ChunkCounts chunks;
  SeriesTrend series, device_series;
  std::vector<FurtherProgress> further_progress;
  TaskTable kernel_tasks;
  int64_t lines = 0;  // of the whole log
};

struct Facts {
  std::vector<Finding> findings;
  std::multimap<size_t, Reading> read;  // by offset: all that findings were made of
  std::vector<Finding> endings;         // in the order of the log
  std::vector<Pool> pools;
  DriverRefusals driver;
  Program program;
  TensorList tensors;
  Context context;
  SeriesTrend series, device_series;  // of memory figures that the program prints
  ChunkCounts chunks;
  std::vector<FurtherProgress> further_progress;
  TaskTable kernel_tasks;
};

// One function per family of messages; each appends what it finds. Findings are capped in number.
void detect_limits(const Document& document, Facts& facts);
void detect_tensorflow(const Document& document, Facts& facts);
void detect_tensorflow_files(const Document& document, Facts& facts);
void detect_pool(const Document& document, Facts& facts);
void detect_drivers(const Document& document, Facts& facts);
void detect_torch(const Document& document, Facts& facts);
void detect_xla(const Document& document, Facts& facts);
void detect_host(const Document& document, Facts& facts);
void detect_kernel(const Document& document, Facts& facts);
void detect_other_frameworks(const Document& document, Facts& facts);
void detect_servers(const Document& document, Facts& facts);
void detect_quotas(const Document& document, Facts& facts);
void detect_jobs(const Document& document, Facts& facts);
// Figures beside the messages that the tables found.
void complete_forms(const Document& document, Facts& facts);
void detect_context(const Document& document, Facts& facts);
void detect_frames(const Document& document, Facts& facts);
void detect_progress(const Document& document, Facts& facts);
void detect_counter_evidence(const Document& document, Facts& facts);
// Forms of the tables in forms.h, where no other detector has read the message.
void detect_forms(const Document& document, Facts& facts);
// What programs say in general, where no other detector has read the message.
void detect_generic(const Document& document, Facts& facts);
// Uncaught exceptions, faults of the device and crashes after which nothing went on, into
// `facts.endings`; reads what the other detectors found. `lines`: of the whole log.
void detect_endings(const Document& document, int64_t lines, Facts& facts);
// The exception that a line after frames begins with: any capital name is one ("CudaOOM: …",
// "queue.Empty"). Empty: it names none.
std::string_view raised_name(std::string_view line);

// All of them, and the program's own memory figures.
Facts detect(const Document& document, Counts counts);

// Notes what was read, and keeps it. Of findings that are equal in family, size, device and
// operator, which is the same event printed again (two root errors, every rank, a retry), the first
// and the last are kept: the program may have gone on between them. Of too many the first and the
// last ones of each family are kept.
void add_finding(Facts& facts, Finding finding);

// Whether a statement less than `reach` bytes from `at` was read, of those that `counts` is true
// of.
template <typename Counts>
bool is_read_near(const Facts& facts, size_t at, size_t reach, Counts counts) {
  const auto from = at < reach ? facts.read.begin() : facts.read.upper_bound(at - reach);
  return std::any_of(from, facts.read.lower_bound(at + reach),
                     [&counts](const auto& known) { return counts(known.second); });
}

// Helpers that several families share.
void set_size(Finding& finding, const struct Size& size);
void set_exact_bytes(Finding& finding, std::optional<int64_t> bytes);
Resource resource_of_device(std::string_view device, std::string_view allocator);

}  // namespace plimsoll::explain
