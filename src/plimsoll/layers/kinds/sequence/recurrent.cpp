#include "layers/kinds/sequence/recurrent.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/activations.h"
#include "layers/kinds/all_layers.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

using ops::CellKind;

std::string read_cell_activation(ConfigReader& reader, std::string_view key,
                                 std::string_view fallback) {
  const Config given = reader.value(key, std::string(fallback));
  std::string name;
  try {
    name = Activation::parse(given).name();
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where(key) + error.message());
  }
  const std::vector<std::string> known = ops::activation_names();
  if (std::ranges::find(known, name) == known.end()) {
    reader.refuse(key, "an activation that works element by element",
                  name.empty() ? "a layer" : name, "Choose tanh, sigmoid or another one of those.");
  }
  reader.complete(key, name);
  return name;
}

}  // namespace

double read_dropout_rate(ConfigReader& reader, std::string_view key) {
  const double rate = reader.number(key, 0.0);
  if (!(rate >= 0 && rate < 1)) reader.refuse(key, "0 to below 1", std::to_string(rate));
  return rate;
}

ValueId dropout_factors(LayerContext& context, double rate, const std::vector<int64_t>& dims) {
  const ValueId one =
      context.emit("ones", {}, {{"shape", std::vector<int64_t>{}}, {"dtype", "float32"}});
  const ValueId ones = context.emit("batch_sum_grad", {one}, {{"value_shape", dims}});
  return context.emit("dropout", {ones}, {{"rate", rate}, {"site", context.call_site()}});
}

RecurrentInputs read_recurrent_inputs(LayerContext& context, std::span<const ValueId> inputs) {
  RecurrentInputs given{{inputs.begin() + 1, inputs.end()}, context.mask(0)};
  if (context.arguments().is_null()) return given;
  const CallArguments arguments(context, inputs.size(), {"sequences", "initial_state", "mask"});
  given.states.clear();
  for (size_t i : arguments.tensors("initial_state")) given.states.push_back(inputs[i]);
  // Keras 2 put the states into one list with the input.
  const std::vector<size_t> first = arguments.tensors("sequences");
  for (size_t i = 1; i < first.size(); ++i) given.states.push_back(inputs[first[i]]);
  // Keras hands on the input's own mask only where the input is the one tensor of the call.
  if (!given.states.empty()) given.mask = ValueId();
  for (size_t i : arguments.tensors("mask")) given.mask = as_bool(context, inputs[i]);
  return given;
}

SequenceOptions read_sequence_options(ConfigReader& reader) {
  SequenceOptions options;
  options.return_sequences = reader.flag("return_sequences", false);
  options.return_state = reader.flag("return_state", false);
  options.go_backwards = reader.flag("go_backwards", false);
  options.stateful = reader.flag("stateful", false);
  options.unroll = reader.flag("unroll", false);
  options.zero_output_for_mask = reader.flag("zero_output_for_mask", false);
  return options;
}

void refuse_stateful(const ConfigReader& reader, const SequenceOptions& options) {
  if (!options.stateful) return;
  reader.refuse("stateful", "false", "true",
                "States are carried from one batch to the next by LSTM, GRU and SimpleRNN alone: "
                "use one of these, or save the model with stateful=False.");
}

