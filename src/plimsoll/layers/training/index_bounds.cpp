#include "layers/training/index_bounds.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "graph/op.h"

namespace plimsoll::layers {
namespace {

using graph::ElementMoves;
using graph::Node;
using graph::Value;
using graph::ValueId;

// Pieces of a sample that are looked at one by one, at most.
constexpr int64_t kMostPieces = 1 << 16;

// Elements [begin + i * step, end + i * step) of a sample that are followed, i below `count`.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 0;
  int64_t count = 1;
  int64_t last_end() const { return end + (count - 1) * step; }
};
// In rising order of their begins, without overlaps. Nothing here is as long as a sample is: an
// input may have millions of elements that one table's rows are named by.
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
  return runs.size() == 1 && runs[0].count == 1 && runs[0].begin == 0 &&
         runs[0].end == stride_of(dims, 0);
}

// Pieces of one length at one distance become one run, as far as they follow each other.
Runs by_pattern(const Runs& pieces) {
  Runs found;
  for (const Run& piece : pieces) {
    Run* last = found.empty() ? nullptr : &found.back();
    if (last != nullptr && piece.count == 1 && last->end - last->begin == piece.end - piece.begin) {
      const int64_t step = last->count == 1 ? piece.begin - last->begin : last->step;
      if (piece.begin == last->begin + last->count * step) {
        last->step = step;
        ++last->count;
        continue;
      }
    }
    found.push_back(piece);
  }
  return found;
}

[[noreturn]] void refuse_pieces(const Table& table) {
  throw Error(
      ErrorKind::kModel,
      fmt::format("[{}] expected numbers in at most {} pieces of a sample, received more. Put the "
                  "numbers that name rows of this table into an input of their own.",
                  table.name, kMostPieces));
}

// Each piece a run of its own, in rising order; pieces that touch are one.
Runs one_by_one(const Runs& runs, const Table& table) {
  int64_t total = 0;
  for (const Run& run : runs) {
    total += std::min(run.count, kMostPieces + 1);
    if (total > kMostPieces) refuse_pieces(table);
  }
  Runs pieces;
  pieces.reserve(static_cast<size_t>(total));
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.count; ++i) {
      pieces.push_back({run.begin + i * run.step, run.end + i * run.step});
    }
  }
  std::ranges::sort(pieces, {}, &Run::begin);
  return pieces;
}

// Whether no element is in both.
bool are_apart(const Run& a, const Run& b) {
  if (a.last_end() <= b.begin || b.last_end() <= a.begin) return true;
  if (a.step != b.step || a.step == 0) return false;
  const int64_t step = a.step;
  const int64_t first = a.begin % step;
  const int64_t second = b.begin % step;
  const int64_t a_end = first + a.end - a.begin;
  const int64_t b_end = second + b.end - b.begin;
  return a_end <= step && b_end <= step && (a_end <= second || b_end <= first);
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
  return by_pattern(joined);
}

// What names rows of which table.
struct Found {
  Run run;
  const Table* table = nullptr;
};

class Tracer {
 public:
  Tracer(const graph::Graph& graph, int input) : graph_(graph), input_(input) {}

  std::vector<IndexBound> bounds() const {
    std::vector<IndexBound> bounds;
    for (const auto& [run, table] : found_) {
      bounds.push_back({run.begin, run.end, table->row_count, table->name, run.step, run.count});
    }
    return bounds;
  }

  // `runs` of a sample of `id` are looked up in `table`, which outlives this.
  void follow(ValueId id, const Runs& runs, const Table& table) {
    const Value& value = graph_.values[id.index()];
    if (value.kind == graph::ValueKind::kInput) {
      if (value.input == input_) bound(runs, table);
      return;
    }
    if (value.kind != graph::ValueKind::kNode || !value.type.shape.has_batch()) return;
    const Node& node = graph_.nodes[value.producer.index()];
    const std::vector<graph::ValueType> inputs = graph::input_types(graph_, value.producer);
    const std::vector<graph::ValueType> outputs = graph::output_types(graph_, value.producer);
    const ElementMoves moves = node.op->element_moves({node.attributes, inputs, outputs});
    switch (moves.kind) {
      case ElementMoves::Kind::kNone:
        return;
      case ElementMoves::Kind::kInOrder:
        return follow(node.inputs[0], runs, table);
      case ElementMoves::Kind::kByIndex:
        return follow(node.inputs[0], moved(moves, node.inputs[0], value.type.shape, runs, table),
                      table);
      case ElementMoves::Kind::kJoined:
        return follow_parts(node, moves.axis, value.type.shape, runs, table);
    }
  }

