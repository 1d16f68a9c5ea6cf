// Any bytes through the reader of PyTorch's memory snapshots: no crash, nothing beyond its bounds,
// the same sums whatever the blocks they come in.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "explain/conclude/torch_snapshot.h"

namespace {

bool equal(const plimsoll::explain::SnapshotSums& a, const plimsoll::explain::SnapshotSums& b) {
  return a.segments == b.segments && a.reserved_bytes == b.reserved_bytes &&
         a.allocated_bytes == b.allocated_bytes && a.idle_bytes == b.idle_bytes &&
         a.largest_idle == b.largest_idle && a.blocks == b.blocks && a.ooms == b.ooms &&
         a.oom_bytes == b.oom_bytes && a.oom_device_free == b.oom_device_free &&
         a.partial == b.partial && a.foreign == b.foreign && a.holders == b.holders;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::explain::TorchSnapshotReader;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TorchSnapshotReader whole;
  whole.feed(bytes);
  const plimsoll::explain::Explanation explanation = whole.finish();
  if (plimsoll::explain::to_json(explanation, "log").empty()) std::abort();

  TorchSnapshotReader pieces;
  const size_t block = size == 0 ? 1 : 1 + data[size - 1] % 61;
  for (size_t at = 0; at < size; at += block) pieces.feed(bytes.substr(at, block));
  if (!(pieces.finish() == explanation)) std::abort();
  if (!equal(pieces.sums(), whole.sums())) std::abort();
  return 0;
}