RecurrentLayer::RecurrentLayer(ConfigReader& reader, CellKind kind, std::string path)
    : SequenceLayer(reader), kind_(kind), path_(std::move(path)) {
  const bool rnn = kind == CellKind::kSimpleRnn;
  sequence_ = read_sequence_options(reader);
  units_ = reader.integer("units", 1);
  activation_ = read_cell_activation(reader, "activation", "tanh");
  recurrent_activation_ =
      rnn ? "sigmoid" : read_cell_activation(reader, "recurrent_activation", "sigmoid");
  use_bias_ = reader.flag("use_bias", true);
  kernel_initializer_ = read_initializer(reader, "kernel_initializer", "glorot_uniform");
  recurrent_initializer_ = read_initializer(reader, "recurrent_initializer", "orthogonal");
  bias_initializer_ = read_initializer(reader, "bias_initializer", "zeros");
  if (kind == CellKind::kLstm) unit_forget_bias_ = reader.flag("unit_forget_bias", true);
  kernel_regularizer_ = read_regularizer(reader, "kernel_regularizer");
  recurrent_regularizer_ = read_regularizer(reader, "recurrent_regularizer");
  bias_regularizer_ = read_regularizer(reader, "bias_regularizer");
  for (const char* key : {"kernel_constraint", "recurrent_constraint", "bias_constraint"}) {
    reader.refuse_unless_empty(key, "Regularize the kernel instead (kernel_regularizer).");
  }
  dropout_ = read_dropout_rate(reader, "dropout");
  recurrent_dropout_ = read_dropout_rate(reader, "recurrent_dropout");
  if (kind == CellKind::kGru) reset_after_ = reader.flag("reset_after", true);
  const Config seed = reader.value("seed", Config());
  if (!seed.is_null() && !seed.is_int()) {
    reader.refuse("seed", "an integer or null", seed.to_json());
  }
  reader.legacy("implementation");
  reader.legacy("use_cudnn");
  reader.legacy("input_spec");
  reader.refuse_unless_empty("time_major", "Put the batch first.");
}

int64_t RecurrentLayer::gates() const {
  return kind_ == CellKind::kLstm ? 4 : kind_ == CellKind::kGru ? 3 : 1;
}

std::vector<Weight> RecurrentLayer::weights(std::span<const ValueType> inputs) const {
  if (inputs.empty() || inputs[0].shape.rank() != 3) return {};
  std::vector<Weight> weights;
  weights.push_back({path_ + "kernel",
                     {inputs[0].shape[2].count, wide()},
                     kernel_initializer_,
                     kernel_regularizer_,
                     true});
  weights.push_back({path_ + "recurrent_kernel",
                     {units_, wide()},
                     recurrent_initializer_,
                     recurrent_regularizer_,
                     true});
  if (!use_bias_) return weights;
  Config initializer = bias_initializer_;
  if (unit_forget_bias_) {
    initializer = Config::Object{{"class_name", std::string(kUnitForgetBias)},
                                 {"config", Config::Object{{"initializer", bias_initializer_}}}};
  }
  std::vector<int64_t> shape = {wide()};
  if (kind_ == CellKind::kGru && reset_after_) shape = {2, wide()};
  weights.push_back({path_ + "bias", shape, initializer, bias_regularizer_, true});
  return weights;
}

// x · kernel, dropped out where asked: once for all gates, or (as Keras does with recurrent
// dropout) anew for each.
ValueId RecurrentLayer::project(LayerContext& context, ValueId x) const {
  const ValueId kernel = context.weight(path_ + "kernel");
  const auto drop = [&] {
    return context.emit("spatial_dropout", {x},
                        {{"rate", dropout_}, {"site", context.call_site()}});
  };
  const bool drops = context.training() && dropout_ > 0;
  if (!drops || recurrent_dropout_ == 0 || gates() == 1) {
    return context.emit("dense", {drops ? drop() : x, kernel}, {{"units", wide()}});
  }
  std::vector<ValueId> columns;
  for (int64_t g = 0; g < gates(); ++g) {
    const ValueId part =
        context.emit("slice", {kernel}, {{"axis", 1}, {"begin", g * units_}, {"count", units_}});
    columns.push_back(context.emit("dense", {drop(), part}, {{"units", units_}}));
  }
  return context.emit("concat", columns, {{"axis", 2}});
}

ValueId RecurrentLayer::add_bias(LayerContext& context, ValueId z, ValueId* recurrent_bias) const {
  if (!use_bias_) return z;
  ValueId bias = context.weight(path_ + "bias");
  if (kind_ == CellKind::kGru && reset_after_) {
    const ValueId row =
        context.emit("reshape", {bias}, {{"shape", std::vector<int64_t>{1, 2 * wide()}}});
    const auto half = [&](int64_t begin) {
      const ValueId part =
          context.emit("slice", {row}, {{"axis", 1}, {"begin", begin}, {"count", wide()}});
      return context.emit("reshape", {part}, {{"shape", std::vector<int64_t>{wide()}}});
    };
    bias = half(0);
    *recurrent_bias = half(wide());
  }
  return context.emit("bias_add", {z, bias});
}

