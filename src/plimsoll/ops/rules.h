#pragma once

// What every operator's shape rule needs: checks that say what was expected, what was received and
// what to do next, and the small base class that gives an operator its name.
//
// A rule is run on graphs that users describe and on graph texts, so nothing here assumes that
// operands or attributes are there or of the right kind. Errors are kModel; the graph builder puts
// layer, node and operator in front of them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/image_rows.h"
#include "graph/op.h"

namespace plimsoll::ops {

using graph::Alias;
using graph::Attributes;
using graph::Axis;
using graph::AxisKind;
using graph::AxisUse;
using graph::ElementMoves;
using graph::GradientContext;
using graph::NodeTypes;
using graph::OpFamily;
using graph::OpFusion;
using graph::OpPass;
using graph::OpRegistry;
using graph::OpTraits;
using graph::ValueId;
using graph::ValueType;

class NamedOp : public graph::Op {
 public:
  explicit NamedOp(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }

 private:
  std::string_view name_;
};

// The same type out as in 0, element by element over the batch and the rows of images, in place.
// What draws numbers counts elements from the start of a sample: its images stay whole.
class ElementwiseOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return traits().random ? graph::batch_map_axis(node) : graph::image_map_axes(node);
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

// One map axis over the batch.
class BatchMapOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::batch_map_axis(node);
  }
};

// Map axes over the batch and the rows of images.
class ImageMapOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::image_map_axes(node);
  }
};

// One reduce axis over the batch.
class BatchReduceOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::batch_reduce_axis(node);
  }
};

// Reduce axes over the batch and the rows of images.
class ImageReduceOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::image_reduce_axes(node);
  }
};

// "expected …, received …. <next>"
[[noreturn]] void refuse(const std::string& expected, const std::string& received,
                         std::string_view next);

// As `most` of expect_rank: no bound.
inline constexpr int kAnyRank = 1000;

void expect_operands(const NodeTypes& node, size_t least, size_t most);
void expect_floating(const NodeTypes& node, size_t input);  // float32 or float64
// The same, or bfloat16: of operators whose kernels compute in float32 and round what they write.
void expect_real(const NodeTypes& node, size_t input);
// The type of sums, statistics and weights beside values of this type: float32 where those are
// bfloat16.
DType wide_dtype(DType dtype);
void expect_integer(const NodeTypes& node, size_t input);
void expect_rank(const NodeTypes& node, size_t input, int least, int most);
void expect_type(const NodeTypes& node, size_t input, const ValueType& type);
// Exactly `count` operands, all of input 0's type, floating.
void expect_alike(const NodeTypes& node, size_t count);
// The same, or all of them bfloat16.
void expect_alike_real(const NodeTypes& node, size_t count);

// `count` values of at least `least` each.
std::vector<int64_t> read_ints(const NodeTypes& node, std::string_view key, size_t count,
                               int64_t least);
// Any number of positive values.
std::vector<int64_t> read_dims(const NodeTypes& node, std::string_view key);
int64_t read_int(const NodeTypes& node, std::string_view key, int64_t least);
// In [least, most].
double read_double(const NodeTypes& node, std::string_view key, double least, double most);
// One of `names`.
std::string read_name(const NodeTypes& node, std::string_view key, std::string_view fallback,
                      std::initializer_list<std::string_view> names);
DType read_dtype(const NodeTypes& node, std::string_view key, DType fallback);
// Attribute "axis" (default: the last) counted from the front, 1 … rank − 1; a negative one counts
// from the back.
int read_axis(const NodeTypes& node, int rank);

// Throws where somebody asks for the gradient of an operand that the rule does not reach; `what`
// names it ("the targets of a loss").
void expect_unwanted(const GradientContext& context, int input, std::string_view what);

// The shape without its last dimension; of rank ≥ 1.
Shape without_last(const Shape& shape);
// Constant dimensions after the batch dimension.
std::vector<int64_t> sample_dims(const Shape& shape);
// Rows of the last dimension in one sample: its elements divided by the last extent.
int64_t rows_per_sample(const Shape& shape);

// Each element of a sample where it is in input 0: what an operator that moves them starts from.
ElementMoves moves_in_place(const NodeTypes& node);

// Adds an operator constructed from these arguments.
template <typename T, typename... Arguments>
void add_op(OpRegistry& registry, Arguments&&... arguments) {
  registry.add(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

}  // namespace plimsoll::ops
