#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "explain/conclude/cause.h"
#include "explain/conclude/torch_snapshot.h"
#include "explain/read/document.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

void judge(const SnapshotSums& sums, Explanation& explanation) {
  const std::string account =
      fmt::format("PyTorch holds {} in {} segments, {} of it in live blocks; ",
                  size_words(sums.reserved_bytes), sums.segments, size_words(sums.allocated_bytes));
  const std::string idle =
      size_words(sums.idle_bytes) + " are idle, the largest piece " + size_words(sums.largest_idle);
  if (sums.ooms == 0) {
    explanation.cause = "No refused request is recorded. " + account + idle + ".";
    return;
  }
  const bool boxed_in = sums.idle_bytes >= sums.oom_bytes && sums.largest_idle < sums.oom_bytes &&
                        sums.idle_bytes * 20 >= sums.reserved_bytes;
  explanation.cause_label = boxed_in ? Cause::kFragmentation : Cause::kTruePeak;
  explanation.cause_basis = "log";
  explanation.confidence = boxed_in ? 0.85 : 0.7;
  explanation.cause = account + idle + ", and " + size_words(sums.oom_bytes) + " were refused.";
}

void add_holders(const SnapshotSums& sums, Explanation& explanation) {
  std::vector<std::pair<std::string, int64_t>> holders(sums.holders.begin(), sums.holders.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (holders.size() > 5) holders.resize(5);
  for (const auto& [where, bytes] : holders) {
    explanation.evidence.push_back({0, size_words(bytes) + " live from " + clean_line(where)});
  }
}

}  // namespace

Explanation TorchSnapshotReader::finish() const {
  Explanation explanation;
  explanation.family = "torch_snapshot";
  if (sums_.foreign || sums_.segments + sums_.blocks == 0) {
    explanation.cause =
        "This is a pickle, but no memory snapshot of plain data: it was read up to the first name "
        "of code, and nothing in it was executed.";
    explanation.collect.push_back(
        "A snapshot: torch.cuda.memory._record_memory_history() before the run, "
        "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") when it fails.");
    return explanation;
  }
  explanation.framework = "pytorch";
  explanation.resource = Resource::kGpuMemory;
  explanation.amounts.held = sums_.reserved_bytes;
  explanation.amounts.in_use = sums_.allocated_bytes;
  explanation.amounts.pool_free = sums_.idle_bytes;
  explanation.amounts.largest_free = sums_.largest_idle;
  if (sums_.idle_bytes > 0) {
    explanation.amounts.fragmentation =
        1.0 - static_cast<double>(sums_.largest_idle) / static_cast<double>(sums_.idle_bytes);
  }
  if (sums_.ooms > 0) {
    explanation.verdict = Verdict::kFailure;
    explanation.bytes = sums_.oom_bytes;
    explanation.bytes_exact = true;
    if (sums_.oom_device_free >= 0) explanation.amounts.free = sums_.oom_device_free;
  }
  judge(sums_, explanation);
  add_holders(sums_, explanation);
  if (sums_.ooms > 0 && explanation.cause_label == Cause::kFragmentation) {
    explanation.advice.push_back(
        {"Let segments grow instead of taking new ones.",
         size_words(sums_.idle_bytes) + " idle now, " + size_words(sums_.oom_bytes) + " refused",
         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", sums_.idle_bytes});
  } else if (sums_.ooms > 0) {
    explanation.advice.push_back(
        {"Keep less alive at the lines that hold most (see the evidence): recompute blocks in the "
         "backward pass.",
         "", "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)", std::nullopt});
  }
  if (sums_.partial) {
    explanation.collect.push_back(
        "The snapshot is larger than the bounds of this reader; sums cover what was read. A "
        "smaller one: _record_memory_history(max_entries=50000).");
  }
  return explanation;
}

}  // namespace plimsoll::explain
