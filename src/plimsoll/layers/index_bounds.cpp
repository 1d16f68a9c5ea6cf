#include "layers/index_bounds.h"

#include <algorithm>
#include <numeric>

#include "graph/op.h"

namespace plimsoll::layers {
namespace {

using graph::Node;
using graph::Value;
using graph::ValueId;

// Positions in a sample of the elements that are followed.
using Elements = std::vector<int64_t>;

struct Table {
  int64_t row_count = 0;  // 0: none
  std::string name;
};

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims = shape.at(1);
  dims.erase(dims.begin());
  return dims;
}

std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = element % dims[d];
    element /= dims[d];
  }
  return index;
}

int64_t element_at(const std::vector<int64_t>& index, const std::vector<int64_t>& dims) {
  int64_t element = 0;
  for (size_t d = 0; d < dims.size(); ++d) element = element * dims[d] + index[d];
  return element;
}

class Tracer {
 public:
  Tracer(const graph::Graph& graph, int input, std::vector<Table>& tables)
      : graph_(graph), input_(input), tables_(tables) {}

  // `elements` of a sample of `id` are looked up in `table`.
  void follow(ValueId id, const Elements& elements, const Table& table) {
    const Value& value = graph_.values[id.index()];
    if (value.kind == graph::ValueKind::kInput) {
      if (value.input == input_) bound(elements, table);
      return;
    }
    if (value.kind != graph::ValueKind::kNode || !value.type.shape.has_batch()) return;
    const Node& node = graph_.nodes[value.producer.index()];
    const std::string_view op = node.op->name();
    // Folding the batch leaves the elements of a sample in their order.
    if (op == "cast" || op == "reshape" || op == "fold_batch" || op == "unfold_batch") {
      follow(node.inputs[0], elements, table);
    } else if (op == "slice" || op == "transpose" || op == "reverse" || op == "crop2d") {
      follow(node.inputs[0], moved(node, value.type.shape, elements), table);
    } else if (op == "concat") {
      follow_parts(node, value.type.shape, elements, table);
    }
  }

 private:
  const Shape& shape_of(ValueId id) const { return graph_.values[id.index()].type.shape; }

  void bound(const Elements& elements, const Table& table) {
    for (int64_t element : elements) {
      Table& known = tables_[static_cast<size_t>(element)];
      if (known.row_count == 0 || table.row_count < known.row_count) known = table;
    }
  }

  // Attribute "axis" among the dimensions behind the batch.
  static size_t axis_of(const Node& node, const Shape& shape) {
    const int64_t axis = node.attributes.get_int("axis", -1);
    return static_cast<size_t>((axis < 0 ? axis + shape.rank() : axis) - 1);
  }

  // Where elements of the output of a slice, transpose, reverse or crop2d come from.
  Elements moved(const Node& node, const Shape& shape, const Elements& elements) const {
    const std::vector<int64_t> to = dims_of(shape);
    const std::vector<int64_t> from = dims_of(shape_of(node.inputs[0]));
    const std::string_view op = node.op->name();
    Elements result;
    result.reserve(elements.size());
    for (int64_t element : elements) {
      std::vector<int64_t> index = index_of(element, to);
      if (op == "slice") {
        index[axis_of(node, shape)] += node.attributes.get_int("begin");
      } else if (op == "crop2d") {
        const std::vector<int64_t>& cropping = node.attributes.get_ints("cropping");
        index[0] += cropping[0];
        index[1] += cropping[2];
      } else if (op == "reverse") {
        int64_t& at = index[axis_of(node, shape)];
        at = to[axis_of(node, shape)] - 1 - at;
      } else {
        const std::vector<int64_t>& order = node.attributes.get_ints("permutation");
        const std::vector<int64_t> turned = index;
        for (size_t d = 0; d < turned.size(); ++d) {
          index[static_cast<size_t>(order[d] - 1)] = turned[d];
        }
      }
      result.push_back(element_at(index, from));
    }
    return result;
  }

  void follow_parts(const Node& node, const Shape& shape, const Elements& elements,
                    const Table& table) {
    const std::vector<int64_t> to = dims_of(shape);
    const size_t axis = axis_of(node, shape);
    int64_t begin = 0;
    for (ValueId part : node.inputs) {
      const std::vector<int64_t> from = dims_of(shape_of(part));
      Elements own;
      for (int64_t element : elements) {
        std::vector<int64_t> index = index_of(element, to);
        index[axis] -= begin;
        if (index[axis] >= 0 && index[axis] < from[axis]) own.push_back(element_at(index, from));
      }
      if (!own.empty()) follow(part, own, table);
      begin += from[axis];
    }
  }

  const graph::Graph& graph_;
  int input_;
  std::vector<Table>& tables_;
};

}  // namespace

std::vector<IndexBound> index_bounds(const graph::Graph& graph, int input) {
  const bool reads_tables = std::ranges::any_of(
      graph.nodes, [](const Node& node) { return node.op->name() == "embedding"; });
  if (!reads_tables) return {};  // an image has millions of elements that nobody follows
  const Value& value = graph.values[graph.inputs[static_cast<size_t>(input)].index()];
  std::vector<Table> tables(static_cast<size_t>(value.type.shape.elements_per_sample()));
  Tracer tracer(graph, input, tables);
  for (const Node& node : graph.nodes) {
    if (node.op->name() != "embedding") continue;
    const Value& table = graph.values[node.inputs[1].index()];
    Elements all(
        static_cast<size_t>(graph.values[node.inputs[0].index()].type.shape.elements_per_sample()));
    std::iota(all.begin(), all.end(), int64_t{0});
    const std::string name = table.kind == graph::ValueKind::kState
                                 ? graph.states[table.state.index()].name
                                 : node.layer;
    tracer.follow(node.inputs[0], all, {table.type.shape[0].count, name});
  }
  std::vector<IndexBound> bounds;
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (tables[i].row_count == 0) continue;
    IndexBound* last = bounds.empty() ? nullptr : &bounds.back();
    if (last != nullptr && last->end == at && last->table == tables[i].name) {
      last->end = at + 1;
    } else {
      bounds.push_back({at, at + 1, tables[i].row_count, tables[i].name});
    }
  }
  return bounds;
}

}  // namespace plimsoll::layers