Recurrence RecurrentLayer::run(LayerContext& context, ValueId x, std::span<const ValueId> states,
                               ValueId mask, bool zero_masked) const {
  if (!sequence_.stateful) return run_from(context, x, states, mask, zero_masked);
  constexpr std::array<std::string_view, 2> kNames = {"rnn_state", "rnn_state_1"};
  std::vector<ValueId> first(states.begin(), states.end());
  for (size_t i = 0; states.empty() && i < state_count(); ++i) {
    first.push_back(context.carried(kNames[i], units_));
  }
  const Recurrence result = run_from(context, x, first, mask, zero_masked);
  for (size_t i = 0; i < state_count(); ++i) context.set_carried(kNames[i], result.states[i]);
  return result;
}

Recurrence RecurrentLayer::run_from(LayerContext& context, ValueId x,
                                    std::span<const ValueId> states, ValueId mask,
                                    bool zero_masked) const {
  if (!states.empty() && states.size() != state_count()) {
    refuse(fmt::format("{} initial states", state_count()), std::to_string(states.size()),
           "Give one value for each state.");
  }
  ValueId recurrent_bias;
  std::vector<ValueId> operands = {add_bias(context, project(context, x), &recurrent_bias),
                                   context.weight(path_ + "recurrent_kernel")};
  const bool drops = context.training() && recurrent_dropout_ > 0;
  Attributes attributes{{"units", units_},
                        {"activation", activation_},
                        {"go_backwards", sequence_.go_backwards},
                        {"initial_state", !states.empty()},
                        {"recurrent_dropout", drops},
                        {"masked", mask.valid()}};
  if (kind_ != CellKind::kSimpleRnn) attributes.set("recurrent_activation", recurrent_activation_);
  if (kind_ == CellKind::kGru) {
    attributes.set("reset_after", reset_after_);
    attributes.set("recurrent_bias", recurrent_bias.valid());
  }
  if (recurrent_bias.valid()) operands.push_back(recurrent_bias);
  operands.insert(operands.end(), states.begin(), states.end());
  if (drops) operands.push_back(dropout_factors(context, recurrent_dropout_, {wide()}));
  if (mask.valid()) operands.push_back(mask);
  constexpr std::string_view kOps[] = {"lstm", "gru", "simple_rnn"};
  const std::vector<ValueId> outputs =
      context.emit_all(kOps[static_cast<size_t>(kind_)], operands, attributes);
  Recurrence result{outputs[0], {}, {}};
  const size_t first_state = kind_ == CellKind::kLstm ? 3 : 2;
  for (size_t i = 0; i < state_count(); ++i) result.states.push_back(outputs[first_state + i]);
  set_last(context, result, mask, !states.empty(), zero_masked);
  return result;
}

// The sequence and its last step as Keras has them where a mask is given: zero before the first
// step that counts, and at all that do not with zero_masked.
void RecurrentLayer::set_last(LayerContext& context, Recurrence& result, ValueId mask,
                              bool has_states, bool zero_masked) const {
  result.last = result.states[0];
  if (!mask.valid() || !(has_states || zero_masked)) return;
  const auto begun = [&] {
    return context.emit("any_so_far", {mask}, {{"go_backwards", sequence_.go_backwards}});
  };
  const ValueId all = result.sequence;
  result.sequence = context.emit("apply_mask", {all, zero_masked ? mask : begun()});
  const int64_t steps = context.type(mask).shape[1].count;
  const ValueId step =
      context.emit("slice", {result.sequence},
                   {{"axis", 1}, {"begin", sequence_.go_backwards ? 0 : steps - 1}, {"count", 1}});
  result.last = context.emit("reshape", {step}, {{"shape", std::vector<int64_t>{units_}}});
  if (!(zero_masked && sequence_.unroll && sequence_.go_backwards)) return;
  // keras.src.backend.tensorflow.rnn.rnn, unrolled: the outputs are in the order of computing when
  // they meet the mask, which is not.
  const ValueId reversed = context.emit("reverse", {mask}, {{"axis", 1}});
  result.sequence =
      context.emit("apply_mask", {context.emit("apply_mask", {all, begun()}), reversed});
}

