// Where a training step of a model file goes, kernel by kernel and outside of any plan: each node
// of the step alone at the extent that the kernel set takes, times the blocks of the batch. Nodes
// that are cut along other axes than the batch run whole there.
//
//   step_kernels MODEL [batch, default 32] [seconds per node, default 0.05] [backend]
//
// Prints a table by operator (milliseconds a step, and floating-point operations a second as
// the operators count them) and the slowest nodes to standard error, one JSON line to standard
// output.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "formats/model_file.h"
#include "node_bench.h"
#include "train/planning.h"

namespace {

using namespace plimsoll;

struct Row {
  std::string name;
  double seconds = 0;
  double flops = 0;
  int64_t calls = 0;
};

Row measure(const train::Lowered& lowered, const graph::Program& program, graph::NodeId id,
            double budget) {
  const graph::Graph& graph = program.graph;
  const graph::Node& node = graph.node(id);
  const std::vector<graph::Axis> axes = axes_of(graph, id);
  const int axis = graph::find_axis(axes, graph::kBatchAxis);
  const graph::Block block = lowered.backend->catalog().block(graph, id);
  int64_t samples = program.batch;
  if (axis >= 0 && block[static_cast<size_t>(axis)] != graph::kWholeAxis) {
    samples = std::min(samples, block[static_cast<size_t>(axis)]);
  }
  const auto inputs = input_types(graph, id);
  const auto outputs = output_types(graph, id);
  Row row{std::string(node.op->name()) + " " + node.name, 0, 0,
          axis < 0 ? 1 : (program.batch + samples - 1) / samples};
  row.flops = node.op->flops_per_sample({node.attributes, inputs, outputs}) *
              (axis < 0 ? 1.0 : static_cast<double>(program.batch));
  // Values of this node alone: all of a step at once would not fit.
  graph::Graph alone = graph;
  std::vector<bool> used(graph.values.size(), false);
  for (graph::ValueId value : node.inputs) used[value.index()] = true;
  for (graph::ValueId value : node.outputs) used[value.index()] = true;
  for (size_t v = 0; v < used.size(); ++v) {
    if (!used[v]) alone.values[v].type = {DType::kFloat32, Shape()};
  }
  const bench::Values values(alone, samples);
  bench::NodeRunner runner(*lowered.backend, graph, id, program.batch, samples, values);
  row.seconds = runner.time(budget) * static_cast<double>(row.calls);
  return row;
}

void print(const Row& row) {
  std::fprintf(stderr, "%10.3f ms %8.1f GFLOP/s %5lld calls  %s\n", row.seconds * 1e3,
               row.flops / row.seconds * 1e-9, static_cast<long long>(row.calls), row.name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: step_kernels MODEL [batch] [seconds per node]\n");
    return 2;
  }
  const int64_t batch = argc > 2 ? std::atoll(argv[2]) : 32;
  const double budget = argc > 3 ? std::atof(argv[3]) : 0.05;
  const formats::LoadedModel loaded = formats::load_model(argv[1]);
  layers::BatchSizes sizes;
  sizes.train = batch;
  train::PlanRequest request;
  if (argc > 4) request.backend = argv[4];
  const train::Lowered lowered = train::lower(
      loaded.model, loaded.compile.value_or(layers::CompileOptions()), sizes, request, 0);
  const graph::Program& program = lowered.built.set.programs.front();
  std::map<std::string, Row> by_op;
  std::vector<Row> rows;
  double total = 0;
  for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
    const graph::Node& node = program.graph.nodes[n];
    if (node.op->traits().state_write || node.op->traits().view) continue;
    rows.push_back(measure(lowered, program, graph::NodeId(n), budget));
    Row& sum = by_op[std::string(node.op->name())];
    sum.name = node.op->name();
    sum.seconds += rows.back().seconds;
    sum.flops += rows.back().flops;
    sum.calls += rows.back().calls;
    total += rows.back().seconds;
  }
  std::string json;
  std::vector<Row> ops;
  for (const auto& [name, row] : by_op) ops.push_back(row);
  const auto slower = [](const Row& a, const Row& b) { return a.seconds > b.seconds; };
  std::ranges::sort(ops, slower);
  std::ranges::sort(rows, slower);
  std::fprintf(stderr, "%s: %s, batch %lld, %.3f ms\n", lowered.built.set.programs[0].name.c_str(),
               lowered.backend->catalog().kernel_set().c_str(), static_cast<long long>(batch),
               total * 1e3);
  for (const Row& row : ops) {
    print(row);
    char text[160];
    std::snprintf(text, sizeof(text), "%s\"%s\": %.4f", json.empty() ? "" : ", ", row.name.c_str(),
                  row.seconds * 1e3);
    json += text;
  }
  std::fprintf(stderr, "slowest nodes\n");
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 16); ++i) print(rows[i]);
  std::printf("{\"batch\": %lld, \"ms\": %.4f, \"ms_by_operator\": {%s}}\n",
              static_cast<long long>(batch), total * 1e3, json.c_str());
  return 0;
}
