// Where a training step of a model file goes, kernel by kernel and outside of any plan, and whether
// the kernel set's boxes are the right ones: each node of the step alone at the extent that the
// kernel set takes, and at 1, 2, 4, … samples a call.
//
//   step_kernels MODEL [batch, default 32] [seconds a measurement, default 0.02] [backend]
//                [part of a node's name; default: all nodes]
//
// Prints a table by operator (milliseconds of a step at the boxes, and at each node's fastest
// extent; floating-point operations a second as the operators count them), the nodes that lose most
// and the slowest nodes to standard error; one JSON object to standard output. Nodes that are cut
// along other axes than the batch run whole there.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/model_file.h"
#include "node_bench.h"
#include "planning/planning.h"

namespace {

using namespace plimsoll;

constexpr int64_t kMostSamples = 128;
// Rounds in which a box and a faster extent are measured again, in turns: the least of many
// measurements is otherwise faster by chance.
constexpr int kRounds = 4;
// What a call may hold when other extents are tried.
constexpr double kMostBytes = 1 << 30;

struct Row {
  std::string name;
  double seconds = 0;  // of a step, at the box
  double best = 0;     // at the fastest extent
  double flops = 0;
  int64_t calls = 0;
  int64_t box = 0;
  int64_t fastest = 0;
  std::map<int64_t, double> by_extent;  // seconds of a step

  double lost() const { return seconds - best; }
};

// One node of a program at several extents of the batch.
class Node {
 public:
  Node(const planning::Lowered& lowered, const graph::Program& program, graph::NodeId id)
      : lowered_(lowered), program_(program), id_(id), alone_(program.graph) {
    const graph::Node& node = program.graph.node(id);
    // Values of this node alone: all of a step at once would not fit.
    std::vector<bool> used(alone_.values.size(), false);
    for (graph::ValueId value : node.inputs) used[value.index()] = true;
    for (graph::ValueId value : node.outputs) used[value.index()] = true;
    for (size_t v = 0; v < used.size(); ++v) {
      if (!used[v]) alone_.values[v].type = {DType::kFloat32, Shape()};
    }
    const std::vector<graph::Axis> axes = axes_of(program.graph, id);
    const int axis = graph::find_axis(axes, graph::kBatchAxis);
    batched_ = axis >= 0;
    box_ = program.batch;
    if (!batched_) return;
    const graph::Block block = lowered.backend->catalog().block(program.graph, id);
    const int64_t extent = block[static_cast<size_t>(axis)];
    if (extent != graph::kWholeAxis) box_ = std::min(box_, extent);
  }

  bool batched() const { return batched_; }
  int64_t box() const { return box_; }

  bool fits(int64_t samples) const {
    double bytes = 0;
    for (const graph::Value& value : alone_.values) {
      bytes +=
          static_cast<double>(tensor_bytes(value.type.dtype, value.type.shape, samples).count());
    }
    return bytes <= kMostBytes;
  }

  // Seconds of a step, at so many samples a call.
  double seconds(int64_t samples, double budget) const {
    const bench::Values values(alone_, samples);
    bench::NodeRunner runner(*lowered_.backend, program_.graph, id_, program_.batch, samples,
                             values);
    const int64_t calls = batched_ ? (program_.batch + samples - 1) / samples : 1;
    return runner.time(budget) * static_cast<double>(calls);
  }

 private:
  const planning::Lowered& lowered_;
  const graph::Program& program_;
  graph::NodeId id_;
  graph::Graph alone_;
  bool batched_ = false;
  int64_t box_ = 0;
};

Row measure(const planning::Lowered& lowered, const graph::Program& program, graph::NodeId id,
            double budget) {
  const graph::Node& node = program.graph.node(id);
  const Node alone(lowered, program, id);
  Row row;
  row.name = std::string(node.op->name()) + " " + node.name;
  row.box = row.fastest = alone.box();
  row.calls = alone.batched() ? (program.batch + row.box - 1) / row.box : 1;
  const auto inputs = input_types(program.graph, id);
  const auto outputs = output_types(program.graph, id);
  row.flops = node.op->flops_per_sample({node.attributes, inputs, outputs}) *
              (alone.batched() ? static_cast<double>(program.batch) : 1.0);
  row.seconds = row.best = alone.seconds(row.box, budget);
  row.by_extent[row.box] = row.seconds;
  if (!alone.batched()) return row;
  for (int64_t extent = 1; extent <= std::min(program.batch, kMostSamples); extent *= 2) {
    if (extent == row.box || !alone.fits(extent)) continue;
    const double seconds = alone.seconds(extent, budget);
    row.by_extent[extent] = seconds;
    if (seconds >= row.best) continue;
    row.best = seconds;
    row.fastest = extent;
  }
  if (row.fastest == row.box) return row;
  row.best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    row.seconds = std::min(row.seconds, alone.seconds(row.box, budget));
    row.best = std::min(row.best, alone.seconds(row.fastest, budget));
  }
  row.by_extent[row.box] = row.seconds;
  row.by_extent[row.fastest] = std::min(row.by_extent[row.fastest], row.best);
  if (row.best >= row.seconds) {
    row.best = row.seconds;
    row.fastest = row.box;
  }
  return row;
}

