#pragma once

// A small network and its data, for hosts that train beside what else they do.

#include <cstdint>
#include <string>
#include <vector>

#include "api/plimsoll.h"

namespace plimsoll::test {

// Images of two classes: a bright half on the left or on the right.
class SmallTraining {
 public:
  static constexpr int64_t kRows = 48;
  static constexpr int64_t kSide = 16;

  explicit SmallTraining(int64_t units = 64)
      : model_({Input({kSide, kSide, 1}), Conv2D(8, {3, 3}, relu), MaxPooling2D({2, 2}), Flatten(),
                Dense(units, relu), Dense(1, sigmoid)},
               "small") {
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t label = row % 2;
      for (int64_t i = 0; i < kSide * kSide; ++i) {
        const bool bright = (i % kSide < kSide / 2) == (label == 0);
        x_.push_back(static_cast<float>((i * 7 + row * 13) % 17) / 17.0F + (bright ? 0.5F : 0.0F));
      }
      y_.push_back(label);
    }
    model_.compile(Adam({.learning_rate = 0.01}), BinaryCrossentropy(), {Accuracy()});
  }

  Model& model() { return model_; }
  Dataset dataset() const {
    return Dataset::from_arrays({x_.data(), {kRows, kSide, kSide, 1}}, {y_.data(), {kRows}});
  }
  static FitOptions options(int64_t epochs) {
    return {.batch = 16, .epochs = epochs, .threads = 2, .times = "none"};
  }
  History fit(int64_t epochs) { return model_.fit(dataset(), options(epochs)); }
  History fit(const FitOptions& options) { return model_.fit(dataset(), options); }

  std::vector<float> weights() {
    std::vector<float> all;
    for (const std::string& name : model_.weight_names()) {
      const std::vector<float> values = model_.weight(name);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::vector<float> x_;
  std::vector<int64_t> y_;
  Sequential model_;
};

}  // namespace plimsoll::test