std::vector<ValueId> RecurrentLayer::call(LayerContext& context,
                                          std::span<const ValueId> inputs) const {
  if (inputs.empty()) refuse("one input", "none", "");
  one_input(context, inputs.first(1), 3);
  const RecurrentInputs given = read_recurrent_inputs(context, inputs);
  ValueId mask = given.mask;
  const Recurrence result =
      run(context, inputs[0], given.states, mask, sequence_.zero_output_for_mask);
  if (!mask.valid()) mask = context.mask(0);
  std::vector<ValueId> outputs = {result.last};
  if (sequence_.return_sequences) {
    outputs[0] = sequence_.go_backwards ? context.emit("reverse", {result.sequence}, {{"axis", 1}})
                                        : result.sequence;
  }
  context.set_mask(0, sequence_.return_sequences ? mask : ValueId());
  if (sequence_.return_state)
    outputs.insert(outputs.end(), result.states.begin(), result.states.end());
  return outputs;
}

namespace {

class LSTM final : public RecurrentLayer {
 public:
  static constexpr std::string_view kClassName = "LSTM";
  explicit LSTM(ConfigReader& reader) : RecurrentLayer(reader, CellKind::kLstm) {}
};

class GRU final : public RecurrentLayer {
 public:
  static constexpr std::string_view kClassName = "GRU";
  explicit GRU(ConfigReader& reader) : RecurrentLayer(reader, CellKind::kGru) {}
};

class SimpleRNN final : public RecurrentLayer {
 public:
  static constexpr std::string_view kClassName = "SimpleRNN";
  explicit SimpleRNN(ConfigReader& reader) : RecurrentLayer(reader, CellKind::kSimpleRnn) {}
};

}  // namespace

std::shared_ptr<const Layer> make_lstm(const Config& config) {
  return construct_layer<LSTM>(config);
}
std::shared_ptr<const Layer> make_gru(const Config& config) { return construct_layer<GRU>(config); }
std::shared_ptr<const Layer> make_simple_rnn(const Config& config) {
  return construct_layer<SimpleRNN>(config);
}

std::shared_ptr<const SequenceLayer> make_recurrent(std::string_view class_name,
                                                    const Config& config) {
  std::shared_ptr<const Layer> layer;
  if (class_name == LSTM::kClassName) layer = make_lstm(config);
  if (class_name == GRU::kClassName) layer = make_gru(config);
  if (class_name == SimpleRNN::kClassName) layer = make_simple_rnn(config);
  if (class_name == "RNN") layer = make_rnn(config);
  if (class_name == "ConvLSTM1D") layer = make_conv_lstm1d(config);
  if (class_name == "ConvLSTM2D") layer = make_conv_lstm2d(config);
  if (class_name == "ConvLSTM3D") layer = make_conv_lstm3d(config);
  return std::static_pointer_cast<const SequenceLayer>(layer);
}

std::shared_ptr<const RecurrentLayer> make_cell(std::string_view class_name, const Config& config,
                                                const std::string& path) {
  ConfigReader reader(class_name, config);
  const CellKind kind = class_name == LSTM::kClassName  ? CellKind::kLstm
                        : class_name == GRU::kClassName ? CellKind::kGru
                                                        : CellKind::kSimpleRnn;
  auto cell = std::make_shared<const RecurrentLayer>(reader, kind, path);
  reader.finish();
  return cell;
}

}  // namespace plimsoll::layers
