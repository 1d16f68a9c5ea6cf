#include "layers/index_bounds.h"

#include <algorithm>
#include <utility>

#include "graph/op.h"

namespace plimsoll::layers {
namespace {

using graph::Node;
using graph::Value;
using graph::ValueId;

// Elements [begin, end) of a sample that are followed.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
};
// In rising order, with a gap between any two. Nothing here is as long as a sample is: an input may
// have millions of elements that one table's rows are named by.
using Runs = std::vector<Run>;

struct Table {
  int64_t row_count = 0;
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

// Elements in one step of axis `axis` − 1: of all dimensions from `axis` on.
int64_t stride_of(const std::vector<int64_t>& dims, size_t axis) {
  int64_t elements = 1;
  for (size_t d = axis; d < dims.size(); ++d) elements *= dims[d];
  return elements;
}

Runs all_of(const std::vector<int64_t>& dims) { return {{0, stride_of(dims, 0)}}; }

bool is_all(const Runs& runs, const std::vector<int64_t>& dims) {
  return runs.size() == 1 && runs[0].begin == 0 && runs[0].end == stride_of(dims, 0);
}

Runs in_order(Runs runs) {
  std::ranges::sort(runs, {}, &Run::begin);
  Runs joined;
  for (const Run& run : runs) {
    if (!joined.empty() && run.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, run.end);
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

class Tracer {
 public:
  Tracer(const graph::Graph& graph, int input, std::vector<IndexBound>& bounds)
      : graph_(graph), input_(input), bounds_(bounds) {}

  // `runs` of a sample of `id` are looked up in `table`.
  void follow(ValueId id, const Runs& runs, const Table& table) {
    const Value& value = graph_.values[id.index()];
    if (value.kind == graph::ValueKind::kInput) {
      if (value.input == input_) bound(runs, table);
      return;
    }
    if (value.kind != graph::ValueKind::kNode || !value.type.shape.has_batch()) return;
    const Node& node = graph_.nodes[value.producer.index()];
    const std::string_view op = node.op->name();
    // Folding the batch leaves the elements of a sample in their order.
    if (op == "cast" || op == "reshape" || op == "fold_batch" || op == "unfold_batch") {
      follow(node.inputs[0], runs, table);
    } else if (op == "slice" || op == "transpose" || op == "reverse" || op == "crop2d") {
      follow(node.inputs[0], moved(node, value.type.shape, runs), table);
    } else if (op == "concat") {
      follow_parts(node, value.type.shape, runs, table);
    }
  }

 private:
  const Shape& shape_of(ValueId id) const { return graph_.values[id.index()].type.shape; }

  // The smallest table counts where several read an element.
  void bound(const Runs& runs, const Table& table) {
    std::vector<IndexBound> merged;
    const auto add = [&](int64_t begin, int64_t end, int64_t row_count, const std::string& name) {
      if (begin >= end) return;
      IndexBound* last = merged.empty() ? nullptr : &merged.back();
      if (last != nullptr && last->end == begin && last->table == name) {
        last->end = end;
      } else {
        merged.push_back({begin, end, row_count, name});
      }
    };
    size_t known = 0;
    for (const Run& run : runs) {
      int64_t at = run.begin;
      for (; known < bounds_.size() && bounds_[known].begin < run.end; ++known) {
        IndexBound& other = bounds_[known];
        add(other.begin, std::min(other.end, at), other.row_count, other.table);
        add(at, other.begin, table.row_count, table.name);
        at = std::max(at, other.begin);
        const int64_t end = std::min(other.end, run.end);
        const bool smaller = table.row_count < other.row_count;
        add(at, end, smaller ? table.row_count : other.row_count,
            smaller ? table.name : other.table);
        at = std::max(at, end);
        other.begin = std::max(other.begin, end);
        if (other.begin < other.end) break;  // it reaches beyond the run
      }
      add(at, run.end, table.row_count, table.name);
    }
    for (; known < bounds_.size(); ++known) {
      const IndexBound& other = bounds_[known];
      add(other.begin, other.end, other.row_count, other.table);
    }
    bounds_ = std::move(merged);
  }

  // Attribute "axis" among the dimensions behind the batch.
  static size_t axis_of(const Node& node, const Shape& shape) {
    const int64_t axis = node.attributes.get_int("axis", -1);
    return static_cast<size_t>((axis < 0 ? axis + shape.rank() : axis) - 1);
  }

  // Of the output of a slice, transpose, reverse or crop2d: as many elements from a multiple of
  // that lie side by side in its input, too.
  static int64_t elements_together(const Node& node, const Shape& shape,
                                   const std::vector<int64_t>& to) {
    const std::string_view op = node.op->name();
    if (op == "slice") return stride_of(to, axis_of(node, shape));
    if (op == "crop2d") return stride_of(to, 1);
    if (op == "reverse") return stride_of(to, axis_of(node, shape) + 1);
    const std::vector<int64_t>& order = node.attributes.get_ints("permutation");
    size_t kept = to.size();
    while (kept > 0 && order[kept - 1] == static_cast<int64_t>(kept)) --kept;
    return stride_of(to, kept);
  }

  // Where an element of such an output comes from.
  static int64_t source_of(const Node& node, const Shape& shape, std::vector<int64_t> index,
                           const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
    const std::string_view op = node.op->name();
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
    return element_at(index, from);
  }

  Runs moved(const Node& node, const Shape& shape, const Runs& runs) const {
    const std::vector<int64_t> to = dims_of(shape);
    const std::vector<int64_t> from = dims_of(shape_of(node.inputs[0]));
    // Turned as a whole.
    if (is_all(runs, to) && stride_of(from, 0) == stride_of(to, 0)) return all_of(from);
    const int64_t together = elements_together(node, shape, to);
    Runs result;
    for (const Run& run : runs) {
      for (int64_t at = run.begin; at < run.end;) {
        const int64_t end = std::min(run.end, (at / together + 1) * together);
        const int64_t source = source_of(node, shape, index_of(at, to), to, from);
        result.push_back({source, source + end - at});
        at = end;
      }
    }
    return in_order(std::move(result));
  }

  void follow_parts(const Node& node, const Shape& shape, const Runs& runs, const Table& table) {
    const std::vector<int64_t> to = dims_of(shape);
    const size_t axis = axis_of(node, shape);
    const int64_t step = stride_of(to, axis);  // from one piece of a part to the next
    int64_t begin = 0;                         // of the part's first piece
    for (ValueId part : node.inputs) {
      const std::vector<int64_t> from = dims_of(shape_of(part));
      const int64_t piece = stride_of(from, axis);
      Runs own;
      if (is_all(runs, to)) {
        own = all_of(from);
      } else {
        for (const Run& run : runs) {
          for (int64_t n = run.begin / step; n * step < run.end; ++n) {
            const int64_t first = n * step + begin;
            const Run here{std::max(run.begin, first), std::min(run.end, first + piece)};
            if (here.begin >= here.end) continue;
            const int64_t source = n * piece + here.begin - first;
            own.push_back({source, source + here.end - here.begin});
          }
        }
        own = in_order(std::move(own));
      }
      if (!own.empty()) follow(part, own, table);
      begin += piece;
    }
  }

  const graph::Graph& graph_;
  int input_;
  std::vector<IndexBound>& bounds_;
};

}  // namespace

std::vector<IndexBound> index_bounds(const graph::Graph& graph, int input) {
  std::vector<IndexBound> bounds;
  Tracer tracer(graph, input, bounds);
  for (const Node& node : graph.nodes) {
    if (node.op->name() != "embedding") continue;
    const Value& table = graph.values[node.inputs[1].index()];
    const Shape& ids = graph.values[node.inputs[0].index()].type.shape;
    const std::string name = table.kind == graph::ValueKind::kState
                                 ? graph.states[table.state.index()].name
                                 : node.layer;
    tracer.follow(node.inputs[0], {{0, ids.elements_per_sample()}},
                  {table.type.shape[0].count, name});
  }
  return bounds;
}

}  // namespace plimsoll::layers
