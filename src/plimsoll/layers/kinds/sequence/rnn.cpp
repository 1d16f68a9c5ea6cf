// RNN: the cells of LSTM, GRU and SimpleRNN, one or several on top of each other, over a sequence.
//
// A stack runs cell by cell over the whole sequence, which is what Keras computes step by step: a
// masked step keeps the states of all of them, and what a cell gives there is read by cells that
// are masked there too.

#include <map>

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/sequence/recurrent.h"

namespace plimsoll::layers {
namespace {

constexpr size_t kMostCells = 256;

struct CellClass {
  std::string_view cell;
  std::string_view layer;
  std::string_view path;  // of the cell in a list of cells, in a .keras file
};
constexpr CellClass kCells[] = {
    {"GRUCell", "GRU", "gru_cell"},
    {"LSTMCell", "LSTM", "lstm_cell"},
    {"SimpleRNNCell", "SimpleRNN", "simple_rnn_cell"},
};

class Rnn final : public SequenceLayer {
 public:
  static constexpr std::string_view kClassName = "RNN";

  explicit Rnn(ConfigReader& reader) : SequenceLayer(reader) {
    sequence_ = read_sequence_options(reader);
    refuse_stateful(reader, sequence_);
    read_cells(reader, reader.value("cell", Config()));
    reader.legacy("input_spec");
    reader.refuse_unless_empty("time_major", "Put the batch first.");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.empty() || inputs[0].shape.rank() != 3) return {};
    std::vector<Weight> weights;
    ValueType type = inputs[0];
    for (const std::shared_ptr<const RecurrentLayer>& cell : cells_) {
      for (Weight weight : cell->weights(std::span(&type, 1))) {
        weight.trainable = weight.trainable && cell->trainable();
        weights.push_back(std::move(weight));
      }
      type.shape[2] = Dim::constant(cell->units());
    }
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.empty()) refuse("one input", "none", "");
    one_input(context, inputs.first(1), 3);
    const RecurrentInputs given = read_recurrent_inputs(context, inputs);
    ValueId mask = given.mask;
    const Recurrence result =
        run(context, inputs[0], given.states, mask, sequence_.zero_output_for_mask);
    if (!mask.valid()) mask = context.mask(0);
    ValueId y = result.last;
    if (sequence_.return_sequences) {
      y = sequence_.go_backwards ? context.emit("reverse", {result.sequence}, {{"axis", 1}})
                                 : result.sequence;
    }
    context.set_mask(0, sequence_.return_sequences ? mask : ValueId());
    std::vector<ValueId> outputs = {y};
    if (sequence_.return_state) {
      outputs.insert(outputs.end(), result.states.begin(), result.states.end());
    }
    return outputs;
  }

  // States are those of all cells, in order.
  Recurrence run(LayerContext& context, ValueId x, std::span<const ValueId> states, ValueId mask,
                 bool zero_masked) const override {
    size_t wanted = 0;
    for (const auto& cell : cells_) wanted += cell->state_count();
    if (!states.empty() && states.size() != wanted) {
      refuse(fmt::format("{} initial states", wanted), std::to_string(states.size()),
             "Give one value for each state of each cell.");
    }
    Recurrence last;
    std::vector<ValueId> all;
    size_t begin = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const RecurrentLayer& cell = *cells_[i];
      const size_t count = states.empty() ? 0 : cell.state_count();
      const bool zero = zero_masked && i + 1 == cells_.size();
      last = cell.run(context, x, states.subspan(begin, count), mask, zero);
      all.insert(all.end(), last.states.begin(), last.states.end());
      x = last.sequence;
      begin += count;
    }
    last.states = std::move(all);
    return last;
  }

 private:
  void read_cells(ConfigReader& reader, const Config& cell) {
    const Config* inner = cell.is_object() ? cell.find("config") : nullptr;
    const Config* list = cell.is_array() ? &cell : nullptr;
    if (list == nullptr && inner != nullptr && inner->is_object()) list = inner->find("cells");
    if (list == nullptr) {
      cells_.push_back(read_cell(reader, cell, "cell/"));
      return;
    }
    if (!list->is_array() || list->as_array().empty() || list->as_array().size() > kMostCells) {
      reader.refuse("cell", fmt::format("1 to {} cells", kMostCells), "another number");
    }
    std::map<std::string_view, int> seen;
    for (const Config& one : list->as_array()) {
      const CellClass& kind = class_of(reader, one);
      const int number = seen[kind.path]++;
      std::string path = "cell/cells/" + std::string(kind.path);
      if (number > 0) path += fmt::format("_{}", number);
      cells_.push_back(read_cell(reader, one, path + "/"));
    }
  }

  static const CellClass& class_of(ConfigReader& reader, const Config& cell) {
    const Config* name = cell.is_object() ? cell.find("class_name") : nullptr;
    for (const CellClass& one : kCells) {
      if (name != nullptr && name->is_string() && name->as_string() == one.cell) return one;
    }
    reader.refuse("cell", "an LSTMCell, GRUCell or SimpleRNNCell, or a list of them",
                  name == nullptr ? cell.to_json().substr(0, 80) : name->to_json(),
                  "Other cells hold Python code.");
  }

  std::shared_ptr<const RecurrentLayer> read_cell(ConfigReader& reader, const Config& cell,
                                                  const std::string& path) const {
    const CellClass& kind = class_of(reader, cell);
    const Config* inner = cell.find("config");
    Config config = inner != nullptr && inner->is_object() ? *inner : Config(Config::Object{});
    if (config.find("name") == nullptr) config.set("name", std::string(kind.path));
    config.set("go_backwards", sequence_.go_backwards);
    config.set("unroll", sequence_.unroll);
    return make_cell(kind.layer, config, path);
  }

  std::vector<std::shared_ptr<const RecurrentLayer>> cells_;
};

}  // namespace

std::shared_ptr<const Layer> make_rnn(const Config& config) { return construct_layer<Rnn>(config); }

}  // namespace plimsoll::layers
