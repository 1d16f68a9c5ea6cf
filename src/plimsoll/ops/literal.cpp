// literal: numbers that stand in the graph, the first values of constants that a file holds.

#include "ops/literal.h"

#include <bit>

#include "base/error.h"
#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr size_t kDigits = 16;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

class Literal final : public NamedOp {
 public:
  Literal() : NamedOp("literal") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 0, 0);
    const DType dtype = read_dtype(node, "dtype", DType::kFloat32);
    const Shape shape = fixed_shape(read_dims(node, "shape"));
    const std::string& data = node.attributes.get_string("data");
    const auto expected = static_cast<size_t>(shape.elements_per_sample()) * kDigits;
    if (data.size() != expected) {
      refuse(fmt::format("{} digits of data", expected), std::to_string(data.size()),
             "Check the node's attributes.");
    }
    for (char c : data) {
      if (digit_of(c) < 0) refuse("hexadecimal digits", std::string(1, c), "Check the data.");
    }
    return {{dtype, shape}};
  }

  OpTraits traits() const override { return {.literal = true}; }
};

}  // namespace

std::string literal_text(DType dtype, std::span<const double> values) {
  std::string text;
  text.reserve(values.size() * kDigits);
  for (double value : values) {
    const uint64_t bits = is_floating(dtype) ? std::bit_cast<uint64_t>(value)
                                             : static_cast<uint64_t>(static_cast<int64_t>(value));
    for (int shift = 60; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[(bits >> shift) & 15];
    }
  }
  return text;
}

std::vector<double> read_literal(DType dtype, std::string_view text) {
  std::vector<double> values;
  values.reserve(text.size() / kDigits);
  for (size_t begin = 0; begin + kDigits <= text.size(); begin += kDigits) {
    uint64_t bits = 0;
    for (char c : text.substr(begin, kDigits)) {
      if (digit_of(c) < 0) refuse("hexadecimal digits", std::string(1, c), "Check the data.");
      bits = bits << 4 | static_cast<uint64_t>(digit_of(c));
    }
    values.push_back(is_floating(dtype) ? std::bit_cast<double>(bits)
                                        : static_cast<double>(static_cast<int64_t>(bits)));
  }
  return values;
}

void register_literal(OpRegistry& registry) { add_op<Literal>(registry); }

}  // namespace plimsoll::ops
