#include "layers/training/table_reads.h"

#include <utility>
#include <vector>

#include "base/format.h"

namespace plimsoll::layers {
namespace {

using graph::ValueId;

// Collects the lookups whose gradients `gradient` adds up; false where it has another part.
bool collect(const graph::GraphBuilder& builder, ValueId gradient, std::vector<TableReads>& found) {
  std::vector<ValueId> open = {gradient};
  while (!open.empty()) {
    const graph::Value& value = builder.graph().value(open.back());
    open.pop_back();
    if (value.kind != graph::ValueKind::kNode) return false;
    const graph::Node& node = builder.graph().node(value.producer);
    if (node.op->name() == "accumulate") {
      open.insert(open.end(), node.inputs.rbegin(), node.inputs.rend());
    } else if (node.op->name() == "embedding_grad" && node.inputs.size() == 2) {
      found.push_back({node.inputs[0], node.inputs[1], node.attributes.get_int("input_dim")});
    } else {
      return false;
    }
  }
  return true;
}

// One list of a sample's reads: (B, reads) and (B, reads, columns).
TableReads flatten(graph::GraphBuilder& builder, const TableReads& reads, const std::string& name) {
  const Shape& shape = builder.type(reads.gradients).shape;
  const int64_t columns = shape[shape.rank() - 1].count;
  const int64_t count = shape.elements_per_sample() / columns;
  TableReads flat = reads;
  if (builder.type(reads.rows).dtype != DType::kInt64) {
    flat.rows = builder.call("cast", name + "/rows", {reads.rows}, {{"dtype", "int64"}});
  }
  flat.rows = builder.call("reshape", name + "/flat_rows", {flat.rows},
                           {{"shape", std::vector<int64_t>{count}}});
  flat.gradients = builder.call("reshape", name + "/flat", {reads.gradients},
                                {{"shape", std::vector<int64_t>{count, columns}}});
  return flat;
}

}  // namespace

std::optional<TableReads> find_reads(graph::GraphBuilder& builder, ValueId gradient,
                                     const std::string& name) {
  std::vector<TableReads> found;
  if (!collect(builder, gradient, found)) return std::nullopt;
  if (found.size() == 1) return found.front();
  std::vector<ValueId> rows;
  std::vector<ValueId> gradients;
  for (size_t i = 0; i < found.size(); ++i) {
    // Rows that are the same for every sample are no list beside those of samples.
    if (!builder.type(found[i].rows).shape.has_batch()) return std::nullopt;
    const TableReads flat = flatten(builder, found[i], fmt::format("{}/reads_{}", name, i));
    rows.push_back(flat.rows);
    gradients.push_back(flat.gradients);
  }
  TableReads joined = found.front();
  joined.rows = builder.call("concat", name + "/rows", rows, {{"axis", 1}});
  joined.gradients = builder.call("concat", name + "/reads", gradients, {{"axis", 1}});
  return joined;
}

ValueId add_reads(graph::GraphBuilder& builder, const std::string& name, const TableReads& reads,
                  const std::string& what) {
  graph::Attributes attributes{{"input_dim", reads.table_rows}};
  if (what != "gradients") attributes.set("sum_of", what);
  return builder.call("embedding_grad", name, {reads.rows, reads.gradients}, attributes);
}

}  // namespace plimsoll::layers
