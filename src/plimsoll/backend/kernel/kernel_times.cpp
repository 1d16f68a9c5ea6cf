#include "backend/kernel/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/hash.h"
#include "graph/op.h"
#include "graph/text.h"

namespace plimsoll::backend {
namespace {

using graph::Graph;
using graph::NodeId;

bool has_batch(const graph::ValueType& type) {
  return std::ranges::any_of(type.shape.dims(), &Dim::of_batch);
}

void add(const std::vector<graph::ValueType>& types, Fingerprint& key) {
  key.add(types.size());
  for (const graph::ValueType& type : types) {
    key.add(to_string(type.dtype)).add(static_cast<uint64_t>(type.shape.rank()));
    for (const Dim& dim : type.shape.dims()) {
      key.add(static_cast<uint64_t>(dim.count)).add(dim.of_batch ? 1 : 0);
    }
  }
}

class TimedCatalog final : public graph::KernelCatalog {
 public:
  TimedCatalog(const KernelCatalog& catalog, std::shared_ptr<const KernelTimes> times,
               const std::string& spill_folder)
      : catalog_(catalog), times_(std::move(times)) {
    const auto disk = std::ranges::find(times_->disks, spill_folder, &DiskSpeed::folder);
    if (disk == times_->disks.end() || disk->read <= 0 || disk->write <= 0) return;
    disk_ = *disk;
  }

