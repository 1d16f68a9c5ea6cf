// ConvLSTM1D, ConvLSTM2D, ConvLSTM3D: an LSTM whose products are convolutions.
//
// The inputs' convolution is one node over all steps; what goes from step to step is written out,
// step by step. A step that is masked keeps the states; its output repeats the last one, or is zero
// with zero_output_for_mask. What comes before the first step that counts is zero.

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "layers/config/constraints.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"
#include "layers/kinds/sequence/recurrent.h"
#include "layers/model/call_arguments.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

constexpr int64_t kMostSteps = 128;
constexpr int64_t kGates = 4;  // input, forget, candidate, output
constexpr const char* kKernel = "cell/kernel";
constexpr const char* kRecurrentKernel = "cell/recurrent_kernel";
constexpr const char* kBias = "cell/bias";

// h and c between two steps, as images; invalid: zero.
struct CellState {
  ValueId h{};
  ValueId c{};
};

template <int kSpatial>
class ConvLstm final : public SequenceLayer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "ConvLSTM1D"
                                                 : kSpatial == 2 ? "ConvLSTM2D"
                                                                 : "ConvLSTM3D";

  explicit ConvLstm(ConfigReader& reader) : SequenceLayer(reader) {
    sequence_ = read_sequence_options(reader);
    refuse_stateful(reader, sequence_);
    filters_ = reader.integer("filters", 1);
    window_ = read_convolution_window(reader, kSpatial, false);
    activation_ = read_activation(reader, "activation", "tanh");
    recurrent_activation_ = read_activation(reader, "recurrent_activation", "sigmoid");
    use_bias_ = reader.flag("use_bias", true);
    kernel_.initializer = read_initializer(reader, "kernel_initializer", "glorot_uniform");
    recurrent_.initializer = read_initializer(reader, "recurrent_initializer", "orthogonal");
    bias_.initializer = read_initializer(reader, "bias_initializer", "zeros");
    unit_forget_bias_ = reader.flag("unit_forget_bias", true);
    kernel_.regularizer = read_regularizer(reader, "kernel_regularizer");
    recurrent_.regularizer = read_regularizer(reader, "recurrent_regularizer");
    bias_.regularizer = read_regularizer(reader, "bias_regularizer");
    kernel_.constraint = read_constraint(reader, "kernel_constraint");
    recurrent_.constraint = read_constraint(reader, "recurrent_constraint");
    bias_.constraint = read_constraint(reader, "bias_constraint");
    dropout_ = read_dropout_rate(reader, "dropout");
    recurrent_dropout_ = read_dropout_rate(reader, "recurrent_dropout");
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
    reader.legacy("input_spec");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.empty() || inputs[0].shape.rank() != kSpatial + 3) return {};
    const Shape& x = inputs[0].shape;
    const int64_t channels = x[window_.channels_first ? 2 : x.rank() - 1].count;
    const auto kernel = [&](int64_t from) {
      std::vector<int64_t> shape = window_.kernel_size;
      shape.insert(shape.end(), {from, kGates * filters_});
      return shape;
    };
    std::vector<Weight> weights = {make_weight(kKernel, kernel(channels), kernel_),
                                   make_weight(kRecurrentKernel, kernel(filters_), recurrent_)};
    if (!use_bias_) return weights;
    WeightOptions bias = bias_;
    if (unit_forget_bias_) {
      bias.initializer =
          Config::Object{{"class_name", std::string(kUnitForgetBias)},
                         {"config", Config::Object{{"initializer", bias_.initializer}}}};
    }
    weights.push_back(make_weight(kBias, {kGates * filters_}, bias));
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.empty()) refuse("one input", "none", "");
    one_input(context, inputs.first(1), kSpatial + 3);
    const RecurrentInputs given = read_recurrent_inputs(context, inputs);
    const ValueId mask = given.mask;
    const Sequence run = go(context, inputs[0], given.states, mask, sequence_.zero_output_for_mask);
    context.set_mask(0, !sequence_.return_sequences ? ValueId()
                        : mask.valid()              ? mask
                                                    : context.mask(0));
    std::vector<ValueId> outputs = {leave(context, run.outputs.back())};
    if (sequence_.return_sequences) outputs[0] = joined(context, run.outputs);
    if (sequence_.return_state) {
      outputs.push_back(leave(context, run.last.h));
      outputs.push_back(leave(context, run.last.c));
    }
    return outputs;
  }

  int rank() const override { return kSpatial + 3; }

  Recurrence run(LayerContext& context, ValueId x, std::span<const ValueId> states, ValueId mask,
                 bool zero_masked) const override {
    Sequence run = go(context, x, states, mask, zero_masked);
    Recurrence result;
    result.last = leave(context, run.outputs.back());
    result.states = {leave(context, run.last.h), leave(context, run.last.c)};
    if (!sequence_.return_sequences) return result;
    if (sequence_.go_backwards) std::ranges::reverse(run.outputs);
    result.sequence = joined(context, run.outputs);
    return result;
  }

 private:
  struct Sequence {
    std::vector<ValueId> outputs;  // in the order of computing
    CellState last;
  };
  struct Dropped {
    std::vector<ValueId> factors;  // of each gate, where h is dropped out
  };

  static Activation read_activation(ConfigReader& reader, std::string_view key,
                                    std::string_view fallback) {
    const Config given = reader.value(key, std::string(fallback));
    Activation activation = Activation::parse(Config());
    try {
      activation = Activation::parse(given);
    } catch (const Error& error) {
      throw Error(ErrorKind::kModel, reader.where(key) + error.message());
    }
    if (activation.along_last() || activation.penalizes_activity()) {
      reader.refuse(key, "an activation that works element by element", given.to_json(),
                    "Choose tanh, sigmoid or another one of those.");
    }
    reader.complete(key, activation.config());
    return activation;
  }

  void check(const LayerContext& context, int64_t steps, size_t states, ValueId mask,
             bool zero_masked) const {
    if (states != 0 && states != 2) {
      refuse("2 initial states", std::to_string(states), "Give one value for each state.");
    }
    if (steps > kMostSteps) {
      refuse(fmt::format("at most {} steps", kMostSteps), std::to_string(steps),
             "Cut the sequences shorter.");
    }
    if (!mask.valid()) return;
    if (context.type(mask).shape.rank() != 2) {
      refuse("a mask of steps", to_string(context.type(mask).shape),
             "End the mask before the layer, by a Reshape.");
    }
    if (sequence_.unroll && sequence_.go_backwards && zero_masked) {
      refuse("a mask that is not met backwards, unrolled and with zeros at once", "all three",
             "Set unroll=False.");
    }
  }

  Sequence go(LayerContext& context, ValueId x, std::span<const ValueId> states, ValueId mask,
              bool zero_masked) const {
    const int64_t steps = context.type(x).shape[1].count;
    check(context, steps, states.size(), mask, zero_masked);
    const ValueId all = convolve_inputs(context, x);
    Sequence run;
    if (!states.empty()) {
      run.last = {to_image(context, states[0], window_.channels_first),
                  to_image(context, states[1], window_.channels_first)};
    }
    Dropped dropped;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t at = sequence_.go_backwards ? steps - 1 - i : i;
      const CellState next = step(context, take_step(context, all, at), run.last, dropped);
      if (!mask.valid()) {
        run.last = next;
        run.outputs.push_back(next.h);
        continue;
      }
      const ValueId counts = take_step(context, mask, at);
      const auto kept = [&](ValueId now, ValueId before) {
        return before.valid() ? context.emit("select", {now, before, counts})
                              : context.emit("apply_mask", {now, counts});
      };
      const bool first = run.outputs.empty();
      const ValueId before = zero_masked || first ? ValueId() : run.outputs.back();
      run.last = {kept(next.h, run.last.h), kept(next.c, run.last.c)};
      // Without first states the output is the state itself.
      const bool same = states.empty() && !zero_masked;
      run.outputs.push_back(same ? run.last.h : kept(next.h, before));
    }
    return run;
  }

  // (B, T, height, width, 4 · filters), or of a volume.
  ValueId convolve_inputs(LayerContext& context, ValueId x) const {
    const int64_t steps = context.type(x).shape[1].count;
    const ValueId kernel = context.weight(kKernel);
    const auto convolve = [&](ValueId value, ValueId part, int64_t columns) {
      const ValueId rows = context.emit("fold_batch", {value});
      return add_convolution(context, window_, to_image(context, rows, window_.channels_first),
                             part, columns, 1);
    };
    ValueId z;
    if (context.training() && dropout_ > 0) {
      std::vector<ValueId> gates;
      for (int64_t gate = 0; gate < kGates; ++gate) {
        gates.push_back(
            convolve(dropped_out(context, x), gate_of(context, kernel, gate), filters_));
      }
      z = context.emit("concat", gates, {{"axis", -1}});
    } else {
      z = convolve(x, kernel, kGates * filters_);
    }
    if (use_bias_) z = context.emit("bias_add", {z, context.weight(kBias)});
    return context.emit("unfold_batch", {z}, {{"steps", steps}});
  }

  // The same elements of all steps are dropped.
  ValueId dropped_out(LayerContext& context, ValueId x) const {
    const std::vector<int64_t> dims = ops::sample_dims(context.type(x).shape);
    int64_t elements = 1;
    for (size_t d = 1; d < dims.size(); ++d) elements *= dims[d];
    const ValueId flat = with_dims(context, x, {dims[0], elements});
    const ValueId left = context.emit("spatial_dropout", {flat},
                                      {{"rate", dropout_}, {"site", context.call_site()}});
    return with_dims(context, left, dims);
  }

  ValueId gate_of(LayerContext& context, ValueId value, int64_t gate) const {
    return context.emit("slice", {value},
                        {{"axis", -1}, {"begin", gate * filters_}, {"count", filters_}});
  }

  // Step `at` of a value over all steps.
  static ValueId take_step(LayerContext& context, ValueId all, int64_t at) {
    const ValueId part = context.emit("slice", {all}, {{"axis", 1}, {"begin", at}, {"count", 1}});
    std::vector<int64_t> dims = ops::sample_dims(context.type(part).shape);
    dims.erase(dims.begin());
    return with_dims(context, part, std::move(dims));
  }

  CellState step(LayerContext& context, ValueId x, const CellState& last, Dropped& dropped) const {
    ValueId z = x;
    if (last.h.valid()) z = context.emit("add", {x, convolve_state(context, last.h, dropped)});
    const auto gate = [&](int64_t index, const Activation& activation) {
      return activation.apply(context, gate_of(context, z, index));
    };
    ValueId c = context.emit("multiply", {gate(0, recurrent_activation_), gate(2, activation_)});
    if (last.c.valid()) {
      const ValueId left = context.emit("multiply", {gate(1, recurrent_activation_), last.c});
      c = context.emit("add", {left, c});
    }
    const ValueId h =
        context.emit("multiply", {gate(3, recurrent_activation_), activation_.apply(context, c)});
    return {h, c};
  }

  ValueId convolve_state(LayerContext& context, ValueId h, Dropped& dropped) const {
    const std::vector<int64_t> ones(kSpatial, 1);
    const ConvolutionWindow window{window_.kernel_size, ones, "same", false, ones};
    const ValueId kernel = context.weight(kRecurrentKernel);
    if (!context.training() || recurrent_dropout_ == 0) {
      return add_convolution(context, window, h, kernel, kGates * filters_, 1);
    }
    if (dropped.factors.empty()) {
      for (int64_t gate = 0; gate < kGates; ++gate) {
        const std::vector<int64_t> dims = ops::sample_dims(context.type(h).shape);
        dropped.factors.push_back(dropout_factors(context, recurrent_dropout_, dims));
      }
    }
    std::vector<ValueId> gates;
    for (int64_t gate = 0; gate < kGates; ++gate) {
      const ValueId left =
          context.emit("multiply", {h, dropped.factors[static_cast<size_t>(gate)]});
      gates.push_back(
          add_convolution(context, window, left, gate_of(context, kernel, gate), filters_, 1));
    }
    return context.emit("concat", gates, {{"axis", -1}});
  }

  ValueId leave(LayerContext& context, ValueId image) const {
    return from_image(context, image, kSpatial, window_.channels_first);
  }

  ValueId joined(LayerContext& context, const std::vector<ValueId>& images) const {
    std::vector<ValueId> steps;
    for (const ValueId image : images) {
      const ValueId step = leave(context, image);
      std::vector<int64_t> dims = ops::sample_dims(context.type(step).shape);
      dims.insert(dims.begin(), 1);
      steps.push_back(with_dims(context, step, std::move(dims)));
    }
    return steps.size() == 1 ? steps[0] : context.emit("concat", steps, {{"axis", 1}});
  }

  int64_t filters_ = 1;
  ConvolutionWindow window_;
  Activation activation_ = Activation::parse(Config());
  Activation recurrent_activation_ = Activation::parse(Config());
  bool use_bias_ = true;
  bool unit_forget_bias_ = true;
  WeightOptions kernel_;
  WeightOptions recurrent_;
  WeightOptions bias_;
  double dropout_ = 0;
  double recurrent_dropout_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_conv_lstm1d(const Config& config) {
  return construct_layer<ConvLstm<1>>(config);
}
std::shared_ptr<const Layer> make_conv_lstm2d(const Config& config) {
  return construct_layer<ConvLstm<2>>(config);
}
std::shared_ptr<const Layer> make_conv_lstm3d(const Config& config) {
  return construct_layer<ConvLstm<3>>(config);
}

}  // namespace plimsoll::layers
