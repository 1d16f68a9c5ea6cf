// Initial values of weights and states: {shape, dtype = float32, …} → a value without operands.
//
// `site` is a number that stands for the variable's stable name; random_fill.h says what is drawn.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Initializer : public NamedOp {
 public:
  Initializer(std::string_view name, std::vector<std::string> numbers, bool random)
      : NamedOp(name), numbers_(std::move(numbers)), random_(random) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 0, 0);
    for (const std::string& key : numbers_) node.attributes.get_double(key);
    if (random_) node.attributes.get_int("site");
    const Shape shape = fixed_shape(read_dims(node, "shape"));
    check_shape(shape);
    return {{read_dtype(node, "dtype", DType::kFloat32), shape}};
  }

  OpTraits traits() const override { return {.random = random_}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return (random_ ? 40.0 : 1.0) *
           static_cast<double>(node.outputs[0].shape.elements_per_sample());
  }

 protected:
  virtual void check_shape(const Shape&) const {}

 private:
  std::vector<std::string> numbers_;
  bool random_;
};

// fourier_waves, of shape (T, 1, F): element (t, 0, f) is cos(−π t f / (F − 1)) window(t) / scale,
// or the sine. {window} is one of scipy's sums of cosines, and {scaling} what is 1 of it: its norm
// (density), the sum of its magnitudes (spectrum), or nothing is scaled.
class FourierWaves final : public Initializer {
 public:
  explicit FourierWaves(std::string_view name) : Initializer(name, {}, false) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_name(node, "side", "", {"real", "imag"});
    read_name(
        node, "window", "",
        {"blackman", "blackmanharris", "boxcar", "flattop", "hamming", "hann", "none", "nuttall"});
    read_name(node, "scaling", "", {"density", "none", "spectrum"});
    node.attributes.get_bool("periodic", false);
    return Initializer::infer(node);
  }

 protected:
  void check_shape(const Shape& shape) const override {
    if (shape.rank() == 3 && shape[1].count == 1 && shape[2].count > 1) return;
    refuse("a shape of frames, 1 and two or more frequencies", to_string(shape),
           "Choose another initializer.");
  }
};

class MatrixInitializer final : public Initializer {
 public:
  MatrixInitializer(std::string_view name, int most_rank, bool random)
      : Initializer(name, {"gain"}, random), most_rank_(most_rank) {}

 protected:
  void check_shape(const Shape& shape) const override {
    if (shape.rank() >= 2 && shape.rank() <= most_rank_) return;
    refuse(most_rank_ == 2 ? "a matrix" : "at least two dimensions", to_string(shape),
           "Choose another initializer.");
  }

 private:
  int most_rank_;
};

}  // namespace

void register_initializers(OpRegistry& registry) {
  const std::vector<std::string> normal = {"mean", "stddev"};
  add_op<Initializer>(registry, "random_uniform", std::vector<std::string>{"minval", "maxval"},
                      true);
  add_op<Initializer>(registry, "random_normal", normal, true);
  add_op<Initializer>(registry, "truncated_normal", normal, true);
  add_op<Initializer>(registry, "constant", std::vector<std::string>{"value"}, false);
  add_op<FourierWaves>(registry, "fourier_waves");
  add_op<MatrixInitializer>(registry, "orthogonal", kAnyRank, true);
  add_op<MatrixInitializer>(registry, "identity", 2, false);
}

}  // namespace plimsoll::ops
