#include "exec/tuning.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "backend/cpu/threads/threads.h"
#include "backend/kernel/region.h"
#include "base/accounted.h"
#include "base/cpu.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/threads/denormals.h"
#include "exec/spill_file.h"
#include "graph/lanes.h"
#include "plan/core/extents.h"

namespace plimsoll::exec {
namespace {

using graph::NodeId;
using Time = std::chrono::steady_clock;

constexpr double kSecondsPerKernel = 0.01;
constexpr int kLeastRuns = 3;
constexpr int kMostRuns = 50;
constexpr double kLongCall = 0.1;  // seconds, from where on two runs do
constexpr int kReports = 10;

double seconds_since(Time::time_point begin) {
  return std::chrono::duration<double>(Time::now() - begin).count();
}

// One call of a node on memory of its own.
class TimedCall {
 public:
  TimedCall(const graph::Program& program, NodeId node, std::span<const int64_t> extents)
      : request_{.graph = program.graph,
                 .node = node,
                 .batch = program.batch,
                 .extents = {extents.begin(), extents.end()},
                 .forms = {},
                 .input_dims = {},
                 .input_strides = {},
                 .output_dims = {},
                 .output_strides = {}},
        axes_(graph::axes_of(program.graph, node)),
        begin_(axes_.size(), 0) {
    const graph::Node& source = program.graph.node(node);
    request_.forms.assign(source.inputs.size(), "");
    for (size_t i = 0; i < source.inputs.size(); ++i) {
      add(source.inputs[i], backend::uses_of_input(axes_, i), false);
    }
    for (size_t o = 0; o < source.outputs.size(); ++o) {
      add(source.outputs[o], backend::uses_of_output(axes_, o), true);
    }
    // In the middle of a sum where there is more than one block.
    const int batch = graph::find_axis(axes_, graph::kBatchAxis);
    if (batch < 0) return;
    const auto b = static_cast<size_t>(batch);
    if (2 * extents[b] <= axes_[b].extent.at(program.batch)) {
      begin_[b] = extents[b];
      first_ = false;
    }
  }

  bool has_batch() const { return graph::find_axis(axes_, graph::kBatchAxis) >= 0; }

  Bytes bytes(const backend::Backend& backend) const {
    const Bytes scratch = backend.catalog().scratch(request_.graph, request_.node, request_.batch,
                                                    request_.extents, request_.forms);
    return operands_ + round_up(scratch, plan::kAlignment);
  }

  // The least seconds of a few runs, within `most_seconds` after the first three; `sweep`: written
  // in between.
  double time(backend::Backend& backend, std::span<std::byte> sweep, double most_seconds) {
    const std::unique_ptr<backend::Kernel> kernel = backend.make_kernel(request_);
    backend.finish_making();
    const PageBuffer memory(round_up(bytes(backend) + Bytes(1), page_size()));
    place(memory.data());
    const auto run = [&] {
      if (!sweep.empty()) std::memset(sweep.data(), 1, sweep.size());
      const Time::time_point begin = Time::now();
      kernel->run({inputs_, outputs_, memory.data() + operands_.count(), begin_, request_.extents,
                   first_, &step_});
      return seconds_since(begin);
    };
    double least = run();  // touches what it needs
    const Time::time_point started = Time::now();
    for (int i = 0; i < kMostRuns; ++i) {
      if (i >= kLeastRuns && seconds_since(started) > most_seconds) break;
      least = std::min(least, run());
      if (least > kLongCall) break;
    }
    return least;
  }

 private:
  // A value as a loop over the batch holds it: other axes have their whole extent.
  void add(graph::ValueId value, const std::vector<graph::AxisUse>& uses, bool output) {
    const graph::ValueType& type = request_.graph.value(value).type;
    std::vector<int64_t> held = request_.extents;
    for (size_t a = 0; a < axes_.size(); ++a) {
      const plan::LoopAxis axis = axes_[a].name;
      if (!axis.of_samples() && !axis.of_states()) held[a] = axes_[a].extent.at(request_.batch);
    }
    const std::vector<int64_t> zeros(axes_.size(), 0);
    const std::vector<int64_t> whole =
        backend::find_region(type, request_.batch, uses, zeros, held).dims;
    (output ? request_.output_dims : request_.input_dims)
        .push_back(backend::find_region(type, request_.batch, uses, zeros, request_.extents).dims);
    (output ? request_.output_strides : request_.input_strides)
        .push_back(backend::dense_strides(whole));
    places_.push_back({type.dtype, operands_, plan::instance_bytes(type, "", whole)});
    operands_ += round_up(places_.back().bytes, plan::kAlignment);
  }

  void place(std::byte* memory) {
    for (size_t o = 0; o < places_.size(); ++o) {
      const Place& place = places_[o];
      std::byte* data = memory + place.offset.count();
      fill(data, place);
      const size_t inputs = request_.input_dims.size();
      if (o < inputs) {
        inputs_.push_back({data, request_.input_dims[o], request_.input_strides[o]});
      } else {
        outputs_.push_back(
            {data, request_.output_dims[o - inputs], request_.output_strides[o - inputs]});
      }
    }
  }

