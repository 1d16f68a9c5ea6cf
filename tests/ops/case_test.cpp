// Every case against float64, finite differences, other backends, other blocks and addresses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/kernel/backends.h"
#include "backend/kernel/region.h"
#include "ops/cases.h"
#include "ops/evaluate.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"

namespace plimsoll::ops_test {
namespace {

using backend::Backend;
using graph::Graph;
using graph::NodeId;

std::unique_ptr<Backend> reference(const backend::KernelSetOptions& options = {}) {
  return backend::make_backend("reference", options);
}

double largest_magnitude(const std::vector<double>& numbers) {
  double most = 0;
  for (double x : numbers) most = std::max(most, std::abs(x));
  return most;
}

// Expects floats within tolerance of the largest expected magnitude, anything else equal.
void expect_close(const Graph& graph, ValueId value, const Buffer& actual,
                  const Graph& expected_graph, ValueId expected_value, const Buffer& expected,
                  double tolerance) {
  const DType dtype = graph.value(value).type.dtype;
  const std::string& name = graph.value(value).name;
  if (!is_floating(dtype)) {
    // Packed float32 and packed float64 have nothing in common.
    const bool packed = dtype == DType::kOpaque && actual.size() != expected.size();
    EXPECT_TRUE(packed || actual.same_contents(expected)) << name;
    return;
  }
  const std::vector<double> a = to_doubles(actual, dtype);
  const std::vector<double> e =
      to_doubles(expected, expected_graph.value(expected_value).type.dtype);
  ASSERT_EQ(a.size(), e.size()) << name;
  const double scale = std::max(largest_magnitude(e), 1e-30);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - e[i]) / scale);
  EXPECT_TRUE(worst <= tolerance) << name << " is off by " << worst;
}

class CaseTest : public testing::TestWithParam<Case> {
 protected:
  // Every value of the float32 graph, computed by the reference in one piece.
  void SetUp() override {
    built_ = build_case(GetParam(), DType::kFloat32);
    values_ = fill_values(built_, batch());
    backend_ = reference();
    evaluate(*backend_, built_.graph, batch(), Blocks::kWhole, built_.graph.nodes.size(), values_);
  }

  int64_t batch() const { return GetParam().batch; }
  const Graph& graph() const { return built_.graph; }

  BuiltCase built_;
  std::vector<Buffer> values_;
  std::unique_ptr<Backend> backend_;
};

TEST_P(CaseTest, Float32IsCloseToFloat64) {
  const BuiltCase wide = build_case(GetParam(), DType::kFloat64);
  std::vector<Buffer> expected = fill_values(wide, batch());
  evaluate(*backend_, wide.graph, batch(), Blocks::kWhole, wide.graph.nodes.size(), expected);
  ASSERT_EQ(wide.graph.values.size(), graph().values.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    expect_close(graph(), ValueId(i), values_[i], wide.graph, ValueId(i), expected[i],
                 GetParam().tolerance);
  }
}

// Central differences of the loss, at some elements of each input.
TEST_P(CaseTest, GradientsMatchFiniteDifferences) {
  const BuiltCase wide = build_case(GetParam(), DType::kFloat64);
  if (!wide.loss.valid()) return;
  std::vector<Buffer> values = fill_values(wide, batch());
  const auto loss_at = [&] {
    evaluate(*backend_, wide.graph, batch(), Blocks::kWhole, wide.forward_nodes, values);
    return values[wide.loss.index()].as<double>()[0];
  };
  evaluate(*backend_, wide.graph, batch(), Blocks::kWhole, wide.graph.nodes.size(), values);
  for (size_t t = 0; t < wide.targets.size(); ++t) {
    ASSERT_TRUE(wide.gradients[t].valid()) << "no gradient for input " << t;
    const std::vector<double> gradient =
        to_doubles(values[wide.gradients[t].index()], DType::kFloat64);
    double* x = values[wide.targets[t].index()].as<double>();
    const double scale = std::max(largest_magnitude(gradient), 1e-3);
    const size_t step = std::max<size_t>(gradient.size() / 12, 1);
    for (size_t i = 0; i < gradient.size(); i += step) {
      const double old = x[i];
      const double h = 1e-6 * std::max(1.0, std::abs(old));
      x[i] = old + h;
      const double above = loss_at();
      x[i] = old - h;
      const double under = loss_at();
      x[i] = old;
      EXPECT_NEAR((above - under) / (2 * h), gradient[i], GetParam().gradient_tolerance * scale)
          << "input " << t << " element " << i;
    }
  }
}