 private:
  const Shape& shape_of(ValueId id) const { return graph_.values[id.index()].type.shape; }

  // The smallest table counts where several read an element.
  void bound(const Runs& runs, const Table& table) {
    Runs apart;
    Runs shared;
    // Each run is held against all that were found; many are sooner joined piece by piece.
    const bool few = std::ssize(runs) * std::ssize(found_) <= kMostPieces;
    for (const Run& run : runs) {
      const bool is_apart = few && std::ranges::all_of(found_, [&](const Found& other) {
                              return are_apart(run, other.run);
                            });
      (is_apart || found_.empty() ? apart : shared).push_back(run);
    }
    if (!shared.empty()) join(one_by_one(shared, table), table);
    for (const Run& run : apart) found_.push_back({run, &table});
    std::ranges::sort(found_, {}, [](const Found& one) { return one.run.begin; });
  }

  // Joins `pieces` and all that was found, piece by piece.
  void join(const Runs& pieces, const Table& table) {
    std::vector<Found> known = all_pieces(table);
    std::vector<Found> merged;
    const auto add = [&](int64_t begin, int64_t end, const Table* whose) {
      if (begin >= end) return;
      Found* last = merged.empty() ? nullptr : &merged.back();
      if (last != nullptr && last->run.end == begin && last->table == whose) {
        last->run.end = end;
      } else {
        merged.push_back({{begin, end}, whose});
      }
    };
    size_t next = 0;
    for (const Run& piece : pieces) {
      int64_t at = piece.begin;
      for (; next < known.size() && known[next].run.begin < piece.end; ++next) {
        Run& other = known[next].run;
        const Table* whose = known[next].table;
        add(other.begin, std::min(other.end, at), whose);
        add(at, other.begin, &table);
        at = std::max(at, other.begin);
        const int64_t end = std::min(other.end, piece.end);
        add(at, end, table.row_count < whose->row_count ? &table : whose);
        at = std::max(at, end);
        other.begin = std::max(other.begin, end);
        if (other.begin < other.end) break;  // it reaches beyond the piece
      }
      add(at, piece.end, &table);
    }
    for (; next < known.size(); ++next) {
      add(known[next].run.begin, known[next].run.end, known[next].table);
    }
    keep(merged);
  }

  std::vector<Found> all_pieces(const Table& table) const {
    std::vector<Found> pieces;
    int64_t total = 0;
    for (const Found& one : found_) {
      for (const Run& piece : one_by_one({one.run}, table)) pieces.push_back({piece, one.table});
      total += one.run.count;
      if (total > kMostPieces) refuse_pieces(table);
    }
    std::ranges::sort(pieces, {}, [](const Found& one) { return one.run.begin; });
    return pieces;
  }

  void keep(const std::vector<Found>& pieces) {
    std::vector<std::pair<const Table*, Runs>> by_table;
    for (const Found& piece : pieces) {
      auto own = std::ranges::find(by_table, piece.table, &std::pair<const Table*, Runs>::first);
      if (own == by_table.end()) own = by_table.insert(own, {piece.table, {}});
      own->second.push_back(piece.run);
    }
    found_.clear();
    for (const auto& [whose, runs] : by_table) {
      for (const Run& run : by_pattern(runs)) found_.push_back({run, whose});
    }
  }

  // From the last dimension outwards, those that stay in place whole.
  static size_t whole_from(const ElementMoves& moves, const std::vector<int64_t>& to,
                           const std::vector<int64_t>& from) {
    size_t d = to.size();
    while (d > 0 && stays(moves, d - 1) && to[d - 1] == from[d - 1]) --d;
    return d;
  }
  static bool stays(const ElementMoves& moves, size_t d) {
    return moves.dims[d].source == d && !moves.dims[d].reversed;
  }