void print(const Row& row) {
  std::fprintf(stderr, "%10.3f ms %10.3f %8.1f GFLOP/s %5lld calls  %s\n", row.seconds * 1e3,
               row.best * 1e3, row.flops / row.seconds * 1e-9, static_cast<long long>(row.calls),
               row.name.c_str());
}

void print_first(const char* heading, std::vector<Row>& rows,
                 const std::function<double(const Row&)>& value) {
  std::ranges::sort(rows, [&](const Row& a, const Row& b) { return value(a) > value(b); });
  std::fprintf(stderr, "%s\n", heading);
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 16); ++i) {
    std::fprintf(stderr, "  box %3lld, fastest %3lld", static_cast<long long>(rows[i].box),
                 static_cast<long long>(rows[i].fastest));
    print(rows[i]);
  }
}

nlohmann::json json_of(const Row& row) {
  nlohmann::json extents;
  for (const auto& [extent, seconds] : row.by_extent) extents[std::to_string(extent)] = seconds;
  return {{"name", row.name},       {"seconds", row.seconds}, {"best_seconds", row.best},
          {"flops", row.flops},     {"calls", row.calls},     {"box", row.box},
          {"fastest", row.fastest}, {"by_extent", extents}};
}

std::vector<Row> measure_all(const planning::Lowered& lowered, const graph::Program& program,
                             double budget, std::string_view part) {
  std::vector<Row> rows;
  for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
    const graph::Node& node = program.graph.nodes[n];
    if (node.op->traits().state_write || node.op->traits().view) continue;
    if (node.name.find(part) == std::string::npos) continue;
    rows.push_back(measure(lowered, program, graph::NodeId(n), budget));
  }
  return rows;
}

std::vector<Row> by_operator(const std::vector<Row>& rows) {
  std::map<std::string, Row> sums;
  for (const Row& row : rows) {
    Row& sum = sums[row.name.substr(0, row.name.find(' '))];
    sum.name = row.name.substr(0, row.name.find(' '));
    sum.seconds += row.seconds;
    sum.best += row.best;
    sum.flops += row.flops;
    sum.calls += row.calls;
  }
  std::vector<Row> all;
  all.reserve(sums.size());
  for (const auto& [name, row] : sums) all.push_back(row);
  std::ranges::sort(all, [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(
        stderr,
        "usage: step_kernels MODEL [batch] [seconds a measurement] [backend] [part of a name]\n");
    return 2;
  }
  const int64_t batch = argc > 2 ? std::atoll(argv[2]) : 32;
  const double budget = argc > 3 ? std::atof(argv[3]) : 0.02;
  const formats::LoadedModel loaded = formats::load_model(argv[1]);
  layers::BatchSizes sizes;
  sizes.train = batch;
  planning::PlanRequest request;
  if (argc > 4) request.backend = argv[4];
  const planning::Lowered lowered = planning::lower(
      loaded.model, loaded.compile.value_or(layers::CompileOptions()), sizes, request, 0);
  const graph::Program& program = lowered.built.set.programs.front();
  std::vector<Row> rows = measure_all(lowered, program, budget, argc > 5 ? argv[5] : "");
  nlohmann::json nodes = nlohmann::json::array();
  Row total;
  for (const Row& row : rows) {
    nodes.push_back(json_of(row));
    total.seconds += row.seconds;
    total.best += row.best;
  }
  const std::string kernel_set(lowered.backend->catalog().kernel_set());
  std::fprintf(stderr, "%s: %s, batch %lld, %.3f ms at the boxes, %.3f at the fastest extents\n",
               program.name.c_str(), kernel_set.c_str(), static_cast<long long>(batch),
               total.seconds * 1e3, total.best * 1e3);
  for (const Row& row : by_operator(rows)) print(row);
  print_first("most lost", rows, &Row::lost);
  print_first("slowest nodes", rows, [](const Row& row) { return row.seconds; });
  const nlohmann::json whole = {{"batch", batch},
                                {"kernel_set", kernel_set},
                                {"seconds", total.seconds},
                                {"best_seconds", total.best},
                                {"nodes", nodes}};
  std::printf("%s\n", whole.dump().c_str());
  return 0;
}