// Bytes after a multiple of 64 where an operand may begin: so many elements where the node's axes
// cut the value, whole lines of 64 bytes elsewhere (a plan aligns what it does not cut).
size_t shift_of(const Graph& graph, ValueId value, const std::vector<graph::AxisUse>& uses,
                size_t elements) {
  for (const graph::AxisUse& use : uses) {
    if (use.dimension >= 0) {
      return elements * element_bytes(graph.value(value).type.dtype).size();
    }
  }
  return 64 * elements;
}

std::vector<size_t> input_shifts(const Graph& graph, NodeId node, size_t elements) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  std::vector<size_t> shifts;
  for (size_t i = 0; i < graph.node(node).inputs.size(); ++i) {
    shifts.push_back(
        shift_of(graph, graph.node(node).inputs[i], backend::uses_of_input(axes, i), elements));
  }
  return shifts;
}

std::vector<size_t> output_shifts(const Graph& graph, NodeId node, size_t elements) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  std::vector<size_t> shifts;
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i) {
    shifts.push_back(
        shift_of(graph, graph.node(node).outputs[i], backend::uses_of_output(axes, i), elements));
  }
  shifts.resize(std::max<size_t>(shifts.size(), 1), 64 * elements);  // a state_write's state
  return shifts;
}

std::vector<Buffer*> pointers_to(std::vector<Buffer>& buffers) {
  std::vector<Buffer*> pointers(buffers.size());
  std::ranges::transform(buffers, pointers.begin(), [](Buffer& buffer) { return &buffer; });
  return pointers;
}

// Runs one node of the float32 graph on operands that the reference computed; outputs begin so many
// elements after a multiple of 64.
std::vector<Buffer> run_node(const NodeRun& run, std::span<const BlockCall> calls,
                             std::span<Buffer* const> inputs, std::span<Buffer* const> outputs,
                             size_t elements = 0) {
  const std::vector<size_t> shifts = output_shifts(run.graph, run.node, elements);
  std::vector<Buffer> made;
  for (size_t i = 0; i < outputs.size(); ++i) made.emplace_back(outputs[i]->size(), shifts[i]);
  run_calls(run, calls, inputs, pointers_to(made));
  return made;
}

bool reduces(const Graph& graph, NodeId node) {
  for (const graph::Axis& axis : axes_of(graph, node)) {
    if (axis.kind == graph::AxisKind::kReduce) return true;
  }
  return false;
}

bool row_exact(const Backend& backend, const Graph& graph, NodeId node) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind == graph::AxisKind::kReduce) continue;
    if (!backend.catalog().row_exact(graph, node, static_cast<int>(i))) return false;
  }
  return true;
}

// Boxes other than the whole: of the catalog and with every axis cut.
std::vector<graph::Block> boxes_of(const Backend& backend, const Graph& graph, NodeId node) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  std::vector<graph::Block> boxes = {backend.catalog().block(graph, node)};
  for (const int64_t extent : {1, 2, 4}) {
    graph::Block& box = boxes.emplace_back(axes.size(), extent);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].kind == graph::AxisKind::kWhole) box[i] = graph::kWholeAxis;
    }
  }
  return boxes;
}

bool known_to(const Case& test_case, std::string_view backend) {
  return test_case.only.empty() || test_case.only == backend;
}

