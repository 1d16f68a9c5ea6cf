// GaussianNoise, GaussianDropout and SpatialDropout: what training adds, multiplies by or drops,
// and evaluation leaves alone.

#include <cmath>
#include <optional>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

double read_rate(ConfigReader& reader) {
  const std::optional<double> rate = reader.optional_number("rate");
  if (!rate || !(*rate >= 0 && *rate < 1)) {
    reader.refuse("rate", "0 to below 1", rate ? Config(*rate).to_json() : "none");
  }
  return *rate;
}

class GaussianNoise final : public Layer {
 public:
  static constexpr std::string_view kClassName = "GaussianNoise";

  explicit GaussianNoise(ConfigReader& reader) : Layer(reader) {
    const std::optional<double> deviation = reader.optional_number("stddev");
    if (!deviation || !(*deviation >= 0)) {
      reader.refuse("stddev", "0 or more", deviation ? Config(*deviation).to_json() : "none");
    }
    stddev_ = *deviation;
    read_seed(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    if (!context.training() || stddev_ == 0) return {inputs[0]};
    return {context.emit("gaussian_noise", {inputs[0]},
                         {{"stddev", stddev_}, {"site", context.call_site()}})};
  }

 private:
  double stddev_ = 0;
};

class GaussianDropout final : public Layer {
 public:
  static constexpr std::string_view kClassName = "GaussianDropout";

  explicit GaussianDropout(ConfigReader& reader) : Layer(reader), rate_(read_rate(reader)) {
    read_seed(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    if (!context.training() || rate_ == 0) return {inputs[0]};
    return {context.emit(
        "gaussian_scale", {inputs[0]},
        {{"stddev", std::sqrt(rate_ / (1.0 - rate_))}, {"site", context.call_site()}})};
  }

 private:
  double rate_ = 0;
};

class SpatialDropout : public Layer {
 public:
  SpatialDropout(ConfigReader& reader, int rank)
      : Layer(reader), rank_(rank), rate_(read_rate(reader)) {
    read_seed(reader);
    if (rank > 3) channels_first_ = reader.channels_first();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, rank_);
    if (!context.training() || rate_ == 0) return {inputs[0]};
    const ValueId x = channels_first_ ? to_image(context, inputs[0], true) : inputs[0];
    const ValueId dropped =
        context.emit("spatial_dropout", {x}, {{"rate", rate_}, {"site", context.call_site()}});
    return {channels_first_ ? from_image(context, dropped, rank_ - 2, true) : dropped};
  }

 private:
  int rank_;
  double rate_ = 0;
  bool channels_first_ = false;
};

class SpatialDropout1D final : public SpatialDropout {
 public:
  static constexpr std::string_view kClassName = "SpatialDropout1D";
  explicit SpatialDropout1D(ConfigReader& reader) : SpatialDropout(reader, 3) {}
};

class SpatialDropout2D final : public SpatialDropout {
 public:
  static constexpr std::string_view kClassName = "SpatialDropout2D";
  explicit SpatialDropout2D(ConfigReader& reader) : SpatialDropout(reader, 4) {}
};

class SpatialDropout3D final : public SpatialDropout {
 public:
  static constexpr std::string_view kClassName = "SpatialDropout3D";
  explicit SpatialDropout3D(ConfigReader& reader) : SpatialDropout(reader, 5) {}
};

}  // namespace

std::shared_ptr<const Layer> make_gaussian_noise(const Config& config) {
  return construct_layer<GaussianNoise>(config);
}
std::shared_ptr<const Layer> make_gaussian_dropout(const Config& config) {
  return construct_layer<GaussianDropout>(config);
}
std::shared_ptr<const Layer> make_spatial_dropout1d(const Config& config) {
  return construct_layer<SpatialDropout1D>(config);
}
std::shared_ptr<const Layer> make_spatial_dropout2d(const Config& config) {
  return construct_layer<SpatialDropout2D>(config);
}
std::shared_ptr<const Layer> make_spatial_dropout3d(const Config& config) {
  return construct_layer<SpatialDropout3D>(config);
}

}  // namespace plimsoll::layers