  // Where an element of such an output comes from.
  static int64_t source_of(const ElementMoves& moves, const std::vector<int64_t>& index,
                           const std::vector<int64_t>& from) {
    std::vector<int64_t> source(from.size());
    for (size_t d = 0; d < index.size(); ++d) {
      const ElementMoves::Dimension& dim = moves.dims[d];
      source[dim.source] = dim.begin + (dim.reversed ? -index[d] : index[d]);
    }
    return element_at(source, from);
  }

  Runs moved(const ElementMoves& moves, ValueId input, const Shape& shape, const Runs& runs,
             const Table& table) const {
    const std::vector<int64_t> to = dims_of(shape);
    const std::vector<int64_t> from = dims_of(shape_of(input));
    // Transposed as a whole.
    if (is_all(runs, to) && stride_of(from, 0) == stride_of(to, 0)) return all_of(from);
    // So many elements from a multiple of that on lie side by side in the input, too: whole
    // dimensions, and a part of the one around them.
    const size_t whole = whole_from(moves, to, from);
    const size_t cut = whole > 0 && stays(moves, whole - 1) ? whole - 1 : whole;
    const int64_t together = stride_of(to, cut);
    if (is_all(runs, to) && cut < whole && whole_around(moves, cut, to, from)) {
      const int64_t begin = moves.dims[cut].begin * stride_of(from, whole);
      return in_order(
          {{begin, begin + together, stride_of(from, cut), stride_of(to, 0) / together}});
    }
    Runs result;
    for (const Run& run : one_by_one(runs, table)) {
      for (int64_t at = run.begin; at < run.end;) {
        const int64_t end = std::min(run.end, (at / together + 1) * together);
        const int64_t source = source_of(moves, index_of(at, to), from);
        result.push_back({source, source + end - at});
        if (static_cast<int64_t>(result.size()) > kMostPieces) refuse_pieces(table);
        at = end;
      }
    }
    return in_order(std::move(result));
  }

  // Whether all dimensions in front of `cut` stay in place whole.
  static bool whole_around(const ElementMoves& moves, size_t cut, const std::vector<int64_t>& to,
                           const std::vector<int64_t>& from) {
    for (size_t d = 0; d < cut; ++d) {
      if (!stays(moves, d) || to[d] != from[d]) return false;
    }
    return true;
  }

  void follow_parts(const Node& node, size_t axis, const Shape& shape, const Runs& runs,
                    const Table& table) {
    const std::vector<int64_t> to = dims_of(shape);
    const int64_t step = stride_of(to, axis);  // from one piece of a part to the next
    int64_t begin = 0;                         // of the part's first piece
    for (ValueId part : node.inputs) {
      const std::vector<int64_t> from = dims_of(shape_of(part));
      const int64_t piece = stride_of(from, axis);
      Runs own;
      if (is_all(runs, to)) {
        own = all_of(from);
      } else {
        for (const Run& run : one_by_one(runs, table)) {
          for (int64_t n = run.begin / step; n * step < run.end; ++n) {
            const int64_t first = n * step + begin;
            const Run here{std::max(run.begin, first), std::min(run.end, first + piece)};
            if (here.begin >= here.end) continue;
            const int64_t source = n * piece + here.begin - first;
            own.push_back({source, source + here.end - here.begin});
            if (static_cast<int64_t>(own.size()) > kMostPieces) refuse_pieces(table);
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
  std::vector<Found> found_;  // without overlaps, in the order of their begins
};

}  // namespace

std::vector<IndexBound> index_bounds(const graph::Graph& graph, int input) {
  std::deque<Table> tables;
  Tracer tracer(graph, input);
  for (const Node& node : graph.nodes) {
    const graph::RowLookup lookup = node.op->traits().lookup;
    if (lookup.table < 0) continue;
    const ValueId rows = node.inputs[static_cast<size_t>(lookup.rows)];
    const Value& table = graph.values[node.inputs[static_cast<size_t>(lookup.table)].index()];
    const Shape& ids = graph.values[rows.index()].type.shape;
    const std::string name = table.kind == graph::ValueKind::kState
                                 ? graph.states[table.state.index()].name
                                 : node.layer;
    tables.push_back({table.type.shape[0].count, name});
    tracer.follow(rows, {{0, ids.elements_per_sample()}}, tables.back());
  }
  return tracer.bounds();
}

}  // namespace plimsoll::layers