// Nodes that are computed again drop what nobody reads of them: the others are the same. Cases
// without a loss are updates, which are never computed again.
TEST_P(CaseTest, OutputsMayBeDropped) {
  if (!built_.loss.valid()) return;
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      const graph::Node& node = graph().node(NodeId(n));
      if (node.outputs.size() < 2) continue;
      NodeRun run{*backend, graph(), NodeId(n), batch()};
      const auto inputs = input_buffers(graph(), run.node, values_);
      const auto outputs = output_buffers(graph(), run.node, values_);
      const std::vector<BlockCall> calls =
          calls_of(graph(), run.node, backend->catalog().block(graph(), run.node), batch());
      const auto whole = run_node(run, calls, inputs, outputs);
      for (size_t dropped = 0; dropped < node.outputs.size(); ++dropped) {
        run.dropped = static_cast<int>(dropped);
        const auto rest = run_node(run, calls, inputs, outputs);
        for (size_t i = 0; i < node.outputs.size(); ++i) {
          EXPECT_TRUE(i == dropped || rest[i].same_contents(whole[i]))
              << name << ": " << graph().value(node.outputs[i]).name << " without "
              << graph().value(node.outputs[dropped]).name;
        }
      }
    }
  }
}

// Row-exact kernels give the same bits in any blocks; sums are close.
TEST_P(CaseTest, BlocksDoNotChangeRows) {
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      const NodeRun run{*backend, graph(), NodeId(n), batch()};
      const auto inputs = input_buffers(graph(), run.node, values_);
      const auto outputs = output_buffers(graph(), run.node, values_);
      const auto whole =
          run_node(run, calls_of(graph(), run.node, whole_block(graph(), run.node), batch()),
                   inputs, outputs);
      const bool exact = row_exact(*backend, graph(), run.node) && !reduces(graph(), run.node);
      for (const graph::Block& box : boxes_of(*backend, graph(), run.node)) {
        const auto parts =
            run_node(run, calls_of(graph(), run.node, box, batch()), inputs, outputs);
        for (size_t i = 0; i < graph().node(run.node).outputs.size(); ++i) {
          const ValueId value = graph().node(run.node).outputs[i];
          if (exact) {
            EXPECT_TRUE(parts[i].same_contents(whole[i]))
                << name << ": " << graph().value(value).name << " in blocks";
          } else {
            expect_close(graph(), value, parts[i], graph(), value, whole[i], GetParam().tolerance);
          }
        }
      }
    }
  }
}

// The reference adds a block's sum to what is there: a left fold of the blocks' own sums.
TEST_P(CaseTest, SumsAreFoldsOfBlocks) {
  for (size_t n = 0; n < graph().nodes.size(); ++n) {
    const NodeRun run{*backend_, graph(), NodeId(n), batch()};
    const std::string_view op = graph().node(run.node).op->name();
    const bool merges = op == "channel_moments" || op == "log_sum_exp" || op == "moving_moments";
    if (!reduces(graph(), run.node) || merges) continue;
    const auto inputs = input_buffers(graph(), run.node, values_);
    const auto outputs = output_buffers(graph(), run.node, values_);
    graph::Block box = whole_block(graph(), run.node);
    const std::vector<graph::Axis> axes = axes_of(graph(), run.node);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].kind == graph::AxisKind::kReduce) box[i] = 2;
    }
    const std::vector<BlockCall> calls = calls_of(graph(), run.node, box, batch());
    const auto folded = run_node(run, calls, inputs, outputs);
    std::vector<std::vector<float>> sums(folded.size());
    for (BlockCall call : calls) {
      const bool first = call.first;
      call.first = true;
      const auto part = run_node(run, std::span(&call, 1), inputs, outputs);
      for (size_t i = 0; i < part.size(); ++i) {
        const float* own = part[i].as<float>();
        const size_t count = part[i].size() / sizeof(float);
        if (first) sums[i].assign(own, own + count);
        for (size_t e = 0; !first && e < count; ++e) sums[i][e] += own[e];
      }
    }
    for (size_t i = 0; i < folded.size(); ++i) {
      // A result with rows of its own, beside sums.
      if (graph().value(graph().node(run.node).outputs[i]).type.shape.has_batch()) continue;
      EXPECT_EQ(0, std::memcmp(folded[i].data(), sums[i].data(), folded[i].size()))
          << graph().node(run.node).name;
    }
  }
}

