// Large batches on a small machine: what halving the batch and adding up gradients by hand are for,
// and what they come to here.
//
//   1  One limit, batches from 32 to 512: all train. There is no batch to halve, and no loop that
//      catches a failure and tries again: a step is cut to fit the limit, and the gradients are
//      those of the whole batch.
//   2  Four calls of 16 samples, gradients averaged over samples, are a batch of 64.
//   3  The loop that tutorials print is something else: it adds the means of calls up without
//      dividing, and forgets the samples after the last whole group of calls.
//
// The network: 32×32×3 · Conv2D 32 · pool · Conv2D 64 · pool · Dense 10, mean squared error.

#include <plimsoll/plimsoll.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace pl = plimsoll;
using namespace pl::literals;

namespace {

constexpr int64_t kRows = 1000;
constexpr int64_t kCall = 16;
constexpr int64_t kCalls = 4;
constexpr pl::Bytes kLimit = 48_MiB;

// Numbers in [0, 1), the same on every machine.
struct Random {
  uint64_t state = 2;
  float next() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(state >> 40) / 16777216.0F;
  }
};

struct Samples {
  std::vector<float> x = std::vector<float>(kRows * 32 * 32 * 3);
  std::vector<float> y = std::vector<float>(kRows * 10);

  Samples() {
    Random random;
    for (float& value : x) value = random.next();
    for (float& value : y) value = random.next();
  }
  pl::Dataset rows(int64_t count) const {
    return pl::Dataset::from_arrays({x.data(), {count, 32, 32, 3}}, {y.data(), {count, 10}});
  }
};

pl::Sequential network() {
  pl::Sequential model({pl::Input({32, 32, 3}), pl::Conv2D(32, {3, 3}, pl::relu),
                        pl::MaxPooling2D({2, 2}), pl::Conv2D(64, {3, 3}, pl::relu),
                        pl::MaxPooling2D({2, 2}), pl::Flatten(), pl::Dense(10)});
  model.compile(pl::SGD({.learning_rate = 0.01}), pl::MeanSquaredError());
  return model;
}

using Weights = std::vector<float>;

Weights weights_of(pl::Model& model) {
  Weights all;
  for (const std::string& name : model.weight_names()) {
    const std::vector<float> values = model.weight(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// ‖a − b‖ / ‖b − start‖: how much of the way that b went.
double difference(const Weights& a, const Weights& b, const Weights& start) {
  double apart = 0;
  double way = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - b[i], 2);
    way += std::pow(static_cast<double>(b[i]) - start[i], 2);
  }
  return std::sqrt(apart / way);
}

void train_any_batch(const Samples& samples) {
  for (const int64_t batch : {32, 128, 512}) {
    pl::Sequential model = network();
    const pl::History history =
        model.fit(samples.rows(kRows), {.batch = batch, .steps = 2, .memory = kLimit});
    std::printf("batch %lld within %s: trains, loss %.5f\n", static_cast<long long>(batch),
                to_string(kLimit).c_str(), history.epochs.back().metrics.front().second);
  }
}

// One epoch of groups of four calls; `rest`: the calls after the last whole group count too.
Weights accumulate(const Samples& samples, pl::Reduce reduce, bool rest) {
  pl::Sequential model = network();
  pl::Trainer trainer(
      model, {.batch = kCall, .short_batch = kRows % kCall, .memory = kLimit, .reduce = reduce});
  const pl::Dataset data = samples.rows(kRows);
  int64_t calls = 0;
  for (int64_t row = 0; row < kRows; row += kCall) {
    trainer.accumulate(data, row, std::min(kCall, kRows - row));
    if (++calls % kCalls == 0) trainer.apply();
  }
  if (rest && calls % kCalls != 0) trainer.apply();
  std::printf("%s of 4 × %lld: %lld updates\n", reduce == pl::Reduce::kMean ? "mean" : "sum",
              static_cast<long long>(kCall), static_cast<long long>(trainer.updates()));
  trainer.clear();
  return weights_of(model);
}

int run() {
  const Samples samples;
  train_any_batch(samples);
  pl::Sequential model = network();
  const Weights start = weights_of(model);
  model.fit(samples.rows(kRows), {.batch = kCall * kCalls, .memory = kLimit, .shuffle = "none"});
  const Weights whole = weights_of(model);
  const double mean = difference(accumulate(samples, pl::Reduce::kMean, true), whole, start);
  const double sum = difference(accumulate(samples, pl::Reduce::kSum, false), whole, start);
  std::printf("mean against batch 64: %.2e of the way\n", mean);
  std::printf("sum without the remainder against batch 64: %.2e of the way\n", sum);
  return mean < 1e-4 && sum > 0.1 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const pl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