  struct Place {
    DType dtype = DType::kFloat32;
    Bytes offset;
    Bytes bytes;
  };
  static void fill(std::byte* data, const Place& place) {
    const int64_t bytes = place.bytes.count();
    if (place.dtype == DType::kFloat32) {
      for (int64_t i = 0; i < bytes / 4; ++i) {
        const float number = 0.01F + 0.002F * static_cast<float>(i % 211);
        std::memcpy(data + 4 * i, &number, sizeof number);
      }
    } else if (place.dtype == DType::kBFloat16) {
      constexpr uint16_t kQuarter = 0x3e80;
      for (int64_t i = 0; i < bytes / 2; ++i) std::memcpy(data + 2 * i, &kQuarter, 2);
    } else {
      std::memset(data, 0, place.bytes.size());
    }
  }

  backend::KernelRequest request_;
  std::vector<graph::Axis> axes_;
  std::vector<int64_t> begin_;
  bool first_ = true;
  std::vector<Place> places_;  // inputs, then outputs
  Bytes operands_;
  std::vector<backend::Operand> inputs_;
  std::vector<backend::Operand> outputs_;
  backend::StepContext step_;
};

// Extents of the calls of a node that are timed, its block first.
std::vector<std::vector<int64_t>> find_extents(const graph::Program& program, NodeId node,
                                               const graph::KernelCatalog& catalog) {
  const graph::Graph& graph = program.graph;
  std::vector<int64_t> block =
      graph::concrete_block(graph, node, catalog.block(graph, node), program.batch);
  const std::vector<graph::Axis> axes = graph::axes_of(graph, node);
  const int batch = graph::find_axis(axes, graph::kBatchAxis);
  if (batch < 0) return {block};
  const auto b = static_cast<size_t>(batch);
  std::vector<std::vector<int64_t>> all;
  const auto add = [&](int64_t rows) {
    all.push_back(block);
    all.back()[b] = rows;
  };
  const int64_t lane = graph::lane_rows(axes[b], graph::lane_length(program));
  for (int64_t rows : graph::block_lengths(axes[b].extent.at(program.batch), lane, block[b])) {
    add(rows);
  }
  block = all.front();
  if (!catalog.row_exact(graph, node, batch)) return all;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(block[b])));
  for (int64_t rows = below; rows > 0; rows /= 2) {
    if (rows < block[b]) add(rows);
  }
  return all;
}

struct Wanted {
  const graph::Program* program = nullptr;
  NodeId node;
  std::vector<std::vector<int64_t>> extents;
};

// Each kernel once. Views and writes of state cost nothing where they are done in place, which is
// not a kernel's to say.
std::vector<Wanted> find_wanted(const graph::ProgramSet& programs,
                                const backend::Backend& backend) {
  std::vector<Wanted> wanted;
  std::set<uint64_t> seen;
  for (const graph::Program& program : programs.programs) {
    if (program.name == "initialize" || program.name == "slots" || program.name == "averages")
      continue;
    const std::shared_ptr<const void> remembered = backend.catalog().remember(program.graph);
    for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
      const graph::OpTraits traits = program.graph.nodes[n].op->traits();
      if (traits.view || traits.state_write) continue;
      Wanted each{&program, NodeId(n), {}};
      const uint64_t key = backend::node_key(program.graph, NodeId(n), program.batch);
      for (std::vector<int64_t>& extents : find_extents(program, NodeId(n), backend.catalog())) {
        if (seen.insert(backend::call_key(key, extents)).second) {
          each.extents.push_back(std::move(extents));
        }
      }
      if (!each.extents.empty()) wanted.push_back(std::move(each));
    }
  }
  return wanted;
}

}  // namespace