// The same bits at other addresses, and when run again.
TEST_P(CaseTest, AddressesAndRepetitionDoNotMatter) {
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      const NodeRun run{*backend, graph(), NodeId(n), batch()};
      const auto inputs = input_buffers(graph(), run.node, values_);
      const auto outputs = output_buffers(graph(), run.node, values_);
      const auto calls =
          calls_of(graph(), run.node, backend->catalog().block(graph(), run.node), batch());
      const auto expected = run_node(run, calls, inputs, outputs);
      for (size_t elements : {0, 1, 3, 16}) {
        const std::vector<size_t> shifts = input_shifts(graph(), run.node, elements);
        std::vector<Buffer> shifted;
        for (size_t i = 0; i < inputs.size(); ++i) shifted.push_back(inputs[i]->moved(shifts[i]));
        const auto actual = run_node(run, calls, pointers_to(shifted), outputs, elements);
        for (size_t i = 0; i < actual.size(); ++i) {
          EXPECT_TRUE(actual[i].same_contents(expected[i]))
              << name << ": " << graph().node(run.node).name << " shifted by " << elements;
        }
      }
    }
  }
}

// An output in the memory of an input that the operator allows to reuse.
TEST_P(CaseTest, OutputsMayReuseInputs) {
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      const NodeRun run{*backend, graph(), NodeId(n), batch()};
      const graph::Node& node = graph().node(run.node);
      const auto input_types = graph::input_types(graph(), run.node);
      const auto output_types = graph::output_types(graph(), run.node);
      const auto inputs = input_buffers(graph(), run.node, values_);
      const auto outputs = output_buffers(graph(), run.node, values_);
      const auto calls =
          calls_of(graph(), run.node, backend->catalog().block(graph(), run.node), batch());
      const auto expected = run_node(run, calls, inputs, outputs);
      for (const graph::Alias& alias :
           node.op->aliases({node.attributes, input_types, output_types})) {
        std::vector<Buffer> in;
        std::vector<Buffer> out;
        in.reserve(inputs.size());
        out.reserve(outputs.size());
        for (const Buffer* input : inputs) in.push_back(input->moved(0));
        for (const Buffer* output : outputs) out.emplace_back(output->size());
        const std::vector<Buffer*> in_pointers = pointers_to(in);
        std::vector<Buffer*> out_pointers = pointers_to(out);
        const auto from = static_cast<size_t>(alias.input);
        const auto to = static_cast<size_t>(alias.output);
        ASSERT_EQ(in[from].size(), out[to].size()) << node.name;
        out_pointers[to] = in_pointers[from];
        run_calls(run, calls, in_pointers, out_pointers);
        for (size_t i = 0; i < out.size(); ++i) {
          EXPECT_TRUE(out_pointers[i]->same_contents(expected[i])) << name << ": " << node.name;
        }
      }
    }
  }
}

// Zeros of either sign, no numbers, infinities and the smallest ones among the others, some side by
// side.
void put_special_values(Buffer& buffer, const graph::ValueType& type, int64_t batch) {
  ASSERT_EQ(type.dtype, DType::kFloat32);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kSpecial[] = {0.0F,      0.0F,  -0.0F,  -0.0F,      kNan, -kNan,
                                kInfinity, kTiny, -kTiny, -kInfinity, 1.0F, 1.0F};
  auto* numbers = reinterpret_cast<float*>(buffer.data());
  for (int64_t i = 0; i < type.shape.element_count(batch); ++i) {
    if (i % 5 != 4) numbers[i] = kSpecial[static_cast<size_t>(i) % std::size(kSpecial)];
  }
}

