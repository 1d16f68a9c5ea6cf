#include "graph/core_ops.h"

#include "base/error.h"
#include "base/format.h"
#include "graph/autodiff.h"
#include "graph/image_rows.h"
#include "graph/state_rows.h"

namespace plimsoll::graph {
namespace {

void expect_input_count(const NodeTypes& node, size_t expected) {
  if (node.inputs.size() == expected) return;
  throw Error(ErrorKind::kModel,
              fmt::format("expected {} inputs, received {}.", expected, node.inputs.size()));
}

class Accumulate final : public Op {
 public:
  std::string_view name() const override { return "accumulate"; }

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_input_count(node, 2);
    if (node.inputs[0] != node.inputs[1]) {
      throw Error(ErrorKind::kModel,
                  fmt::format("expected two values of one type, received {} {} and {} {}.",
                              to_string(node.inputs[0].dtype), to_string(node.inputs[0].shape),
                              to_string(node.inputs[1].dtype), to_string(node.inputs[1].shape)));
    }
    return {node.inputs[0]};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override { return image_map_axes(node); }

  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i) {
      if (context.wants(i)) context.set_gradient(i, context.output_gradient(0));
    }
  }

  std::vector<Alias> aliases(const NodeTypes&) const override {
    return {{.input = 0, .output = 0}};
  }
  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

// A value of one constant: zeros and ones.
class Fill final : public Op {
 public:
  explicit Fill(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_input_count(node, 0);
    const std::vector<int64_t>& dims = node.attributes.get_ints("shape");
    for (int64_t dim : dims) {
      if (dim < 1) {
        throw Error(
            ErrorKind::kModel,
            fmt::format("attribute \"shape\": expected positive dimensions, received {}.", dim));
      }
    }
    return {{parse_dtype(node.attributes.get_string("dtype")), fixed_shape(dims)}};
  }

  OpTraits traits() const override { return {.cheap = true}; }

 private:
  std::string_view name_;
};

class Pack final : public Op {
 public:
  std::string_view name() const override { return "pack"; }

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_input_count(node, 1);
    const int64_t bytes = node.attributes.get_int("bytes");
    if (bytes < 1 || node.attributes.get_string("layout").empty()) {
      throw Error(ErrorKind::kModel,
                  fmt::format("expected the name of a layout and a positive number of bytes, "
                              "received layout \"{}\" of {} bytes.",
                              node.attributes.get_string("layout"), bytes));
    }
    return {{DType::kOpaque, Shape({Dim::constant(bytes)})}};
  }

  OpTraits traits() const override { return {.cheap = true, .pack = true}; }
};

class StateWrite final : public Op {
 public:
  std::string_view name() const override { return "state_write"; }

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_input_count(node, 1);
    return {};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return state_rows_axis(node, node.inputs[0]);
  }

  OpTraits traits() const override { return {.state_write = true, .cheap = true}; }
};

}  // namespace

void register_core_ops(OpRegistry& registry) {
  registry.add(std::make_unique<Accumulate>());
  registry.add(std::make_unique<Fill>("zeros"));
  registry.add(std::make_unique<Fill>("ones"));
  registry.add(std::make_unique<Pack>());
  registry.add(std::make_unique<StateWrite>());
}

}  // namespace plimsoll::graph
