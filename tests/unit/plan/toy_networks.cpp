#include "unit/plan/toy_networks.h"

#include "toys/toy_plans.h"

namespace plimsoll::plan::testing {
namespace {

std::string id(const char* stem, size_t layer) { return stem + std::to_string(layer); }

class Writer {
 public:
  explicit Writer(const ToyNetwork& network) : network_(network) {}

  std::string write() {
    text_ = "program " + network_.name + " batch " + std::to_string(network_.batch) + "\n";
    text_ += "input %y0 float32 " + rows(0) + "\n";
    for (size_t l = 1; l < network_.widths.size(); ++l) write_states(l);
    for (size_t l = 1; l < network_.widths.size(); ++l) write_layer(l);
    const size_t last = network_.widths.size() - 1;
    node("loss", "grand_total", "%" + id(top(), last), "()", "loss");
    if (network_.training) {
      node(id("d", last), "scale", "%" + id(top(), last), rows(last), "backward", "{factor=2.0}");
      for (size_t l = last; l > 0; --l) write_gradients(l);
    }
    text_ += "output %loss\n";
    return text_;
  }

 private:
  const char* top() const { return network_.normalized ? "n" : "y"; }
  std::string width(size_t layer) const { return std::to_string(network_.widths[layer]); }
  std::string rows(size_t layer) const { return "(B, " + width(layer) + ")"; }
  std::string below(size_t layer) const { return "%" + id(layer == 1 ? "y" : top(), layer - 1); }

  void node(const std::string& name, const std::string& op, const std::string& inputs,
            const std::string& shape, const std::string& stage,
            const std::string& attributes = "{}", size_t layer = 0) {
    text_ += "node " + name + " " + op + " (" + inputs + ") -> (%" + name + " float32 " + shape +
             ") " + attributes + (layer == 0 ? "" : " layer=" + id("layer", layer)) + " " + stage +
             "\n";
  }

  void write_states(size_t l) {
    const std::string layer = " layer=" + id("layer", l) + "\n";
    text_ += "state %" + id("w", l) + " float32 (" + width(l - 1) + ", " + width(l) +
             ") weight trainable" + layer;
    if (network_.training && l > 1) {
      text_ += "state %" + id("v", l) + " float32 (" + width(l) + ", " + width(l - 1) + ") weight" +
               layer;
    }
  }

  void write_layer(size_t l) {
    node(id("h", l), "lines", below(l) + ", %" + id("w", l), rows(l), "forward", "{}", l);
    node(id("y", l), "scale", "%" + id("h", l), rows(l), "forward", "{factor=0.5}", l);
    if (!network_.normalized) return;
    node(id("s", l), "total", "%" + id("y", l), "(" + width(l) + ")", "forward", "{}", l);
    node(id("n", l), "shift", "%" + id("y", l) + ", %" + id("s", l), rows(l), "forward", "{}", l);
  }

  void write_gradients(size_t l) {
    const std::string n = std::to_string(l);
    std::string gradient = "%d" + n;
    if (network_.normalized) {
      node("t" + n, "total", gradient, "(" + width(l) + ")", "backward", "{}", l);
      node("m" + n, "shift", gradient + ", %t" + n, rows(l), "backward", "{}", l);
      gradient = "%m" + n;
    }
    node("z" + n, "gate", gradient + ", %y" + n, rows(l), "backward", "{}", l);
    node("g" + n, "lines_grad", below(l) + ", %z" + n, "(" + width(l - 1) + ", " + width(l) + ")",
         "backward", "{}", l);
    if (l > 1) {
      node(id("d", l - 1), "lines", "%z" + n + ", %v" + n, rows(l - 1), "backward", "{}", l);
    }
    node("u" + n, "descend", "%w" + n + ", %g" + n, "(" + width(l - 1) + ", " + width(l) + ")",
         "update", "{}", l);
    text_ += "node write" + n + " state_write (%u" + n + ") -> () {} writes=w" + n + " update\n";
  }

  const ToyNetwork& network_;
  std::string text_;
};

}  // namespace

std::string toy_network_text(const ToyNetwork& network) { return Writer(network).write(); }

graph::ProgramSet toy_network(const ToyNetwork& network) {
  return toys::parse_programs(toy_network_text(network));
}

graph::ProgramSet toy_programs(ToyNetwork network, int64_t tail) {
  std::string text = toy_network_text(network);
  const int64_t batch = network.batch;
  network.name = "train_tail";
  network.batch = tail;
  text += toy_network_text(network);
  network.name = "evaluate";
  network.batch = batch;
  network.training = false;
  return toys::parse_programs(text + toy_network_text(network));
}

}  // namespace plimsoll::plan::testing
