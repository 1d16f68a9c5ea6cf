// Discrete Fourier transforms of an axis: products with the waves of a transform, whose length is
// even. Keras's operators take and give pairs, the real part and the imaginary one.
//
// A real signal's transform has frequencies 0 to n / 2; a complex one's are those of its parts,
// with the rest mirrored:  F(a + ib)[k] = F(a)[k] + i F(b)[k],  F(a)[n − k] = conj(F(a)[k]).

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;

// Numbers that the waves of one transform may have: 64 MiB of float32.
constexpr int64_t kMostWaves = int64_t{1} << 24;

struct Complex {
  ValueId real;
  ValueId imag;
};

int64_t last_axis(const OperationCall& call, ValueId x) {
  return call.context().type(x).shape.rank() - 1;
}

int64_t last_count(const OperationCall& call, ValueId x) {
  return call.context().type(x).shape[static_cast<int>(last_axis(call, x))].count;
}

// cos(2π t f / length), or −sin of it, for `rows` places and frequencies up to length / 2.
ValueId waves(const OperationCall& call, const char* side, int64_t length, int64_t rows,
              const Config& window) {
  if (length % 2 != 0) {
    call.refuse("a transform of an even length", std::to_string(length),
                "Pad the axis, or name another fft_length.");
  }
  const int64_t frequencies = length / 2 + 1;
  if (rows * frequencies > kMostWaves) {
    call.refuse("a transform of at most 2^24 products", std::to_string(rows * frequencies),
                "Cut the axis into shorter ones.");
  }
  ConstantData data{.shape = {rows, 1, frequencies}};
  data.initializer = complete_initializer(Config::Object{
      {"class_name", "STFT"},
      {"config",
       Config::Object{
           {"side", side}, {"window", window}, {"periodic", true}, {"scaling", Config()}}}});
  return call.context().constant(data);
}

ValueId wave_matrix(const OperationCall& call, const char* side, int64_t length) {
  const ValueId all = waves(call, side, length, length, Config());
  return call.context().emit("reshape", {all},
                             {{"shape", std::vector<int64_t>{length, length / 2 + 1}}});
}

// The last axis at that length: cut, or with zeros after it.
ValueId at_length(const OperationCall& call, ValueId x, int64_t length) {
  LayerContext& context = call.context();
  const int64_t axis = last_axis(call, x);
  const int64_t count = last_count(call, x);
  if (count == length) return x;
  if (count > length) return sliced(context, x, axis, 0, length);
  std::vector<int64_t> dims = dims_of(context, x);
  dims.back() = length - count;
  product_of(context, dims);
  const ValueId zero = filled_like(context, sliced(context, x, axis, 0, 1), 0);
  const std::vector<int64_t> places(static_cast<size_t>(length - count), 0);
  return context.emit("concat", {x, taken(context, zero, axis, places)}, {{"axis", axis}});
}

void expect_axis(const OperationCall& call, ValueId x, int64_t axes) {
  if (last_axis(call, x) < axes) {
    call.refuse(fmt::format("{} after the batch", axes == 1 ? "an axis" : "two axes"),
                to_string(call.context().type(x).shape), "Samples are not mixed.");
  }
}

Complex transform_real(const OperationCall& call, ValueId x) {
  const int64_t length = last_count(call, x);
  const auto product = [&](const char* side) {
    return call.context().emit("dense", {x, wave_matrix(call, side, length)},
                               {{"units", length / 2 + 1}, {"use_bias", false}});
  };
  return {product("real"), product("imag")};
}

Complex transform(const OperationCall& call, Complex x) {
  LayerContext& context = call.context();
  const auto combine = [&](std::string_view op, ValueId a, ValueId b) {
    return context.emit(op, {a, b});
  };
  const int64_t axis = last_axis(call, x.real);
  const int64_t half = last_count(call, x.real) / 2;
  const Complex a = transform_real(call, x.real);
  const Complex b = transform_real(call, x.imag);
  const auto joined = [&](ValueId first, ValueId rest) {
    if (half < 2) return first;
    const ValueId mirrored =
        context.emit("reverse", {sliced(context, rest, axis, 1, half - 1)}, {{"axis", axis}});
    return context.emit("concat", {first, mirrored}, {{"axis", axis}});
  };
  return {joined(combine("subtract", a.real, b.imag), combine("add", a.real, b.imag)),
          joined(combine("add", a.imag, b.real), combine("subtract", b.real, a.imag))};
}

// The pair that is the call's argument.
Complex pair_of(const OperationCall& call, int64_t axes) {
  const Values given = call.list();
  if (given.size() != 2 || call.context().type(given[0]) != call.context().type(given[1])) {
    call.refuse("a real part and an imaginary part of one shape",
                fmt::format("{} values", given.size()));
  }
  expect_axis(call, given[0], axes);
  return {as_real(call.context(), given[0]), as_real(call.context(), given[1])};
}

