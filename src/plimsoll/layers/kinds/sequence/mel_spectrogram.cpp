// MelSpectrogram: how loud a signal is, frame by frame, in bands that lie evenly on the mel scale.
//
//   |spectrum| of frames under a window, to the power {mag_exp}, times triangles on the mel scale;
//   in decibels 10 log10(max(·, min_power)) − 10 log10(max(|ref_power|, min_power)), at most
//   {top_db} below the loudest number of the whole batch
//
// Frames are a convolution with the waves of a discrete Fourier transform. Keras pads a window that
// is shorter than the transform on both sides; the magnitudes are those of the window alone, which
// begins as much later.

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

constexpr double kMelFactor = 1127.0;
constexpr double kMelBreak = 700.0;

// Numbers of a transform's waves, and of the triangles.
constexpr int64_t kMostNumbers = int64_t{1} << 24;

Config or_null(const Config& value) {
  return value.is_number() && value.as_double() == 0 ? Config() : value;
}

double mel_of(double hertz) { return kMelFactor * std::log(1.0 + hertz / kMelBreak); }

class MelSpectrogram final : public Layer {
 public:
  static constexpr std::string_view kClassName = "MelSpectrogram";

  explicit MelSpectrogram(ConfigReader& reader) : Layer(reader) {
    fft_length_ = reader.integer("fft_length", 2048, 2);
    if (fft_length_ % 2 != 0) {
      reader.refuse("fft_length", "an even number", std::to_string(fft_length_));
    }
    stride_ = reader.integer("sequence_stride", 512, 1);
    if (fft_length_ > kMostNumbers) {
      reader.refuse("fft_length", fmt::format("at most {}", kMostNumbers),
                    std::to_string(fft_length_));
    }
    // Keras takes 0 as null, here and of max_freq.
    const Config length = or_null(reader.value("sequence_length", Config()));
    length_ = length.is_null() ? fft_length_ : reader.integer("sequence_length", 1);
    if (length_ > fft_length_) {
      reader.refuse("sequence_length", "at most fft_length", length.to_json());
    }
    window_ = reader.value("window", "hann");
    const bool word =
        window_.is_string() && (window_.as_string() == "hann" || window_.as_string() == "hamming");
    if (!word && !window_.is_null()) {
      reader.refuse("window", "hann, hamming or null", window_.to_json());
    }
    rate_ = reader.number("sampling_rate", 16000);
    bands_ = reader.integer("num_mel_bins", 128, 1);
    if (std::max(bands_, length_) > kMostNumbers / frequencies()) {
      reader.refuse(bands_ > length_ ? "num_mel_bins" : "fft_length",
                    fmt::format("tables of at most {} numbers", kMostNumbers),
                    fmt::format("{} × {}", std::max(bands_, length_), frequencies()));
    }
    lowest_ = reader.number("min_freq", 20.0);
    const Config highest = or_null(reader.value("max_freq", Config()));
    highest_ = highest.is_null() ? std::floor(rate_ / 2) : reader.number("max_freq", 0);
    in_decibels_ = reader.flag("power_to_db", true);
    range_ = reader.number("top_db", 80.0);
    exponent_ = reader.number("mag_exp", 2.0);
    least_power_ = reader.number("min_power", 1e-10);
    reference_ = reader.number("ref_power", 1.0);
    if (!(least_power_ > 0)) {
      reader.refuse("min_power", "a number above 0", std::to_string(least_power_));
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 2);
    const int64_t samples = shape[1].count;
    const int64_t border = fft_length_ / 2;
    if (samples <= border) {
      refuse(fmt::format("a signal of more than {} samples", border), to_string(shape),
             "Take a smaller fft_length.");
    }
    const ValueId signal = cut(context, mirrored(context, inputs[0], border));
    const ValueId image = with_dims(context, signal, {context.type(signal).shape[1].count, 1, 1});
    const auto square = [&](const char* side) {
      const ValueId part = convolve(context, image, side);
      return context.emit("multiply", {part, part});
    };
    const ValueId power = context.emit("add", {square("real"), square("imag")});
    ValueId loudness = context.emit("unary", {power}, {{"kind", "sqrt"}});
    loudness = context.emit("unary", {loudness}, {{"kind", "power"}, {"exponent", exponent_}});
    loudness = with_dims(context, loudness, {context.type(loudness).shape[1].count, frequencies()});
    loudness = context.emit("dense", {loudness, context.constant(triangles())},
                            {{"units", bands_}, {"use_bias", false}});
    if (in_decibels_) loudness = decibels(context, loudness);
    return {context.emit("transpose", {loudness}, {{"permutation", std::vector<int64_t>{2, 1}}})};
  }

