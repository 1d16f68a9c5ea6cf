// A program outside of Plimsoll's own build: trains a small network within 64 MiB and saves it.

#include <plimsoll/plimsoll.h>

#include <cstdio>
#include <vector>

namespace pl = plimsoll;
using namespace pl::literals;

int main() {
  // Is the sum of two numbers above 1?
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int i = 0; i < 256; ++i) {
    x.push_back(static_cast<float>(i % 16) / 15.0F);
    x.push_back(static_cast<float>(i / 16) / 15.0F);
    y.push_back(x[x.size() - 2] + x.back() > 1.0F ? 1 : 0);
  }
  try {
    pl::Sequential model({pl::Input({2}), pl::Dense(8, pl::tanh), pl::Dense(1, pl::sigmoid)});
    model.compile(pl::Adam({.learning_rate = 0.05}), pl::BinaryCrossentropy(), {pl::Accuracy()});
    const pl::Dataset data = pl::Dataset::from_arrays({x.data(), {256, 2}}, {y.data(), {256}});
    const pl::History history = model.fit(data, {.batch = 32, .epochs = 20, .memory = 64_MiB});
    for (const auto& [name, value] : history.epochs.back().metrics) {
      std::printf("%s %.4f\n", name.c_str(), value);
    }
    model.save("consumer.keras");
  } catch (const pl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