Values fft(const OperationCall& call) {
  const Complex y = transform(call, pair_of(call, 1));
  return {y.real, y.imag};
}

// It takes the last two axes; the inverse is the transform of the conjugate, conjugated.
Values fft2(const OperationCall& call) {
  LayerContext& context = call.context();
  Complex x = pair_of(call, 2);
  const bool inverse = call.operation() == "IFFT2";
  if (inverse) x.imag = scaled(context, x.imag, -1);
  const int64_t last = last_axis(call, x.real);
  const double count = static_cast<double>(last_count(call, x.real)) *
                       static_cast<double>(dims_of(context, x.real)[static_cast<size_t>(last - 2)]);
  const auto transposed = [&](const Complex& value) {
    return Complex{axis_moved(context, value.real, last - 1, last),
                   axis_moved(context, value.imag, last - 1, last)};
  };
  x = transposed(transform(call, transposed(transform(call, x))));
  if (!inverse) return {x.real, x.imag};
  return {scaled(context, x.real, 1 / count), scaled(context, x.imag, -1 / count)};
}

Values rfft(const OperationCall& call) {
  ValueId x = call.only_real();
  expect_axis(call, x, 1);
  if (!call.option("fft_length").is_null()) {
    x = at_length(call, x, call.integer("fft_length", 2, kMostWaves));
  }
  const Complex y = transform_real(call, x);
  return {y.real, y.imag};
}

// Σ over frequencies, each but the first and the last one twice, over the length.
ValueId inverse_real(const OperationCall& call, Complex x, int64_t length) {
  LayerContext& context = call.context();
  const int64_t half = length / 2;
  const int64_t axis = last_axis(call, x.real);
  const auto part = [&](ValueId value, const char* side) {
    const double share = 1 / static_cast<double>(length);
    value = at_length(call, value, half + 1);
    Values parts = {scaled(context, sliced(context, value, axis, 0, 1), share)};
    if (half > 1) {
      parts.push_back(scaled(context, sliced(context, value, axis, 1, half - 1), 2 * share));
    }
    parts.push_back(scaled(context, sliced(context, value, axis, half, 1), share));
    const ValueId weighed = context.emit("concat", parts, {{"axis", axis}});
    const std::string letters = std::string("abcdefgh").substr(0, static_cast<size_t>(axis));
    const Values operands = {weighed, wave_matrix(call, side, length)};
    return einsum(context, letters + "y,zy->" + letters + "z", operands);
  };
  return context.emit("add", {part(x.real, "real"), part(x.imag, "imag")});
}

Values irfft(const OperationCall& call) {
  const Complex x = pair_of(call, 1);
  const int64_t own = 2 * (last_count(call, x.real) - 1);
  const int64_t length =
      call.option("fft_length").is_null() ? own : call.integer("fft_length", 2, kMostWaves);
  if (length < 2) call.refuse("two frequencies or more", "one");
  return {inverse_real(call, x, length)};
}

const Config& window_of(const OperationCall& call) {
  const Config& window = call.option("window");
  const bool known =
      window.is_null() ||
      (window.is_string() && (window.as_string() == "hann" || window.as_string() == "hamming"));
  if (!known) call.refuse("hann, hamming or no window", window.to_json().substr(0, 80));
  return window;
}