Buffer encode(Backend& backend, const std::string& form, const graph::ValueType& type,
              int64_t batch, Buffer& plain) {
  Buffer encoded = make_buffer({DType::kBits, type.shape}, batch);
  const std::vector<int64_t> dims = type.shape.at(batch);
  const std::vector<int64_t> strides = backend::dense_strides(dims);
  const std::vector<backend::Operand> in = {{plain.data(), dims, strides}};
  const std::vector<backend::Operand> out = {{encoded.data(), dims, strides}};
  const std::vector<int64_t> begin = {0};
  backend.make_encoder({form, type, type.shape[0].at(batch)})
      ->run({in, out, nullptr, begin, begin, true, &test_step()});
  EXPECT_TRUE(encoded.guards_intact());
  return encoded;
}

// The first output from input `i` in the form is that from the plain value.
void expect_same_from(const std::string& form, size_t i, NodeRun run,
                      std::span<const BlockCall> calls, std::vector<Buffer*> inputs,
                      std::span<Buffer* const> outputs) {
  const auto expected = run_node(run, calls, inputs, outputs);
  const graph::ValueType type = graph::input_types(run.graph, run.node)[i];
  Buffer encoded = encode(run.backend, form, type, run.batch, *inputs[i]);
  inputs[i] = &encoded;
  run.forms.assign(inputs.size(), "");
  run.forms[i] = form;
  const auto actual = run_node(run, calls, inputs, outputs);
  EXPECT_TRUE(actual[0].same_contents(expected[0])) << form;
}

// A saved form leads to the same bits as the plain value, whatever stands in it.
TEST_P(CaseTest, SavedFormsGiveTheSameBits) {
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    SCOPED_TRACE(name);
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      const NodeRun run{*backend, graph(), NodeId(n), batch()};
      const graph::Node& node = graph().node(run.node);
      const auto input_types = graph::input_types(graph(), run.node);
      const auto output_types = graph::output_types(graph(), run.node);
      auto inputs = input_buffers(graph(), run.node, values_);
      const auto outputs = output_buffers(graph(), run.node, values_);
      const auto calls =
          calls_of(graph(), run.node, backend->catalog().block(graph(), run.node), batch());
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        for (const std::string& form : node.op->saved_forms(
                 {node.attributes, input_types, output_types}, static_cast<int>(i))) {
          expect_same_from(form, i, run, calls, inputs, outputs);
          Buffer special = inputs[i]->moved(0);
          put_special_values(special, input_types[i], batch());
          Buffer* const plain = std::exchange(inputs[i], &special);
          expect_same_from(form, i, run, calls, inputs, outputs);
          inputs[i] = plain;
        }
      }
    }
  }
}

// Other backends against the reference, as they would run the graph: fused, packed, in blocks.
TEST_P(CaseTest, BackendsAgree) {
  const BuiltCase wide = build_case(GetParam(), DType::kFloat64);
  std::vector<Buffer> expected = fill_values(wide, batch());
  evaluate(*backend_, wide.graph, batch(), Blocks::kWhole, wide.graph.nodes.size(), expected);
  for (const std::string& name : backend::computing_backends()) {
    if (!known_to(GetParam(), name)) continue;
    const std::unique_ptr<Backend> backend = backend::make_backend(name, {});
    const Graph fused = ops::fuse(graph(), ops::registry(), backend->offers(), 1);
    const Graph packed =
        ops::insert_packs(fused, ops::registry(),
                          [&](const Graph& g, NodeId node) { return backend->packs(g, node); });
    std::vector<Buffer> values = fill_values(packed, built_, batch());
    evaluate(*backend, packed, batch(), Blocks::kCatalog, packed.nodes.size(), values);
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId other = graph::find_value(wide.graph, packed.values[i].name);
      if (!other.valid()) continue;  // a pack
      expect_close(packed, ValueId(i), values[i], wide.graph, other, expected[other.index()],
                   GetParam().tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CaseTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace

}  // namespace plimsoll::ops_test
