#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

graph::StateId variable(CaseBuilder& c, const std::string& name, graph::ValueType type) {
  return c.builder().state({.name = name, .type = std::move(type)});
}

Case rank_sum_case() {
  return {
      .name = "rank_sum", .build = [](CaseBuilder& c) {
        const ValueId x = c.constant("x", {Dim::constant(3), Dim::constant(5)});
        const graph::NodeId first =
            c.builder().add("rank_sum", "first", {x}, {{"rows_per_sample", 0}});
        const std::vector<ValueId> made = c.builder().mutable_graph().node(first).outputs;
        const ValueId m = c.constant("m", {Dim::constant(2), Dim::constant(4)});
        c.builder().output(made[0]);
        const graph::NodeId second =
            c.builder().add("rank_sum", "second", {m, made[1]}, {{"rows_per_sample", 6}});
        c.builder().output(c.builder().mutable_graph().node(second).outputs[0]);
        const std::vector<ValueId> sums = {x, m, c.builder().graph().node(second).outputs[1]};
        const graph::NodeId bucket = c.builder().add(
            "rank_sums", "bucket", sums, {{"rows_per_sample", std::vector<int64_t>{0, 6}}});
        for (size_t i = 0; i < 2; ++i) {
          c.builder().output(c.builder().graph().node(bucket).outputs[i]);
        }
        const ValueId even = c.constant("even", {Dim::constant(4), Dim::constant(4)});
        const graph::NodeId begun =
            c.builder().add("rank_sum_begin", "begun", {even, m},
                            {{"rows_per_sample", std::vector<int64_t>{0, 6}}, {"under_way", true}});
        const std::vector<ValueId> under_way = c.builder().graph().node(begun).outputs;
        const graph::NodeId ended =
            c.builder().add("rank_sum_end", "ended", under_way,
                            {{"rows_per_sample", std::vector<int64_t>{0, 6}}, {"waits", true}});
        for (size_t i = 0; i < 2; ++i) {
          c.builder().output(c.builder().graph().node(ended).outputs[i]);
        }
        const ValueId y = c.constant("y", {Dim::batch(), Dim::constant(3)});
        const graph::NodeId third = c.builder().add("rank_gather", "third", {y}, {{"samples", 40}});
        c.builder().output(c.builder().mutable_graph().node(third).outputs[0]);
      }};
}

Case rank_parts_case() {
  return {
      .name = "rank_parts", .build = [](CaseBuilder& c) {
        // Parts of 8: the second one has a value less.
        const Attributes halves{{"parts", 2}};
        const ValueId x = c.constant("x", {Dim::constant(3), Dim::constant(5)});
        const auto first_of = [&](graph::NodeId node) {
          return c.builder().graph().node(node).outputs[0];
        };
        const graph::NodeId sum = c.builder().add("rank_scatter", "sum", {x}, halves);
        const ValueId part = c.call("rank_part", {x}, halves);
        const ValueId after = c.builder().graph().node(sum).outputs[1];
        const Attributes norm{{"parts", 2}, {"shape", std::vector<int64_t>{3, 5}}, {"factor", 0.5}};
        const graph::NodeId squares =
            c.builder().add("rank_squares", "squares", {part, after}, norm);
        c.builder().output(first_of(squares));
        Attributes whole{{"parts", 2}, {"shape", std::vector<int64_t>{3, 5}}, {"into", 1}};
        c.builder().output(
            first_of(c.builder().add("rank_whole", "whole", {first_of(sum), x}, whole)));
        whole.set("into", int64_t{0});
        const ValueId y = c.constant("y", {Dim::batch(), Dim::constant(3)});
        const ValueId mark = c.call("batch_mark", {y});
        c.builder().output(
            first_of(c.builder().add("rank_whole", "again", {first_of(sum), mark}, whole)));
      }};
}

}  // namespace

std::vector<Case> state_cases() {
  return {
      {.name = "state_write",
       .build =
           [](CaseBuilder& c) {
             const graph::StateId w = variable(c, "w", {c.real(), {Dim::constant(6)}});
             const ValueId old = c.builder().read(w);
             c.builder().write(w, c.call("accumulate", {old, old}));
           }},
      {.name = "increment",
       .build =
           [](CaseBuilder& c) {
             const graph::StateId n = variable(c, "n", {DType::kInt64, Shape()});
             c.builder().write(n, c.call("increment", {c.builder().read(n)}));
           }},
      {.name = "batch_rows",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), Dim::constant(6)});
             const ValueId kept = c.call("put_rows", {x}, {{"count", 5}});
             c.call("take_rows", {kept});
           }},
      rank_sum_case(),
      rank_parts_case(),
      {.name = "pack_plain",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), Dim::constant(6)});
             const ValueId w = c.constant("w", {Dim::constant(6), Dim::constant(4)});
             const int64_t bytes = 24 * element_bytes(c.real()).count();
             const ValueId packed = c.call("pack", {w}, {{"layout", "plain"}, {"bytes", bytes}});
             const ValueId y = c.call("dense", {x, packed}, {{"units", 4}});
             c.call("dense_grad_input", {y, packed}, {{"input_dim", 6}});
           },
       .only = "reference"},
      {.name = "pack_plain_conv2d",
       .build =
           [](CaseBuilder& c) {
             const Dim three = Dim::constant(3);
             const ValueId x =
                 c.constant("x", {Dim::batch(), Dim::constant(5), Dim::constant(4), three});
             const ValueId w = c.constant("w", {three, three, three, Dim::constant(2)});
             const int64_t bytes = 54 * element_bytes(c.real()).count();
             const ValueId packed = c.call("pack", {w}, {{"layout", "plain"}, {"bytes", bytes}});
             Attributes attributes{{"filters", 2},
                                   {"kernel_size", std::vector<int64_t>{3, 3}},
                                   {"strides", std::vector<int64_t>{1, 1}},
                                   {"padding", std::vector<int64_t>{1, 1, 1, 1}},
                                   {"dilation_rate", std::vector<int64_t>{1, 1}},
                                   {"groups", 1}};
             const ValueId y = c.call("conv2d", {x, packed}, attributes);
             attributes.set("input_shape", std::vector<int64_t>{5, 4, 3});
             c.call("conv2d_grad_input", {y, packed}, attributes);
           },
       .only = "reference"},
  };
}

}  // namespace plimsoll::ops_test