  bool keeps_calls_apart() const override { return in_decibels_; }

 private:
  int64_t frequencies() const { return fft_length_ / 2 + 1; }

  static ValueId sliced(LayerContext& context, ValueId x, int64_t begin, int64_t count) {
    return context.emit("slice", {x}, {{"axis", 1}, {"begin", begin}, {"count", count}});
  }

  // With `border` samples mirrored at either end.
  static ValueId mirrored(LayerContext& context, ValueId x, int64_t border) {
    const int64_t samples = context.type(x).shape[1].count;
    const auto reversed = [&](int64_t begin) {
      return context.emit("reverse", {sliced(context, x, begin, border)}, {{"axis", 1}});
    };
    return context.emit("concat", {reversed(1), x, reversed(samples - 1 - border)}, {{"axis", 1}});
  }

  // Without what only a window that is padded would look at.
  ValueId cut(LayerContext& context, ValueId x) const {
    const int64_t before = (fft_length_ - length_) / 2;
    if (length_ == fft_length_) return x;
    return sliced(context, x, before, context.type(x).shape[1].count - (fft_length_ - length_));
  }

  ValueId convolve(LayerContext& context, ValueId image, const char* side) const {
    // TensorFlow's window of an odd length is the symmetric one.
    const bool periodic = length_ % 2 == 0;
    ConstantData waves{.shape = {length_, 1, frequencies()}};
    waves.initializer = complete_initializer(Config::Object{
        {"class_name", "STFT"},
        {"config",
         Config::Object{
             {"side", side}, {"window", window_}, {"periodic", periodic}, {"scaling", Config()}}}});
    ConvolutionWindow window;
    window.kernel_size = {length_};
    window.strides = {stride_};
    window.padding = "valid";
    window.dilation_rate = {1};
    return add_convolution(context, window, image, context.constant(waves), frequencies(), 1);
  }

  // (frequencies, bands): each band rises to 1 at its middle and falls again, along the mel scale;
  // the frequency 0 belongs to none.
  ConstantData triangles() const {
    ConstantData data{.shape = {frequencies(), bands_}};
    data.values.assign(static_cast<size_t>(frequencies() * bands_), 0.0);
    const double low = mel_of(lowest_);
    const double step = (mel_of(highest_) - low) / static_cast<double>(bands_ + 1);
    for (int64_t f = 1; f < frequencies(); ++f) {
      const double mel =
          mel_of(rate_ / 2 * static_cast<double>(f) / static_cast<double>(frequencies() - 1));
      for (int64_t b = 0; b < bands_; ++b) {
        const double place = (mel - low) / step - static_cast<double>(b);
        data.values[static_cast<size_t>(f * bands_ + b)] =
            std::max(0.0, std::min(place, 2.0 - place));
      }
    }
    return data;
  }

  ValueId decibels(LayerContext& context, ValueId power) const {
    const auto at_least = [&](ValueId x, double least) {
      return context.emit("maximum", {x, filled_like(context, x, least)});
    };
    const ValueId logarithm =
        context.emit("unary", {at_least(power, least_power_)}, {{"kind", "log10"}});
    const double zero = 10 * std::log10(std::max(std::abs(reference_), least_power_));
    const ValueId x =
        context.emit("scale_shift", {logarithm}, {{"scale", 10.0}, {"offset", -zero}});
    const ValueId most = context.emit("batch_max", {x});
    const ValueId below = at_least(context.emit("subtract", {x, most}), -range_);
    return context.emit("add", {below, most});
  }

  int64_t fft_length_ = 2048;
  int64_t stride_ = 512;
  int64_t length_ = 2048;
  Config window_;
  double rate_ = 16000;
  int64_t bands_ = 128;
  double lowest_ = 20;
  double highest_ = 8000;
  bool in_decibels_ = true;
  double range_ = 80;
  double exponent_ = 2;
  double least_power_ = 1e-10;
  double reference_ = 1;
};

}  // namespace

std::shared_ptr<const Layer> make_mel_spectrogram(const Config& config) {
  return construct_layer<MelSpectrogram>(config);
}

}  // namespace plimsoll::layers
