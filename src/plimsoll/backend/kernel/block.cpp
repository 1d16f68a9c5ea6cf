#include "backend/kernel/block.h"

#include <algorithm>
#include <bit>

#include "backend/kernel/region.h"
#include "graph/op.h"
#include "graph/state_rows.h"

namespace plimsoll::backend {
namespace {

using graph::Axis;
using graph::AxisKind;
using graph::Block;
using graph::kWholeAxis;

// Rows of state variables are row-exact wherever they may be cut at all: their block is the whole.
bool cuttable(const Axis& axis) {
  return axis.name != graph::kStateRowsAxis && axis.kind != AxisKind::kNormalize &&
         axis.kind != AxisKind::kWhole && axis.group == 0;
}

int64_t power_below(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
}

// A block under construction; extents are concrete, the batch axis's counts samples.
class Box {
 public:
  Box(const graph::Graph& graph, graph::NodeId node)
      : axes_(axes_of(graph, node)),
        inputs_(input_types(graph, node)),
        outputs_(output_types(graph, node)) {
    for (const Axis& axis : axes_) block_.push_back(axis.extent.of_batch ? 1 : kWholeAxis);
    batch_ = find_axis(axes_, graph::kBatchAxis);
  }

  void choose(const BlockRule& rule) {
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (static_cast<int>(i) == batch_) continue;
      if (axes_[i].name == graph::kRowsAxis && rule.any_rows) continue;
      while (bytes(false) > rule.sample_call_bytes && halve(i)) {
      }
    }
    if (batch_ < 0) return;
    int64_t& extent = block_[static_cast<size_t>(batch_)];
    const Axis& axis = axes_[static_cast<size_t>(batch_)];
    if (!cuttable(axis)) {
      extent = axis.group > 0 ? axis.group : kWholeAxis;
      return;
    }
    extent = rule.batch;
    while (extent > 1 && bytes(true) > rule.call_bytes) extent /= 2;
  }

  // Some rows of an image are a call of their own.
  void part_images() {
    const int rows = find_axis(axes_, graph::kRowsAxis);
    if (rows < 0 || batch_ < 0 || block_[static_cast<size_t>(rows)] == kWholeAxis) return;
    block_[static_cast<size_t>(batch_)] = 1;
  }

  void cap(std::string_view name, int64_t most) {
    const int at = find_axis(axes_, name);
    if (at < 0 || !cuttable(axes_[static_cast<size_t>(at)])) return;
    int64_t& extent = block_[static_cast<size_t>(at)];
    if (this->extent(static_cast<size_t>(at)) > most) extent = power_below(most);
  }

  // Halves what is above 1; false where the extent stays as it is.
  bool halve(size_t i) {
    if (!cuttable(axes_[i]) || extent(i) <= 1) return false;
    const auto ceiling = std::bit_ceil(static_cast<uint64_t>(extent(i)));
    block_[i] = static_cast<int64_t>(ceiling) / 2;
    return true;
  }

  size_t axis_count() const { return axes_.size(); }
  std::string_view axis_name(size_t i) const { return axes_[i].name; }
  const Block& block() const { return block_; }

 private:
  int64_t extent(size_t i) const {
    return block_[i] == kWholeAxis ? axes_[i].extent.count : block_[i];
  }

  // Bytes of one call's operands; only of those that grow with the batch, or of all.
  Bytes bytes(bool batched_only) const {
    Bytes total;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      total += operand_bytes(inputs_[i], uses_of_input(axes_, i), batched_only);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      total += operand_bytes(outputs_[i], uses_of_output(axes_, i), batched_only);
    }
    return total;
  }

  Bytes operand_bytes(const graph::ValueType& type, const std::vector<graph::AxisUse>& uses,
                      bool batched_only) const {
    const bool batched = batch_ >= 0 && uses[static_cast<size_t>(batch_)].dimension >= 0;
    if (batched_only && !batched) return Bytes(0);
    const int64_t samples = batch_ < 0 ? 1 : extent(static_cast<size_t>(batch_));
    std::vector<int64_t> extents;
    for (size_t i = 0; i < axes_.size(); ++i) extents.push_back(extent(i));
    const std::vector<int64_t> begin(axes_.size(), 0);
    const Region region = find_region(type, samples, uses, begin, extents);
    const Bytes element = type.dtype == DType::kBits ? Bytes(1) : element_bytes(type.dtype);
    return element * product(region.dims);
  }

  std::vector<Axis> axes_;
  std::vector<graph::ValueType> inputs_;
  std::vector<graph::ValueType> outputs_;
  Block block_;
  int batch_ = -1;
};

}  // namespace

graph::Block choose_block(const graph::Graph& graph, graph::NodeId node, const BlockRule& rule,
                          const KernelSetOptions& options) {
  Box box(graph, node);
  if (box.axis_count() == 0) return {};
  box.choose(rule);
  const auto exact = [&](std::string_view name) {
    return name == graph::kRowsAxis && rule.any_rows;
  };
  for (const auto& [name, most] : options.caps) {
    if (!exact(name)) box.cap(name, most);
  }
  for (int step = 0; step < options.block_set; ++step) {
    for (size_t i = 0; i < box.axis_count(); ++i) {
      if (!exact(box.axis_name(i))) box.halve(i);
    }
  }
  box.part_images();
  return box.block();
}

}  // namespace plimsoll::backend