void time_kernels(const graph::ProgramSet& programs, backend::Backend& backend,
                  const TuningOptions& options, backend::KernelTimes& times) {
  const FlushDenormals flush;
  const MemoryTag tag(MemoryPart::kArena);  // whose room it is, which is free yet
  const backend::cpu::ThreadLimit threads(backend.catalog().thread_count());
  const std::vector<Wanted> wanted = find_wanted(programs, backend);
  const CpuInfo cpu = read_cpu_info();
  const Bytes caches = std::max(cpu.l3_bytes, cpu.l2_bytes) * 2;
  RateSums sums;
  for (size_t w = 0; w < wanted.size(); ++w) {
    const Wanted& each = wanted[w];
    if (options.tell && w * kReports / wanted.size() != (w + 1) * kReports / wanted.size()) {
      options.tell(fmt::format("timing kernels: {} of {}", w + 1, wanted.size()));
    }
    const graph::Graph& graph = each.program->graph;
    const uint64_t key = backend::node_key(graph, each.node, each.program->batch);
    for (const std::vector<int64_t>& extents : each.extents) {
      TimedCall call(*each.program, each.node, extents);
      const Bytes bytes = call.bytes(backend);
      if (bytes > options.room) continue;
      std::optional<PageBuffer> sweep;
      if (!call.has_batch() && options.room - bytes >= caches) sweep.emplace(caches);
      const double seconds = call.time(
          backend, sweep ? std::span(sweep->data(), sweep->size()) : std::span<std::byte>(),
          kSecondsPerKernel);
      const double estimated =
          backend.catalog().seconds(graph, each.node, each.program->batch, extents);
      times.seconds.set(backend::call_key(key, extents), seconds);
      if (extents == each.extents.front() && estimated > 0) {
        times.factors.set(key, seconds / estimated);
      }
      RateSum& sum = sums[backend::operator_key(graph, each.node)];
      sum.measured += seconds;
      sum.estimated += estimated;
    }
  }
  for (const auto& [key, sum] : sums) {
    if (sum.estimated > 0) times.factors.set(key, sum.measured / sum.estimated);
  }
}

void rate_kernels(const graph::ProgramSet& programs, backend::Backend& backend, Bytes room,
                  double seconds, RateSums& sums) {
  constexpr double kSecondsPerRate = 0.002;
  const FlushDenormals flush;
  const backend::cpu::ThreadLimit threads(backend.catalog().thread_count());
  const Time::time_point started = Time::now();
  for (const Wanted& each : find_wanted(programs, backend)) {
    if (seconds_since(started) > seconds) break;
    const graph::Graph& graph = each.program->graph;
    const std::vector<int64_t>& block = each.extents.front();
    TimedCall call(*each.program, each.node, block);
    if (call.bytes(backend) > room) continue;
    const double measured = call.time(backend, {}, kSecondsPerRate);
    const double estimated =
        backend.catalog().seconds(graph, each.node, each.program->batch, block);
    const backend::RateKeys keys = backend::rate_keys(graph, each.node, each.program->batch, block);
    for (const uint64_t key : keys.closest_first()) {
      sums[key].measured += measured;
      sums[key].estimated += estimated;
    }
  }
}

void set_rates(const RateSums& sums, backend::KernelTimes& times) {
  for (const auto& [key, sum] : sums) {
    if (sum.estimated <= 0) continue;
    times.rates.set(key, backend::rounded_rate(sum.measured / sum.estimated));
  }
}

namespace {

// Bytes a second of a copy in so many parts beside each other.
double copy_in_parts(Bytes room, int parts) {
  constexpr int64_t kMost = int64_t{64} << 20;
  constexpr int64_t kPage = 4096;
  constexpr int kTries = 5;
  const int64_t half = std::min(room.count() / 2, kMost) / kPage * kPage;
  if (half == 0) return 0;
  const MemoryTag tag(MemoryPart::kArena);
  const PageBuffer from{Bytes(half)};
  const PageBuffer to{Bytes(half)};
  std::memset(from.data(), 1, from.size());
  std::memset(to.data(), 2, to.size());
  double least = 0;
  for (int i = 0; i < kTries; ++i) {
    const Time::time_point begin = Time::now();
    backend::cpu::for_each_part(parts, [&](int part) {
      const backend::cpu::Range range = backend::cpu::part_of(half, kPage, part, parts);
      std::memcpy(to.data() + range.begin, from.data() + range.begin,
                  static_cast<size_t>(range.end - range.begin));
    });
    const double seconds = seconds_since(begin);
    if (i == 0 || seconds < least) least = seconds;
  }
  return least > 0 ? static_cast<double>(half) / least : 0;
}

}  // namespace

double measure_copying(Bytes room) { return copy_in_parts(room, 1); }

double measure_streaming(Bytes room, int threads) {
  const backend::cpu::ThreadLimit limit(threads);
  return 2 * copy_in_parts(room, threads);
}

backend::DiskSpeed measure_disk(const std::string& folder, Bytes bytes) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t pieces = std::max<int64_t>(bytes.count() / kPiece, 1);
  SpillFile file(folder, Bytes(pieces * kPiece));
  const PageBuffer buffer{Bytes(kPiece)};
  std::memset(buffer.data(), 1, buffer.size());
  const auto rate = [&](const auto& move) {
    const Time::time_point begin = Time::now();
    for (int64_t i = 0; i < pieces; ++i) move(i * kPiece);
    return static_cast<double>(pieces * kPiece) / std::max(seconds_since(begin), 1e-9);
  };
  backend::DiskSpeed speed;
  speed.folder = folder;
  speed.write = rate([&](int64_t at) { file.write_pages(buffer.data(), at, kPiece); });
  speed.read = rate([&](int64_t at) { file.read_pages(buffer.data(), at, kPiece); });
  return speed;
}

}  // namespace plimsoll::exec
