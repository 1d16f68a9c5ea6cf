#pragma once

// LSTM, GRU and SimpleRNN: one layer over three cells.
//
// The product of the inputs with the kernel is a dense node over all steps; what goes from step to
// step is one operator (ops/recurrent.h). Weights are called as Keras files hold them, in the
// sub-object "cell". A step that is masked keeps the state; its output repeats the last one, or is
// zero with zero_output_for_mask. Going backwards keeps results at their inputs' places until the
// output, which Keras has in the order of computing.

#include <memory>

#include "layers/model/layer.h"
#include "ops/recurrent.h"

namespace plimsoll::layers {

// One pass over a sequence.
struct Recurrence {
  ValueId sequence;             // (B, T, U), each step at its input's place
  ValueId last;                 // (B, U), of the step that ran last
  std::vector<ValueId> states;  // h, and c of LSTM
};

// What layers over sequences have, whatever their cells.
struct SequenceOptions {
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
};
SequenceOptions read_sequence_options(ConfigReader& reader);
// Refuses stateful=True of layers whose states are not carried from batch to batch.
void refuse_stateful(const ConfigReader& reader, const SequenceOptions& options);

// What a layer over sequences was called with: `states` is empty or one per state.
struct RecurrentInputs {
  std::vector<ValueId> states{};
  ValueId mask{};  // invalid: none
};
RecurrentInputs read_recurrent_inputs(LayerContext& context, std::span<const ValueId> inputs);

// 0 to below 1.
double read_dropout_rate(ConfigReader& reader, std::string_view key);
// Ones times dropout, (B, dims…).
ValueId dropout_factors(LayerContext& context, double rate, const std::vector<int64_t>& dims);

// A layer that can stand in Bidirectional.
class SequenceLayer : public Layer {
 public:
  bool return_sequences() const { return sequence_.return_sequences; }
  bool return_state() const { return sequence_.return_state; }
  bool go_backwards() const { return sequence_.go_backwards; }
  // What it is called on has samples, steps and what a step has.
  virtual int rank() const { return 3; }
  // `states` is empty or one per state; `mask` may be invalid; `zero_masked` overrides the layer's
  // zero_output_for_mask.
  virtual Recurrence run(LayerContext& context, ValueId x, std::span<const ValueId> states,
                         ValueId mask, bool zero_masked) const = 0;

 protected:
  using Layer::Layer;
  SequenceOptions sequence_;
};

class RecurrentLayer : public SequenceLayer {
 public:
  // `path`: where its weights are, with a slash at its end.
  RecurrentLayer(ConfigReader& reader, ops::CellKind kind, std::string path = "cell/");

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override;
  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override;

  int64_t units() const { return units_; }
  size_t state_count() const { return kind_ == ops::CellKind::kLstm ? 2 : 1; }
  bool carries_state() const override { return sequence_.stateful; }
  bool keeps_calls_apart() const override { return sequence_.stateful; }
  Recurrence run(LayerContext& context, ValueId x, std::span<const ValueId> states, ValueId mask,
                 bool zero_masked) const override;

 private:
  int64_t gates() const;
  int64_t wide() const { return gates() * units_; }
  Recurrence run_from(LayerContext& context, ValueId x, std::span<const ValueId> states,
                      ValueId mask, bool zero_masked) const;
  ValueId project(LayerContext& context, ValueId x) const;
  ValueId add_bias(LayerContext& context, ValueId z, ValueId* recurrent_bias) const;
  void set_last(LayerContext& context, Recurrence& result, ValueId mask, bool has_states,
                bool zero_masked) const;

  ops::CellKind kind_;
  std::string path_;
  int64_t units_ = 1;
  std::string activation_;
  std::string recurrent_activation_;
  bool use_bias_ = true;
  bool unit_forget_bias_ = false;
  bool reset_after_ = true;
  double dropout_ = 0;
  double recurrent_dropout_ = 0;
  Config kernel_initializer_;
  Config recurrent_initializer_;
  Config bias_initializer_;
  Config kernel_regularizer_;
  Config recurrent_regularizer_;
  Config bias_regularizer_;
};

// LSTM, GRU, SimpleRNN, RNN and ConvLSTM1D to 3D; nullptr where the class is another one.
std::shared_ptr<const SequenceLayer> make_recurrent(std::string_view class_name,
                                                    const Config& config);

// The layer of one cell that RNN holds; the class is one of this file.
std::shared_ptr<const RecurrentLayer> make_cell(std::string_view class_name, const Config& config,
                                                const std::string& path);

}  // namespace plimsoll::layers
