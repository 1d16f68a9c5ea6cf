#include "toys/toy_ops.h"

#include <array>

#include "base/error.h"
#include "graph/core_ops.h"

namespace plimsoll::toys {
namespace {

using graph::Alias;
using graph::Attributes;
using graph::Axis;
using graph::AxisKind;
using graph::AxisUse;
using graph::NodeTypes;
using graph::OpTraits;
using graph::ValueType;

const AxisUse kRows{.dimension = 0, .stride = 1, .before = 0, .after = 0};
const AxisUse kColumns{.dimension = 1, .stride = 1, .before = 0, .after = 0};
const AxisUse kNone{};

Axis batch(AxisKind kind, std::vector<AxisUse> inputs, std::vector<AxisUse> outputs) {
  return {.name = "batch",
          .kind = kind,
          .extent = Dim::batch(),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

Axis other(std::string name, AxisKind kind, Dim extent, std::vector<AxisUse> inputs,
           std::vector<AxisUse> outputs, bool falling = false) {
  return {.name = std::move(name),
          .kind = kind,
          .extent = extent,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .falling = falling};
}

// One operator by its three rules.
class Toy final : public graph::Op {
 public:
  using Infer = std::vector<ValueType> (*)(const NodeTypes&);
  using Axes = std::vector<Axis> (*)(const NodeTypes&);

  Toy(std::string_view name, Infer infer, Axes axes, bool in_place = false, OpTraits traits = {},
      int bits_input = -1)
      : name_(name),
        infer_(infer),
        axes_(axes),
        in_place_(in_place),
        traits_(traits),
        bits_input_(bits_input) {}

  std::string_view name() const override { return name_; }
  std::vector<ValueType> infer(const NodeTypes& node) const override { return infer_(node); }
  std::vector<Axis> axes(const NodeTypes& node) const override { return axes_(node); }
  std::vector<Alias> aliases(const NodeTypes&) const override {
    return in_place_ ? std::vector<Alias>{{0, 0}} : std::vector<Alias>{};
  }
  std::vector<std::string> saved_forms(const NodeTypes&, int input) const override {
    return input == bits_input_ ? std::vector<std::string>{"positive_bits"}
                                : std::vector<std::string>{};
  }
  OpTraits traits() const override { return traits_; }

 private:
  std::string_view name_;
  Infer infer_;
  Axes axes_;
  bool in_place_;
  OpTraits traits_;
  int bits_input_;
};

// Graphs that are read as text may lack what an operator takes.
const ValueType& input(const NodeTypes& node, size_t number) {
  if (number < node.inputs.size()) return node.inputs[number];
  throw Error(ErrorKind::kModel, "expected more inputs");
}

std::vector<ValueType> like_first(const NodeTypes& node) { return {input(node, 0)}; }

Dim dim(const NodeTypes& node, size_t number, int dimension) {
  const Shape& shape = input(node, number).shape;
  if (dimension < shape.rank()) return shape[dimension];
  throw Error(ErrorKind::kModel, "expected more dimensions");
}

void add(graph::OpRegistry& registry, std::string_view name, Toy::Infer infer, Toy::Axes axes,
         bool in_place = false, OpTraits traits = {}, int bits_input = -1) {
  registry.add(std::make_unique<Toy>(name, infer, axes, in_place, traits, bits_input));
}

void add_maps(graph::OpRegistry& registry) {
  const Toy::Axes map = [](const NodeTypes& node) { return graph::batch_map_axis(node); };
  add(registry, "scale", like_first, map, true, {.elementwise = true});
  add(registry, "gate", like_first, map, true, {.elementwise = true}, 1);
  add(registry, "shift", like_first, map, true);
  add(registry, "flat",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        const Shape& shape = input(node, 0).shape;
        const int64_t rest = shape.elements_per_sample();
        return {{input(node, 0).dtype, Shape({Dim::batch(), Dim::constant(rest)})}};
      },
      map, true, {.view = true});
  add(registry, "smooth", like_first,
      [](const NodeTypes& node) -> std::vector<Axis> {
        const AxisUse window{.dimension = 1, .stride = 1, .before = 1, .after = 1};
        return {batch(AxisKind::kMap, {kRows}, {kRows}),
                other("rows", AxisKind::kWindow, dim(node, 0, 1), {window}, {kColumns})};
      },
      false, {.work = {.family = graph::OpFamily::kConvolution}});
  add(registry, "mix", like_first, [](const NodeTypes&) { return std::vector<Axis>{}; });
  add(
      registry, "task",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        const int64_t units = node.attributes.get_int("units");
        return {{DType::kFloat32, Shape({Dim::batch(), Dim::constant(units)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kMap, std::vector<AxisUse>(node.inputs.size(), kRows), {kRows})};
      });
  add(
      registry, "descend", like_first, [](const NodeTypes&) { return std::vector<Axis>{}; }, true);
}

void add_sums(graph::OpRegistry& registry) {
  add(
      registry, "total",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 1)})}};
      },
      [](const NodeTypes&) -> std::vector<Axis> {
        return {batch(AxisKind::kReduce, {kRows}, {kNone})};
      });
  add(
      registry, "row_sum",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 0)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kMap, {kRows}, {kRows}),
                other("units", AxisKind::kReduce, dim(node, 0, 1), {kColumns}, {kNone})};
      });
  add(
      registry, "grand_total",
      [](const NodeTypes&) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape()}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kReduce, {kRows}, {kNone}),
                other("units", AxisKind::kReduce, dim(node, 0, 1), {kColumns}, {kNone})};
      });
  add(
      registry, "backward_sum",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 0)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kMap, {kRows}, {kRows}),
                other("time", AxisKind::kReduce, dim(node, 0, 1), {kColumns}, {kNone}, true)};
      });
}

