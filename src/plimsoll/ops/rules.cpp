#include "ops/rules.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::ops {
namespace {

std::string describe(const ValueType& type) {
  return fmt::format("{} {}", to_string(type.dtype), to_string(type.shape));
}

std::string as_input(size_t input) { return fmt::format(" as input {}", input); }

std::string quoted(std::string_view key) { return "attribute \"" + std::string(key) + "\""; }

constexpr std::string_view kCheckAttributes = "Check the node's attributes.";

void expect_least(std::string_view key, int64_t value, int64_t least) {
  if (value >= least) return;
  refuse(fmt::format("{} of at least {}", quoted(key), least), std::to_string(value),
         kCheckAttributes);
}

}  // namespace

void refuse(const std::string& expected, const std::string& received, std::string_view next) {
  throw Error(ErrorKind::kModel,
              "expected " + expected + ", received " + received + ". " + std::string(next));
}

void expect_operands(const NodeTypes& node, size_t least, size_t most) {
  const size_t count = node.inputs.size();
  if (count >= least && count <= most) return;
  std::string range = std::to_string(least);
  if (most != least) range += fmt::format(" to {}", most);
  refuse(range + " inputs", std::to_string(count), "Check the node's operands.");
}

void expect_floating(const NodeTypes& node, size_t input) {
  const ValueType& type = node.inputs[input];
  if (type.dtype == DType::kFloat32 || type.dtype == DType::kFloat64) return;
  refuse("float32 or float64" + as_input(input), describe(type), "Put a cast before it.");
}

void expect_real(const NodeTypes& node, size_t input) {
  if (node.inputs[input].dtype != DType::kBFloat16) expect_floating(node, input);
}

DType wide_dtype(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

void expect_integer(const NodeTypes& node, size_t input) {
  const ValueType& type = node.inputs[input];
  if (is_integer(type.dtype)) return;
  refuse("integers" + as_input(input), describe(type),
         "Use class numbers as labels, or the loss for one-hot targets.");
}

void expect_rank(const NodeTypes& node, size_t input, int least, int most) {
  const ValueType& type = node.inputs[input];
  if (type.shape.rank() >= least && type.shape.rank() <= most) return;
  std::string range = std::to_string(least);
  if (most != least) range += most == kAnyRank ? " or more" : fmt::format(" to {}", most);
  refuse("rank " + range + as_input(input), to_string(type.shape), "Put a Reshape before it.");
}

void expect_type(const NodeTypes& node, size_t input, const ValueType& type) {
  if (node.inputs[input] == type) return;
  refuse(describe(type) + as_input(input), describe(node.inputs[input]),
         "Make shapes and types of the operands agree.");
}

void expect_alike(const NodeTypes& node, size_t count) {
  expect_operands(node, count, count);
  expect_floating(node, 0);
  for (size_t i = 1; i < count; ++i) expect_type(node, i, node.inputs[0]);
}

void expect_alike_real(const NodeTypes& node, size_t count) {
  expect_operands(node, count, count);
  expect_real(node, 0);
  for (size_t i = 1; i < count; ++i) expect_type(node, i, node.inputs[0]);
}

std::vector<int64_t> read_dims(const NodeTypes& node, std::string_view key) {
  std::vector<int64_t> list = node.attributes.get_ints(key);
  for (int64_t entry : list) expect_least(key, entry, 1);
  return list;
}

std::vector<int64_t> read_ints(const NodeTypes& node, std::string_view key, size_t count,
                               int64_t least) {
  std::vector<int64_t> list = node.attributes.get_ints(key);
  if (list.size() != count) {
    refuse(fmt::format("{} values in {}", count, quoted(key)), std::to_string(list.size()),
           kCheckAttributes);
  }
  for (int64_t entry : list) expect_least(key, entry, least);
  return list;
}

int64_t read_int(const NodeTypes& node, std::string_view key, int64_t least) {
  const int64_t value = node.attributes.get_int(key);
  expect_least(key, value, least);
  return value;
}

double read_double(const NodeTypes& node, std::string_view key, double least, double most) {
  const double value = node.attributes.get_double(key);
  if (value >= least && value <= most) return value;
  refuse(fmt::format("{} between {:f} and {:f}", quoted(key), least, most), std::to_string(value),
         kCheckAttributes);
}

std::string read_name(const NodeTypes& node, std::string_view key, std::string_view fallback,
                      std::initializer_list<std::string_view> names) {
  std::string value = node.attributes.get_string(key, fallback);
  if (std::find(names.begin(), names.end(), value) != names.end()) return value;
  std::string known;
  for (std::string_view name : names) {
    known += (known.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  refuse(quoted(key) + " among " + known, "\"" + value + "\"",
         std::string(kCheckAttributes) + did_you_mean(value, names));
}

DType read_dtype(const NodeTypes& node, std::string_view key, DType fallback) {
  return parse_dtype(node.attributes.get_string(key, to_string(fallback)));
}

int read_axis(const NodeTypes& node, int rank) {
  const int64_t given = node.attributes.get_int("axis", -1);
  const int64_t counted = given < 0 ? given + rank : given;
  if (counted < 1 || counted >= rank) {
    refuse(fmt::format("an axis after the batch of a value of rank {}", rank),
           std::to_string(given), kCheckAttributes);
  }
  return static_cast<int>(counted);
}

void expect_unwanted(const GradientContext& context, int input, std::string_view what) {
  if (!context.wants(input)) return;
  refuse("no gradient through " + std::string(what), "one that a trainable weight leads to",
         "Freeze the layers before it (trainable=False).");
}

Shape without_last(const Shape& shape) {
  const auto dims = shape.dims();
  return Shape(std::vector<Dim>(dims.begin(), dims.end() - 1));
}

std::vector<int64_t> sample_dims(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = shape.has_batch() ? 1 : 0; i < shape.rank(); ++i) dims.push_back(shape[i].count);
  return dims;
}

int64_t rows_per_sample(const Shape& shape) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i].count;
  return rows;
}

ElementMoves moves_in_place(const NodeTypes& node) {
  ElementMoves moves{.kind = ElementMoves::Kind::kByIndex};
  const auto rank = static_cast<size_t>(node.inputs[0].shape.rank());
  for (size_t d = 0; d + 1 < rank; ++d) moves.dims.push_back({.source = d});
  return moves;
}

}  // namespace plimsoll::ops
