#include "ops/case.h"

#include <ostream>

#include "base/philox.h"
#include "graph/autodiff.h"
#include "ops/registry.h"

namespace plimsoll::ops_test {
namespace {

using graph::Graph;
using graph::ValueType;

// Numbers of one input: element i is a function of the input's place and i.
class Numbers {
 public:
  Numbers(const CaseBuilder::Feed& feed, uint64_t place, int64_t row_length)
      : feed_(feed), stream_(7, place), row_length_(row_length) {}

  double get(uint64_t i) const {
    const auto u = static_cast<double>(stream_.uniform(i));
    switch (feed_.fill) {
      case Fill::kNormal:
        return static_cast<double>(stream_.normal(i));
      case Fill::kPositive:
        return 0.5 + u;
      case Fill::kProbability:
        return 0.05 + 0.9 * u;
      case Fill::kSimplex:
        return simplex(i);
      case Fill::kOneHot:
        return one_hot(i);
      case Fill::kBinary:
        return u < 0.5 ? 0.0 : 1.0;
      case Fill::kClass:
        return static_cast<double>(below(static_cast<uint64_t>(feed_.classes), stream_.word64(i)));
      case Fill::kBytes:
        return static_cast<double>(below(100, stream_.word64(i)));
    }
    return 0;
  }

 private:
  double simplex(uint64_t i) const {
    const uint64_t length = static_cast<uint64_t>(row_length_);
    double sum = 0;
    for (uint64_t j = i / length * length; j < (i / length + 1) * length; ++j) {
      sum += 0.2 + static_cast<double>(stream_.uniform(j));
    }
    return (0.2 + static_cast<double>(stream_.uniform(i))) / sum;
  }
  double one_hot(uint64_t i) const {
    const uint64_t length = static_cast<uint64_t>(row_length_);
    return below(length, stream_.word64(i / length)) == i % length ? 1.0 : 0.0;
  }

  CaseBuilder::Feed feed_;
  Philox stream_;
  int64_t row_length_;
};

template <typename T>
void fill_as(Buffer& buffer, const Numbers& numbers) {
  for (size_t i = 0; i < buffer.size() / sizeof(T); ++i) {
    buffer.as<T>()[i] = static_cast<T>(numbers.get(i));
  }
}

void fill(Buffer& buffer, DType dtype, const Numbers& numbers) {
  switch (dtype) {
    case DType::kFloat32:
      return fill_as<float>(buffer, numbers);
    case DType::kFloat64:
      // Rounded to float32, so that both types start from the same numbers.
      for (size_t i = 0; i < buffer.size() / sizeof(double); ++i) {
        buffer.as<double>()[i] = static_cast<double>(static_cast<float>(numbers.get(i)));
      }
      return;
    case DType::kInt32:
      return fill_as<int32_t>(buffer, numbers);
    case DType::kInt64:
      return fill_as<int64_t>(buffer, numbers);
    default:
      return fill_as<uint8_t>(buffer, numbers);
  }
}

}  // namespace

CaseBuilder::CaseBuilder(DType real) : real_(real), builder_(ops::registry()) {}

ValueId CaseBuilder::input(const std::string& name, Shape shape, Fill fill) {
  const ValueId value = constant(name, std::move(shape), fill);
  targets_.push_back(value);
  return value;
}

ValueId CaseBuilder::constant(const std::string& name, Shape shape, Fill fill) {
  const ValueId value = builder_.input(name, {real_, std::move(shape)});
  feeds_.push_back({value, fill, 0});
  return value;
}

ValueId CaseBuilder::integers(const std::string& name, Shape shape, DType dtype, int64_t classes,
                              Fill fill) {
  const ValueId value = builder_.input(name, {dtype, std::move(shape)});
  feeds_.push_back({value, fill, classes});
  return value;
}

ValueId CaseBuilder::call(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) {
  const graph::NodeId node = builder_.add(op, op, std::move(inputs), std::move(attributes));
  const std::vector<ValueId>& outputs = builder_.graph().node(node).outputs;
  return outputs.empty() ? ValueId() : outputs[0];
}

void CaseBuilder::result(ValueId value) { results_.push_back(value); }

void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

BuiltCase build_case(const Case& test_case, DType real) {
  CaseBuilder c(real);
  test_case.build(c);
  BuiltCase built;
  ValueId loss;
  for (ValueId result : c.results()) {
    const ValueId numbers =
        c.constant("cotangent", c.builder().type(result).shape, Fill::kPositive);
    ValueId sum = c.call("multiply", {result, numbers});
    if (c.builder().type(sum).shape.rank() > 0) sum = c.call("batch_sum", {sum});
    loss = loss.valid() ? c.call("add", {loss, sum}) : sum;
  }
  built.loss = loss;
  built.forward_nodes = c.builder().graph().nodes.size();
  built.targets = c.targets();
  if (loss.valid()) built.gradients = graph::add_gradients(c.builder(), loss, built.targets);
  built.feeds = c.feeds();
  built.graph = c.builder().finish();
  return built;
}

std::vector<Buffer> fill_values(const Graph& graph, const BuiltCase& built, int64_t batch) {
  std::vector<Buffer> values;
  for (const graph::Value& value : graph.values) values.push_back(make_buffer(value.type, batch));
  uint64_t place = 0;
  for (const CaseBuilder::Feed& feed : built.feeds) {
    const graph::ValueId value = graph::find_value(graph, built.graph.value(feed.value).name);
    const ValueType& type = graph.value(value).type;
    const int rank = type.shape.rank();
    const int64_t row_length = rank == 0 ? 1 : type.shape[rank - 1].at(batch);
    fill(values[value.index()], type.dtype, Numbers(feed, ++place, row_length));
  }
  for (const graph::StateVariable& state : graph.states) {
    if (!state.incoming.valid()) continue;
    fill(values[state.incoming.index()], state.type.dtype,
         Numbers({state.incoming, Fill::kBytes, 0}, ++place, 1));
  }
  return values;
}

std::vector<Buffer> fill_values(const BuiltCase& built, int64_t batch) {
  return fill_values(built.graph, built, batch);
}

}  // namespace plimsoll::ops_test
