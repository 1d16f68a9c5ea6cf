#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Shape image() { return {Dim::batch(), of(5), of(7), of(3)}; }

// A case of an operator with a gradient, or without one.
Case on_image(const std::string& name, const std::string& op, const Attributes& attributes,
              bool differentiable, Fill fill = Fill::kNormal) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x =
                differentiable ? c.input("x", image(), fill) : c.constant("x", image(), fill);
            c.result(c.call(op, {x}, attributes));
          }};
}

Case resize(const std::string& interpolation, int64_t rows, int64_t columns) {
  return on_image("resize2d_" + interpolation + "_to_" + std::to_string(rows), "resize2d",
                  {{"size", std::vector<int64_t>{rows, columns}}, {"interpolation", interpolation}},
                  true);
}

Case flip(const std::string& name, bool horizontal, bool vertical) {
  return on_image("image_flip_" + name, "image_flip",
                  {{"horizontal", horizontal}, {"vertical", vertical}, {"site", 7}}, true);
}

Case warp(const std::string& motion, const std::string& fill_mode,
          const std::string& interpolation) {
  return on_image("image_warp_" + motion + "_" + fill_mode + "_" + interpolation, "image_warp",
                  {{"motion", motion},
                   {"height_lower", -0.3},
                   {"height_upper", 0.4},
                   {"width_lower", -0.5},
                   {"width_upper", 0.2},
                   {"joined", motion == "zoom"},
                   {"fill_mode", fill_mode},
                   {"fill_value", 0.5},
                   {"interpolation", interpolation},
                   {"site", 7}},
                  false);
}

Case color(const std::string& kind, double lower, double upper) {
  const bool differentiable = kind == "brightness" || kind == "invert";
  Case made = on_image("image_color_" + kind, "image_color",
                       {{"kind", kind},
                        {"lower", lower},
                        {"upper", upper},
                        {"second_lower", 20.0},
                        {"second_upper", 200.0},
                        {"value_low", 0.0},
                        {"value_high", 2.0},
                        {"site", 7}},
                       differentiable, Fill::kPositive);
  made.tolerance = 1e-4;
  return made;
}

Case filter(const std::string& kind, std::vector<int64_t> size) {
  return on_image("image_filter_" + kind, "image_filter",
                  {{"kind", kind},
                   {"lower", 0.2},
                   {"upper", 0.9},
                   {"second_lower", 0.4},
                   {"second_upper", 1.0},
                   {"size", std::move(size)},
                   {"value_low", -1.0},
                   {"value_high", 2.0},
                   {"site", 7}},
                  false);
}

Case erase(const std::string& name, bool filled) {
  return on_image("image_erase_" + name, "image_erase",
                  {{"lower", 0.5},
                   {"upper", 1.0},
                   {"scale_lower", 0.2},
                   {"scale_upper", 0.6},
                   {"filled", filled},
                   {"fill_0", 0.25},
                   {"fill_1", 0.5},
                   {"fill_2", 3.0},
                   {"value_low", -1.0},
                   {"value_high", 2.0},
                   {"site", 7}},
                  false);
}

// Whole numbers, which float32 and float64 count in the same bins.
Case equalize(int64_t bins) {
  return {.name = "image_equalize_" + std::to_string(bins), .build = [=](CaseBuilder& c) {
            const Attributes attributes{{"value_low", 0.0}, {"value_high", 255.0}, {"bins", bins}};
            const ValueId x = c.constant("x", image(), Fill::kBytes);
            const ValueId histogram = c.call("image_histogram", {x}, attributes);
            c.result(c.call("image_equalize", {x, histogram}, attributes));
          }};
}

// Whole numbers are the same levels in float32 and float64.
Case tiles(const std::string& name, double clip_limit) {
  return on_image("equalize_tiles_" + name, "equalize_tiles",
                  {{"value_low", 0.0},
                   {"value_high", 255.0},
                   {"clip_limit", clip_limit},
                   {"tiles", std::vector<int64_t>{2, 3}}},
                  false, Fill::kBytes);
}

Case mix(const std::string& kind) {
  return {
      .name = "image_mix_" + kind, .build = [=](CaseBuilder& c) {
        const ValueId x = c.constant("x", image());
        c.result(c.call("image_mix", {x, x},
                        {{"kind", kind}, {"alpha_lower", 0.4}, {"alpha_upper", 2.0}, {"site", 7}}));
      }};
}

}  // namespace

std::vector<Case> image_cases() {
  const Attributes range{{"value_low", -0.5}, {"value_high", 0.75}};
  return {
      resize("bilinear", 8, 4),
      resize("bilinear", 3, 14),
      resize("nearest", 9, 3),
      flip("across", true, false),
      flip("both_ways", true, true),
      on_image("image_crop", "image_crop", {{"size", std::vector<int64_t>{3, 4}}, {"site", 7}},
               true),
      warp("rotation", "reflect", "bilinear"),
      warp("zoom", "constant", "bilinear"),
      warp("translation", "wrap", "nearest"),
      warp("shear", "nearest", "bilinear"),
      warp("perspective", "constant", "bilinear"),
      equalize(256),
      mix("blend"),
      mix("paste"),
      {.name = "image_choose",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.constant("a", image());
             const ValueId b = c.constant("b", image());
             for (int64_t choice = 0; choice < 3; ++choice) {
               c.call("image_choose", {a, b}, {{"choices", 3}, {"choice", choice}, {"site", 7}});
             }
           }},
      color("brightness", -0.5, 0.5),
      color("degenerate", 0.1, 0.9),
      color("grayscale", 0.0, 0.5),
      color("hue", 0.1, 0.9),
      color("invert", 0.3, 0.8),
      color("posterize", 2.0, 6.0),
      color("saturation", 0.2, 0.7),
      color("solarize", 1.0, 30.0),
      on_image("image_contrast", "image_contrast", {{"lower", 0.5}, {"upper", 1.5}, {"site", 7}},
               true),
      on_image("auto_contrast", "auto_contrast", {{"value_low", -2.0}, {"value_high", 2.0}}, false),
      tiles("clipped", 1.5),
      tiles("free", 0.0),
      filter("blur", {3, 5}),
      filter("sharpness", {3, 3}),
      erase("noise", false),
      erase("filled", true),
      on_image("clip_range", "clip_range", range, true),
  };
}

}  // namespace plimsoll::ops_test
