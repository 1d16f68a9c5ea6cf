// STFTSpectrogram: spectra of frames of a signal, by convolutions along time with the waves of a
// discrete Fourier transform under a window. The waves are weights, which training may change.
//
// Each channel is a signal of its own: a signal (B, time, channels) is an image of one color whose
// width are its channels, and a frame of it a window of width 1. Frequencies come out last,
// (B, frames, channels, frequencies), and are brought into the layer's form.

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras's backend.epsilon()

// Numbers of a transform's waves.
constexpr int64_t kMostWaves = int64_t{1} << 24;

class StftSpectrogram final : public Layer {
 public:
  static constexpr std::string_view kClassName = "STFTSpectrogram";

  explicit StftSpectrogram(ConfigReader& reader) : Layer(reader) {
    mode_ =
        reader.choice("mode", "log", {"log", "magnitude", "psd", "real", "imag", "angle", "stft"});
    frame_length_ = reader.integer("frame_length", 256, 1);
    const auto refuse_waves = [&](const char* option, int64_t length) {
      reader.refuse(option, fmt::format("waves of at most {} numbers", kMostWaves),
                    std::to_string(length));
    };
    if (frame_length_ > kMostWaves) refuse_waves("frame_length", frame_length_);
    const Config step = reader.value("frame_step", Config());
    frame_step_ =
        step.is_null() ? std::max<int64_t>(frame_length_ / 2, 1) : reader.integer("frame_step", 1);
    if (frame_step_ > frame_length_) {
      reader.refuse("frame_step", "at most frame_length", step.to_json());
    }
    const Config length = reader.value("fft_length", Config());
    int64_t fft_length = 1;
    while (fft_length < frame_length_) fft_length *= 2;
    if (!length.is_null()) fft_length = reader.integer("fft_length", 2);
    if (fft_length < frame_length_) {
      reader.refuse("fft_length", "at least frame_length", length.to_json());
    }
    frequencies_ = fft_length / 2 + 1;
    if (frequencies_ > kMostWaves / frame_length_) refuse_waves("fft_length", fft_length);
    window_ = reader.value("window", "hann");
    periodic_ = reader.flag("periodic", false);
    scaling_ = reader.value("scaling", "density");
    padding_ = reader.choice("padding", "valid", {"valid", "same"});
    channels_first_ = reader.channels_first();
    expand_dims_ = reader.flag("expand_dims", false);
    // Refuses a window that it does not know.
    try {
      wave("real");
    } catch (const Error& error) {
      throw Error(ErrorKind::kModel, reader.where("window") + error.message());
    }
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    std::vector<Weight> weights;
    const std::vector<int64_t> shape = {frame_length_, 1, frequencies_};
    if (mode_ != "imag") {
      weights.push_back({.name = "real_kernel", .shape = shape, .initializer = wave("real")});
    }
    if (mode_ != "real") {
      weights.push_back({.name = "imag_kernel", .shape = shape, .initializer = wave("imag")});
    }
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 3);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const Shape shape = context.type(image).shape;
    const int64_t channels = channels_of(shape, false);
    const ValueId signal = with_dims(context, image, {shape[1].count, channels, 1});
    const ValueId real = mode_ == "imag" ? ValueId() : convolve(context, signal, "real_kernel");
    const ValueId imag = mode_ == "real" ? ValueId() : convolve(context, signal, "imag_kernel");
    return {in_layers_form(context, spectrum(context, real, imag))};
  }

 private:
  Config wave(const char* side) const {
    return complete_initializer(Config::Object{{"class_name", "STFT"},
                                               {"config", Config::Object{{"side", side},
                                                                         {"window", window_},
                                                                         {"periodic", periodic_},
                                                                         {"scaling", scaling_}}}});
  }

  ValueId convolve(LayerContext& context, ValueId signal, const char* kernel) const {
    ConvolutionWindow window;
    window.kernel_size = {frame_length_};
    window.strides = {frame_step_};
    window.padding = padding_;
    window.dilation_rate = {1};
    return add_convolution(context, window, signal, context.weight(kernel), frequencies_, 1);
  }

  ValueId spectrum(LayerContext& context, ValueId real, ValueId imag) const {
    if (!imag.valid()) return real;
    if (!real.valid()) return imag;
    if (mode_ == "stft") return context.emit("concat", {real, imag}, {{"axis", -1}});
    if (mode_ == "angle") return context.emit("binary", {imag, real}, {{"kind", "arctan2"}});
    const auto square = [&](ValueId x) { return context.emit("multiply", {x, x}); };
    const ValueId power = context.emit("add", {square(real), square(imag)});
    if (mode_ == "psd") return both_sides(context, power);
    const ValueId magnitude =
        context.emit("unary", {at_least_epsilon(context, power)}, {{"kind", "sqrt"}});
    if (mode_ == "magnitude") return magnitude;
    return context.emit("unary", {at_least_epsilon(context, magnitude)}, {{"kind", "log"}});
  }

  static ValueId at_least_epsilon(LayerContext& context, ValueId x) {
    return context.emit("maximum", {x, filled_like(context, x, kEpsilon)});
  }

  // Frequencies between the first and the last one stand for a second one each.
  ValueId both_sides(LayerContext& context, ValueId power) const {
    if (frequencies_ < 3) return power;
    const auto part = [&](int64_t begin, int64_t count) {
      return context.emit("slice", {power}, {{"axis", -1}, {"begin", begin}, {"count", count}});
    };
    const ValueId twice =
        context.emit("scale_shift", {part(1, frequencies_ - 2)}, {{"scale", 2.0}, {"offset", 0.0}});
    return context.emit("concat", {part(0, 1), twice, part(frequencies_ - 1, 1)}, {{"axis", -1}});
  }

  // Takes (B, frames, channels, frequencies).
  ValueId in_layers_form(LayerContext& context, ValueId x) const {
    const auto transposed = [&](ValueId value, std::vector<int64_t> order) {
      return context.emit("transpose", {value}, {{"permutation", std::move(order)}});
    };
    const Shape shape = context.type(x).shape;
    if (expand_dims_) {
      return channels_first_ ? transposed(x, {2, 1, 3}) : transposed(x, {1, 3, 2});
    }
    const ValueId rows = with_dims(context, x, {shape[1].count, shape[2].count * shape[3].count});
    return channels_first_ ? transposed(rows, {2, 1}) : rows;
  }

  std::string mode_;
  int64_t frame_length_ = 256;
  int64_t frame_step_ = 128;
  int64_t frequencies_ = 129;
  Config window_;
  bool periodic_ = false;
  Config scaling_;
  std::string padding_;
  bool channels_first_ = false;
  bool expand_dims_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_stft_spectrogram(const Config& config) {
  return construct_layer<StftSpectrogram>(config);
}

}  // namespace plimsoll::layers
