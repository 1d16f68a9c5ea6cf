#include "train/profile.h"

#include "exec/step_times.h"
#include "graph/op.h"

namespace plimsoll::train {
namespace {

using exec::StepTime;

const char* kind_name(StepTime::Kind kind) {
  switch (kind) {
    case StepTime::Kind::kCall:
      return "kernel";
    case StepTime::Kind::kData:
      return "data";
    case StepTime::Kind::kTransfer:
      return "transfer";
    case StepTime::Kind::kOther:
      break;
  }
  return "other";
}

const char* family_name(graph::OpFamily family) {
  switch (family) {
    case graph::OpFamily::kConvolution:
      return "convolution";
    case graph::OpFamily::kDense:
      return "dense";
    case graph::OpFamily::kRecurrent:
      return "recurrent";
    case graph::OpFamily::kAttention:
      return "attention";
    case graph::OpFamily::kOther:
      break;
  }
  return "other";
}

double bytes_of(const std::vector<graph::ValueType>& types, int64_t batch) {
  double bytes = 0;
  for (const graph::ValueType& type : types) {
    bytes +=
        static_cast<double>(type.shape.element_count(batch) * element_bytes(type.dtype).count());
  }
  return bytes;
}

report::ProfileRow describe(const StepTime& time, const graph::Program& program, int64_t runs) {
  report::ProfileRow row;
  row.what = time.name;
  row.kind = kind_name(time.kind);
  row.calls = time.runs;
  row.seconds = time.seconds;
  if (time.kind != StepTime::Kind::kCall) return row;
  const graph::Node& node = program.graph.node(time.node);
  const std::vector<graph::ValueType> inputs = graph::input_types(program.graph, time.node);
  const std::vector<graph::ValueType> outputs = graph::output_types(program.graph, time.node);
  row.layer = node.layer;
  row.op = node.op->name();
  row.family = family_name(node.op->traits().work.family);
  if (node.op->traits().view) return row;
  const bool batched =
      graph::find_axis(graph::axes_of(program.graph, time.node), graph::kBatchAxis) >= 0;
  const auto samples = static_cast<double>(batched ? program.batch * runs : runs);
  row.flops = node.op->flops_per_sample({node.attributes, inputs, outputs}) * samples;
  row.bf16 = !inputs.empty() && inputs.front().dtype == DType::kBFloat16;
  row.bytes = (bytes_of(inputs, program.batch) + bytes_of(outputs, program.batch)) *
              static_cast<double>(runs);
  return row;
}

}  // namespace

report::Profile make_profile(const exec::Executor& executor, const graph::ProgramSet& programs,
                             std::span<const std::vector<double>> estimates) {
  report::Profile profile;
  for (size_t p = 0; p < programs.programs.size(); ++p) {
    const exec::StepTimes* times = executor.times(p);
    if (times == nullptr || times->runs() == 0) continue;
    const graph::Program& program = programs.programs[p];
    report::ProgramProfile result{program.name, times->runs(), times->seconds(), {}, {}};
    std::vector<size_t> row_of(times->steps().size());
    for (size_t s = 0; s < times->steps().size(); ++s) {
      const StepTime& time = times->steps()[s];
      row_of[s] = result.rows.size();
      if (time.runs == 0) continue;
      result.rows.push_back(describe(time, program, times->runs()));
      result.rows.back().phase = time.phase;
      const auto item = static_cast<size_t>(time.item);
      if (p >= estimates.size() || item >= estimates[p].size()) continue;
      result.rows.back().estimated = estimates[p][item] * static_cast<double>(times->runs());
    }
    for (const exec::StepMark& mark : times->marks()) {
      result.marks.push_back({row_of[mark.step], mark.begin, mark.seconds});
    }
    profile.programs.push_back(std::move(result));
  }
  return profile;
}

}  // namespace plimsoll::train
