#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

constexpr int64_t kSteps = 7;

Dim of(int64_t n) { return Dim::constant(n); }

struct Options {
  int64_t units = 5;
  bool initial_state = false;
  bool dropout = false;
  bool masked = false;
  bool backwards = false;
  bool reset_after = true;
  bool recurrent_bias = false;
  bool sequence = true;  // the results that enter the loss
  bool states = false;
  int64_t folded = 1;  // sequences a sample
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";
};

int64_t gates_of(const std::string& cell) { return cell == "lstm" ? 4 : cell == "gru" ? 3 : 1; }

void build(CaseBuilder& c, const std::string& cell, const Options& o) {
  const int64_t wide = gates_of(cell) * o.units;
  const Dim batch = Dim::batch(o.folded);
  const Shape state{batch, of(o.units)};
  std::vector<ValueId> inputs = {c.input("z", {batch, of(kSteps), of(wide)}),
                                 c.input("kernel", {of(o.units), of(wide)})};
  if (o.recurrent_bias) inputs.push_back(c.input("bias", {of(wide)}));
  if (o.initial_state) inputs.push_back(c.input("h", state));
  if (o.initial_state && cell == "lstm") inputs.push_back(c.input("c", state));
  if (o.dropout) inputs.push_back(c.constant("factors", {batch, of(wide)}, Fill::kPositive));
  if (o.masked) {
    inputs.push_back(c.integers("mask", {batch, of(kSteps)}, DType::kBool, 2));
  }
  Attributes attributes{{"units", o.units},
                        {"activation", o.activation},
                        {"go_backwards", o.backwards},
                        {"initial_state", o.initial_state},
                        {"recurrent_dropout", o.dropout},
                        {"masked", o.masked}};
  if (cell != "simple_rnn") attributes.set("recurrent_activation", o.recurrent_activation);
  if (cell == "gru") {
    attributes.set("reset_after", o.reset_after);
    attributes.set("recurrent_bias", o.recurrent_bias);
  }
  const graph::NodeId node = c.builder().add(cell, cell, inputs, attributes);
  const std::vector<ValueId> outputs = c.builder().graph().node(node).outputs;
  if (o.sequence) c.result(outputs[0]);
  if (!o.states) return;
  const size_t first = cell == "lstm" ? 3 : 2;
  for (size_t i = first; i < outputs.size(); ++i) c.result(outputs[i]);
}

Case recurrent(const std::string& cell, const std::string& name, const Options& options) {
  return {.name = cell + "_" + name,
          .build = [=](CaseBuilder& c) { build(c, cell, options); },
          .gradient_tolerance = 1e-5};
}

}  // namespace

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  for (const std::string cell : {"lstm", "gru", "simple_rnn"}) {
    cases.push_back(recurrent(cell, "sequence", {}));
    cases.push_back(recurrent(cell, "last", {.sequence = false, .states = true}));
    cases.push_back(recurrent(cell, "masked", {.masked = true, .states = true}));
    cases.push_back(recurrent(
        cell, "folded", {.initial_state = true, .masked = true, .states = true, .folded = 3}));
    cases.push_back(
        recurrent(cell, "backwards",
                  {.initial_state = true, .masked = true, .backwards = true, .states = true}));
    cases.push_back(recurrent(cell, "dropped_out", {.initial_state = true, .dropout = true}));
    // Slopes from sums: those of gelu and hard_sigmoid are no functions of the result.
    cases.push_back(recurrent(cell, "of_sums",
                              {.initial_state = true,
                               .masked = true,
                               .states = true,
                               .activation = "gelu",
                               .recurrent_activation = "hard_sigmoid"}));
    // Whole vectors and parts of them, and rows in groups.
    cases.push_back(recurrent(
        cell, "wide", {.units = 37, .initial_state = true, .masked = true, .states = true}));
    cases.back().batch = 9;
    cases.push_back(recurrent(cell, "hard",
                              {.activation = "softsign", .recurrent_activation = "hard_sigmoid"}));
  }
  cases.push_back(recurrent("gru", "with_bias", {.masked = true, .recurrent_bias = true}));
  cases.push_back(recurrent("gru", "reset_before", {.reset_after = false, .states = true}));
  cases.push_back(recurrent("gru", "reset_before_of_sums",
                            {.initial_state = true,
                             .masked = true,
                             .backwards = true,
                             .reset_after = false,
                             .activation = "gelu",
                             .recurrent_activation = "hard_sigmoid"}));
  cases.push_back(recurrent("gru", "reset_before_dropped_out",
                            {.initial_state = true, .dropout = true, .reset_after = false}));
  return cases;
}

}  // namespace plimsoll::ops_test