  std::string kernel_set() const override { return catalog_.kernel_set(); }
  int block_set() const override { return catalog_.block_set(); }
  int part_count() const override { return catalog_.part_count(); }
  int thread_count() const override { return catalog_.thread_count(); }
  graph::Block block(const Graph& graph, NodeId node) const override {
    return catalog_.block(graph, node);
  }
  std::shared_ptr<const void> remember(const Graph& graph) const override {
    return catalog_.remember(graph);
  }
  Bytes scratch(const Graph& graph, NodeId node, int64_t batch, std::span<const int64_t> extents,
                std::span<const std::string> forms) const override {
    return catalog_.scratch(graph, node, batch, extents, forms);
  }
  bool row_exact(const Graph& graph, NodeId node, int axis) const override {
    return catalog_.row_exact(graph, node, axis);
  }
  double seconds(const Graph& graph, NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override {
    const uint64_t key = node_key(graph, node, batch);
    const double* seconds = times_->seconds.find(call_key(key, extents));
    if (seconds != nullptr) return *seconds;
    const double* factor = times_->factors.find(key);
    if (factor == nullptr) factor = times_->factors.find(operator_key(graph, node));
    if (factor == nullptr) factor = find_rate(rate_keys(graph, node, batch, extents));
    return catalog_.seconds(graph, node, batch, extents) * (factor == nullptr ? 1 : *factor);
  }
  Bytes cached() const override { return catalog_.cached(); }
  double memory_seconds(Bytes bytes) const override {
    if (times_->streamed == 0) return catalog_.memory_seconds(bytes);
    return static_cast<double>(bytes.count()) / times_->streamed;
  }
  double spill_seconds(Bytes bytes, Spill direction) const override {
    constexpr double kSecondsPerSpill = 4e-5;
    if (!disk_) return catalog_.spill_seconds(bytes, direction);
    return kSecondsPerSpill + static_cast<double>(bytes.count()) /
                                  (direction == Spill::kRead ? disk_->read : disk_->write);
  }
  double spill_work_seconds(Bytes bytes) const override {
    constexpr double kWorkPerSpill = 5e-5;
    return disk_ ? kWorkPerSpill + copy_seconds(bytes) : 0;
  }
  double copy_seconds(Bytes bytes) const override {
    if (times_->copied == 0) return catalog_.copy_seconds(bytes);
    return static_cast<double>(bytes.count()) / times_->copied;
  }

 private:
  const double* find_rate(const RateKeys& keys) const {
    for (const uint64_t key : keys.closest_first()) {
      const double* rate = times_->rates.find(key);
      if (rate != nullptr) return rate;
    }
    return nullptr;
  }

  const KernelCatalog& catalog_;
  std::shared_ptr<const KernelTimes> times_;
  std::optional<DiskSpeed> disk_;  // none: not measured
};

// Elements of a call that has `rows` of the batch; other axes are counted in full.
double bytes_of(const graph::ValueType& type, int64_t rows) {
  const double each =
      type.dtype == DType::kBits ? 0.125 : static_cast<double>(element_bytes(type.dtype).count());
  return each * static_cast<double>(type.shape.element_count(rows));
}

// Where operands of so many bytes lie: beside a thread, in the caches, in memory.
uint64_t working_set(double bytes) {
  constexpr double kOneThread = 128 << 10;
  constexpr double kCaches = 4 << 20;
  return bytes < kOneThread ? 0 : bytes < kCaches ? 1 : 2;
}

// Operations a byte, by powers of eight.
uint64_t intensity(double flops, double bytes) {
  const double each = flops / std::max(bytes, 1.0);
  return each < 1 ? 0 : each < 8 ? 1 : each < 64 ? 2 : 3;
}

// What kernels of one operator differ by: the function of a map; a window of one point, one for
// each channel, in groups, of few channels, to few channels.
std::string kind_of(const graph::Attributes& attributes,
                    const std::vector<graph::ValueType>& inputs,
                    const std::vector<graph::ValueType>& outputs) {
  constexpr int64_t kFew = 8;
  if (attributes.has("kind")) return attributes.get_string("kind");
  if (!attributes.has("groups") || inputs.empty()) return "";
  const int64_t groups = attributes.get_int("groups");
  const Shape& x = inputs.front().shape;
  const int64_t channels = x[x.rank() - 1].count;
  if (groups > 1) return groups == channels ? "each channel" : "groups";
  if (channels < kFew) return "few channels";
  const Shape& y = outputs.front().shape;
  if (y.has_batch() && y[y.rank() - 1].count < kFew) return "to few channels";
  const std::vector<int64_t>& size = attributes.get_ints("kernel_size");
  return std::ranges::all_of(size, [](int64_t each) { return each == 1; }) ? "points" : "windows";
}

}  // namespace

RateKeys rate_keys(const Graph& graph, NodeId node, int64_t batch,
                   std::span<const int64_t> extents) {
  const graph::Node& source = graph.node(node);
  const std::vector<graph::ValueType> inputs = graph::input_types(graph, node);
  const std::vector<graph::ValueType> outputs = graph::output_types(graph, node);
  const int axis = graph::find_axis(graph::axes_of(graph, node), graph::kBatchAxis);
  const int64_t rows = axis < 0 ? batch : extents[static_cast<size_t>(axis)];
  double bytes = 0;
  for (const graph::ValueType& type : inputs) bytes += bytes_of(type, rows);
  for (const graph::ValueType& type : outputs) bytes += bytes_of(type, rows);
  const double samples = axis < 0 ? 1 : static_cast<double>(rows);
  const double flops = samples * source.op->flops_per_sample({source.attributes, inputs, outputs});
  const graph::OpWork work = source.op->traits().work;
  const DType precision = inputs.empty() ? outputs.front().dtype : inputs.front().dtype;
  Fingerprint named;
  named.add("rate").add(source.op->name()).add(to_string(precision));
  Fingerprint family;
  family.add("rates").add(static_cast<uint64_t>(work.family));
  family.add(static_cast<uint64_t>(work.pass)).add(to_string(precision)).add(working_set(bytes));
  RateKeys keys{.named = named.value(), .family = family.value()};
  keys.kind = named.add(kind_of(source.attributes, inputs, outputs)).value();
  keys.alike = named.add(working_set(bytes)).add(intensity(flops, bytes)).value();
  return keys;
}

double rounded_rate(double number) {
  return number > 0 ? std::exp2(std::round(std::log2(number) * 4) / 4) : number;
}

uint64_t node_key(const Graph& graph, NodeId node, int64_t batch) {
  const graph::Node& source = graph.node(node);
  const std::vector<graph::ValueType> inputs = graph::input_types(graph, node);
  const std::vector<graph::ValueType> outputs = graph::output_types(graph, node);
  Fingerprint key;
  key.add(source.op->name());
  for (const auto& [name, value] : source.attributes.entries()) {
    key.add(name).add(graph::print(value));
  }
  add(inputs, key);
  add(outputs, key);
  // Rows of a batch that is never cut.
  const bool cut = graph::find_axis(graph::axes_of(graph, node), graph::kBatchAxis) >= 0;
  const bool batched =
      std::ranges::any_of(inputs, has_batch) || std::ranges::any_of(outputs, has_batch);
  if (batched && !cut) key.add(static_cast<uint64_t>(batch));
  return key.value();
}

uint64_t call_key(uint64_t node_key, std::span<const int64_t> extents) {
  Fingerprint key;
  key.add(node_key);
  for (const int64_t extent : extents) key.add(static_cast<uint64_t>(extent));
  return key.value();
}

uint64_t operator_key(const Graph& graph, NodeId node) {
  return Fingerprint().add("operator").add(graph.node(node).op->name()).value();
}

const double* KeyedNumbers::find(uint64_t key) const {
  const auto at = std::ranges::lower_bound(entries_, key, {}, &std::pair<uint64_t, double>::first);
  return at != entries_.end() && at->first == key ? &at->second : nullptr;
}

void KeyedNumbers::set(uint64_t key, double number) {
  const auto at = std::ranges::lower_bound(entries_, key, {}, &std::pair<uint64_t, double>::first);
  if (at != entries_.end() && at->first == key) {
    at->second = number;
  } else if (entries_.size() < kMost) {
    entries_.insert(at, {key, number});
  }
}

std::unique_ptr<graph::KernelCatalog> make_timed_catalog(const graph::KernelCatalog& catalog,
                                                         std::shared_ptr<const KernelTimes> times,
                                                         const std::string& spill_folder) {
  return std::make_unique<TimedCatalog>(catalog, std::move(times), spill_folder);
}

}  // namespace plimsoll::backend
