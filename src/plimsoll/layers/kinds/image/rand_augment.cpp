// RandAugment: some of eleven layers one after the other, which ones is drawn once for a batch.
//
// As in Keras every layer draws once for a step, whichever are taken: one that is taken twice makes
// the same change again. All are computed, and one is chosen.

#include <algorithm>
#include <array>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"

namespace plimsoll::layers {
namespace {

class RandAugment final : public Layer {
 public:
  static constexpr std::string_view kClassName = "RandAugment";

  explicit RandAugment(ConfigReader& reader) : Layer(reader) {
    if (read_layout(reader)) {
      reader.refuse("data_format", "\"channels_last\"", "\"channels_first\"",
                    "Put a Permute layer before it, and one after it.");
    }
    const Range values = read_value_range(reader);
    count_ = reader.integer("num_ops", 2, 0);
    if (count_ > kMostChanges) {
      reader.refuse("num_ops", "at most 16", std::to_string(count_), "Choose fewer.");
    }
    const Range factor = read_range(reader, "factor", {.bounds = {0, 1}, .fallback = 0.5});
    const std::string interpolation =
        reader.choice("interpolation", "bilinear", {"nearest", "bilinear"});
    read_seed(reader);
    make_changes(values, factor, interpolation);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, false);
    if (!context.training()) return {image};
    std::vector<int64_t> sites;
    for (int64_t i = 0; i < count_; ++i) sites.push_back(context.call_site());
    const int first = context.call_sites();
    for (const int64_t site : sites) {
      context.set_call_sites(first);
      for (size_t k = 0; k < changes_.size(); ++k) {
        const std::string prefix = changes_[k]->name() + "/";
        const ValueId changed =
            context.call(*changes_[k], prefix, std::span(&image, 1), {}).outputs[0];
        image = context.emit("image_choose", {changed, image},
                             {{"choices", static_cast<int64_t>(changes_.size())},
                              {"choice", static_cast<int64_t>(k)},
                              {"site", site}});
      }
    }
    return {image};
  }

  bool mixes_samples() const override { return true; }

 private:
  static constexpr int64_t kMostChanges = 16;

  // In the order in which Keras counts them.
  void make_changes(const Range& values, const Range& factor, const std::string& interpolation) {
    const Config range = Config::Array{values.lower, values.upper};
    const Config both = Config::Array{factor.lower, factor.upper};
    const int64_t bits = std::max<int64_t>(1, static_cast<int64_t>(8 * factor.upper));
    const auto add = [&](std::string_view class_name, const char* name, Config::Object options) {
      options.emplace_back("name", std::string(name));
      changes_.push_back(make_layer(class_name, options));
    };
    const std::pair<std::string, Config> way{"interpolation", interpolation};
    const std::pair<std::string, Config> in_range{"value_range", range};
    add("RandomShear", "random_shear", {{"x_factor", both}, {"y_factor", both}, way});
    add("RandomTranslation", "random_translation",
        {{"height_factor", both}, {"width_factor", both}, way});
    add("RandomRotation", "random_rotation", {{"factor", both}, way});
    add("RandomBrightness", "random_brightness", {{"factor", both}, in_range});
    add("RandomColorDegeneration", "random_color_degeneration", {{"factor", both}, in_range});
    add("RandomContrast", "random_contrast", {{"factor", both}, in_range});
    add("RandomSharpness", "random_sharpness", {{"factor", both}, in_range});
    add("RandomPosterization", "random_posterization", {{"factor", bits}, in_range});
    add("Solarization", "solarization",
        {{"addition_factor", both}, {"threshold_factor", both}, in_range});
    add("AutoContrast", "auto_contrast", {in_range});
    add("Equalization", "equalization", {in_range});
  }

  int64_t count_ = 2;
  std::vector<std::shared_ptr<const Layer>> changes_;
};

}  // namespace

std::shared_ptr<const Layer> make_rand_augment(const Config& config) {
  return construct_layer<RandAugment>(config);
}

}  // namespace plimsoll::layers