// Frames of a signal under a window, as convolutions along time.
Values stft(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only_real();
  if (last_axis(call, x) != 1) {
    call.refuse("one signal a sample, (batch, time)", to_string(context.type(x).shape),
                "Reshape it before and after.");
  }
  const int64_t length = call.integer("fft_length", 2, kMostWaves);
  const int64_t frame = call.integer("sequence_length", 1, length);
  if (frame != length) {
    call.refuse("sequence_length equal to fft_length", std::to_string(frame),
                "Name the same number for both.");
  }
  const Config& window = window_of(call);
  if (call.flag("center")) {
    const int64_t border = length / 2;
    const int64_t samples = last_count(call, x);
    if (samples <= border)
      call.refuse("a signal longer than half a frame", to_string(context.type(x).shape));
    const auto reversed = [&](int64_t begin) {
      return context.emit("reverse", {sliced(context, x, 1, begin, border)}, {{"axis", 1}});
    };
    x = context.emit("concat", {reversed(1), x, reversed(samples - 1 - border)}, {{"axis", 1}});
  }
  const int64_t stride = call.integer("sequence_stride", 1, kMostWaves);
  const ValueId image = reshaped(context, x, {last_count(call, x), 1, 1});
  const auto part = [&](const char* side) {
    const ValueId y =
        context.emit("conv2d", {image, waves(call, side, length, length, window)},
                     {{"filters", length / 2 + 1},
                      {"kernel_size", std::vector<int64_t>{length, 1}},
                      {"strides", std::vector<int64_t>{stride, 1}},
                      {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                      {"dilation_rate", std::vector<int64_t>{1, 1}},
                      {"groups", 1},
                      {"use_bias", false},
                      {"activation", "linear"},
                      {"kernel_shape", std::vector<int64_t>{length, 1, length / 2 + 1}}});
    return reshaped(context, y, {context.type(y).shape[1].count, length / 2 + 1});
  };
  return {part("real"), part("imag")};
}

// TensorFlow's window of so many places in the middle of a frame: of an odd length it is symmetric.
std::vector<double> window_values(const std::string& name, int64_t places, int64_t frame) {
  const double least = name == "hann" ? 0.5 : 0.54;
  const auto period = static_cast<double>(places % 2 == 0 ? places : places - 1);
  std::vector<double> values(static_cast<size_t>(frame), 0.0);
  const auto begin = static_cast<size_t>((frame - places) / 2);
  for (size_t i = 0; i < static_cast<size_t>(places); ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values[begin + i] = places == 1 ? 1 : least - (1 - least) * std::cos(turn);
  }
  return values;
}

// What a frame is multiplied by so that frames under the window add up to the signal: the window
// over the sum of the squares of all that lie at the same place.
std::vector<double> inverse_window(const OperationCall& call, const std::string& name,
                                   int64_t places, int64_t frame, int64_t stride) {
  std::vector<double> values = window_values(name, places, frame);
  std::vector<double> sums(static_cast<size_t>(std::min(stride, frame)), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i % static_cast<size_t>(stride)] += values[i] * values[i];
  }
  if (std::ranges::find(sums, 0.0) != sums.end()) {
    call.refuse("windows that overlap, so that each place of the signal is in one",
                fmt::format("sequence_stride {}", stride), "Use a smaller one.");
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] /= sums[i % static_cast<size_t>(stride)];
  return values;
}

// Frames (…, count, length), each `stride` places after the one before, added up. They are cut into
// pieces as long as the stride, and the first pieces of all frames follow each other, as do the
// second ones a stride later.
ValueId overlapped(const OperationCall& call, ValueId frames, int64_t stride) {
  constexpr int64_t kMostPieces = 256;
  LayerContext& context = call.context();
  const int64_t axis = last_axis(call, frames);
  std::vector<int64_t> dims = dims_of(context, frames);
  const int64_t length = dims.back();
  const int64_t count = dims[dims.size() - 2];
  const int64_t pieces = (length + stride - 1) / stride;
  if (pieces > kMostPieces) {
    call.refuse(fmt::format("a stride of at least {}", (length + kMostPieces - 1) / kMostPieces),
                std::to_string(stride));
  }
  product_of(context, std::vector<int64_t>{count + pieces, stride});
  frames = padded(context, frames, axis, 0, pieces * stride - length);
  dims.pop_back();
  dims.back() = count * stride;
  ValueId sum;
  for (int64_t k = 0; k < pieces; ++k) {
    ValueId part = reshaped(context, sliced(context, frames, axis, k * stride, stride), dims);
    part = padded(context, part, axis - 1, k * stride, (pieces - 1 - k) * stride);
    sum = sum.valid() ? context.emit("add", {sum, part}) : part;
  }
  return sliced(context, sum, axis - 1, 0, (count - 1) * stride + length);
}

Values istft(const OperationCall& call) {
  LayerContext& context = call.context();
  const Complex x = pair_of(call, 2);
  const int64_t length = call.integer("fft_length", 2, kMostWaves);
  const int64_t places = call.integer("sequence_length", 1, length);
  const int64_t stride = call.integer("sequence_stride", 1, kMostWaves);
  ValueId frames = inverse_real(call, x, length);
  const Config& window = window_of(call);
  if (window.is_string()) {
    const std::vector<double> factors =
        inverse_window(call, window.as_string(), places, length, stride);
    const ValueId factor = context.constant({DType::kFloat32, {length}, factors});
    frames = combined(context, "multiply", frames, factor);
  }
  const ValueId signal = overlapped(call, frames, stride);
  const int64_t samples = last_count(call, signal);
  const int64_t border = call.flag("center") ? length / 2 : 0;
  const int64_t most = samples - 2 * border;
  if (most < 1) call.refuse("frames of more than a window", to_string(context.type(x.real).shape));
  const int64_t taken =
      call.option("length").is_null() ? most : call.integer("length", 1, samples - border);
  return {sliced(context, signal, last_axis(call, signal), border, taken)};
}

constexpr OperationRow kRows[] = {
    {"FFT", fft},     {"FFT2", fft2}, {"IFFT2", fft2}, {"IRFFT", irfft},
    {"ISTFT", istft}, {"RFFT", rfft}, {"STFT", stft},
};

}  // namespace

std::span<const OperationRow> spectrum_operations() { return kRows; }

}  // namespace plimsoll::layers