constexpr std::array<std::string_view, 3> kVolumeAxes = {"depth", "rows", "columns"};

// The first `count` axes of operand 0 after its batch, each of which the outputs have too.
std::vector<Axis> volume_axes(const NodeTypes& node, AxisKind kind, int64_t halo, size_t count) {
  std::vector<Axis> axes = {batch(AxisKind::kMap, {kRows}, {kRows})};
  for (size_t a = 0; a < count; ++a) {
    const int d = static_cast<int>(a) + 1;
    if (d >= input(node, 0).shape.rank()) break;
    const AxisUse window{.dimension = d, .stride = 1, .before = halo, .after = halo};
    axes.push_back(
        other(std::string(kVolumeAxes[a]), kind, dim(node, 0, d), {window}, {{.dimension = d}}));
  }
  return axes;
}

Shape without_dimension(const Shape& shape, int dropped) {
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + dropped);
  return Shape(std::move(dims));
}

void add_volumes(graph::OpRegistry& registry) {
  add(
      registry, "lift", like_first,
      [](const NodeTypes& node) { return volume_axes(node, AxisKind::kMap, 0, 3); }, true);
  add(registry, "blur", like_first,
      [](const NodeTypes& node) { return volume_axes(node, AxisKind::kWindow, 1, 2); });
  add(
      registry, "halve",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        ValueType half = input(node, 0);
        half.shape[1].count = dim(node, 0, 1).count / 2;
        return {half};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        const AxisUse pair{.dimension = 1, .stride = 2, .before = 0, .after = 1};
        const Dim half = Dim::constant(dim(node, 0, 1).count / 2);
        return {batch(AxisKind::kMap, {kRows}, {kRows}),
                other("depth", AxisKind::kWindow, half, {pair}, {kColumns})};
      });
  add(
      registry, "depth_sum",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        dim(node, 0, 1);
        return {{DType::kFloat32, without_dimension(input(node, 0).shape, 1)}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kMap, {kRows}, {kRows}),
                other("depth", AxisKind::kReduce, dim(node, 0, 1), {kColumns}, {kNone})};
      });
  add(
      registry, "slab_sum",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 1)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kReduce, {kRows}, {kNone}),
                other("depth", AxisKind::kMap, dim(node, 0, 1), {kColumns}, {kRows})};
      });
}

void add_lines(graph::OpRegistry& registry) {
  add(
      registry, "lines",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 0), dim(node, 1, 1)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kMap, {kRows, kNone}, {kRows}),
                other("units", AxisKind::kMap, dim(node, 1, 1), {kNone, kColumns}, {kColumns})};
      });
  add(
      registry, "lines_grad",
      [](const NodeTypes& node) -> std::vector<ValueType> {
        return {{DType::kFloat32, Shape({dim(node, 0, 1), dim(node, 1, 1)})}};
      },
      [](const NodeTypes& node) -> std::vector<Axis> {
        return {batch(AxisKind::kReduce, {kRows, kRows}, {kNone}),
                other("units", AxisKind::kMap, dim(node, 1, 1), {kNone, kColumns}, {kColumns})};
      });
}

}  // namespace

const graph::OpRegistry& registry() {
  static const graph::OpRegistry* const kRegistry = [] {
    auto* registry = new graph::OpRegistry();
    graph::register_core_ops(*registry);
    add_maps(*registry);
    add_sums(*registry);
    add_lines(*registry);
    add_volumes(*registry);
    return registry;
  }();
  return *kRegistry;
}

graph::Block ToyCatalog::block(const graph::Graph& graph, graph::NodeId node) const {
  const auto found = blocks.find(graph.node(node).name);
  if (found != blocks.end()) return found->second;
  graph::Block block;
  for (const Axis& axis : graph::axes_of(graph, node)) {
    block.push_back(axis.name == graph::kBatchAxis ? 1 : graph::kWholeAxis);
  }
  return block;
}

Bytes ToyCatalog::scratch(const graph::Graph& graph, graph::NodeId node, int64_t,
                          std::span<const int64_t> extents, std::span<const std::string>) const {
  if (graph.node(node).op->name() != "lines") return Bytes();
  return Bytes(64) * extents[0] - understated;
}

bool ToyCatalog::row_exact(const graph::Graph& graph, graph::NodeId node, int) const {
  return row_exact_nodes.contains(graph.node(node).name);
}

}  // namespace plimsoll::toys
