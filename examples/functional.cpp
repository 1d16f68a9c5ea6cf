// Branches and a shared layer: do two handwritten strokes belong together?
//
//   left  ─┐                    ┌─▶ concatenate ─▶ dense ─▶ same (0 … 1)
//          ├─▶ encoder (shared) ┤
//   right ─┘                    └─▶ add ─▶ dense ─▶ mean slope
//
// The encoder has one set of weights, which learns from both of its calls. The two outputs have a
// loss each. The data are made up: a stroke is a noisy line, and two belong together when their
// slopes have the same sign.

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace pl = plimsoll;
using namespace pl::literals;

namespace {

constexpr int64_t kPoints = 16;
constexpr int64_t kPairs = 512;

// Numbers in [-1, 1), the same on every machine.
class Random {
 public:
  float next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) / 2147483648.0F;
  }

 private:
  uint64_t state_ = 1;
};

struct Pairs {
  std::vector<float> left;
  std::vector<float> right;
  std::vector<int32_t> same;
  std::vector<float> slope;

  Pairs() {
    Random random;
    for (int64_t i = 0; i < kPairs; ++i) {
      const float a = random.next();
      const float b = random.next();
      for (int64_t k = 0; k < kPoints; ++k) {
        const float place = static_cast<float>(k) / kPoints - 0.5F;
        left.push_back(a * place + 0.05F * random.next());
        right.push_back(b * place + 0.05F * random.next());
      }
      same.push_back((a > 0) == (b > 0) ? 1 : 0);
      slope.push_back((a + b) / 2);
    }
  }

  pl::Dataset dataset() const {
    return pl::Dataset::from_arrays(
        {{left.data(), {kPairs, kPoints}}, {right.data(), {kPairs, kPoints}}},
        {{same.data(), {kPairs}}, {slope.data(), {kPairs, 1}}});
  }
};

pl::Model build() {
  const pl::Input left({kPoints}, {.name = "left"});
  const pl::Input right({kPoints}, {.name = "right"});
  const pl::Dense encoder(16, pl::DenseOptions{.activation = pl::tanh, .name = "encoder"});
  const pl::Tensor a = encoder(left);
  const pl::Tensor b = encoder(right);
  const pl::Tensor both = pl::Dense(16, pl::tanh)(pl::Concatenate()({a, b}));
  const pl::Tensor same = pl::Dense(1, {.activation = pl::sigmoid, .name = "same"})(both);
  const pl::Tensor slope = pl::Dense(1, pl::DenseOptions{.name = "slope"})(pl::Add()({a, b}));
  return pl::Model({left, right}, {same, slope}, "strokes");
}

int run(const std::string& file) {
  const Pairs pairs;
  pl::Model model = build();
  std::printf("%s", model.summary().c_str());
  model.compile(pl::Adam({.learning_rate = 0.01}),
                {pl::BinaryCrossentropy(), pl::MeanSquaredError()}, {{pl::Accuracy()}, {}});
  std::printf("\n%s\n", model.plan({.batch = 64, .memory = 64_MiB}).text.c_str());
  pl::FitOptions options{.batch = 64, .epochs = 30, .memory = 64_MiB};
  options.on_epoch = [](const pl::EpochReport& epoch) {
    if (epoch.epoch % 10 != 0) return;
    std::printf("epoch %lld", static_cast<long long>(epoch.epoch));
    for (const auto& [name, value] : epoch.metrics) std::printf("  %s %.4f", name.c_str(), value);
    std::printf("\n");
  };
  model.fit(pairs.dataset(), options);
  model.save(file);
  pl::Model loaded = pl::load_model(file);
  const bool equal =
      loaded.predict(pairs.dataset())[0].values == model.predict(pairs.dataset())[0].values;
  std::printf("%s predicts %s\n", file.c_str(), equal ? "the same" : "something else");
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "strokes.keras");
  } catch (const pl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
