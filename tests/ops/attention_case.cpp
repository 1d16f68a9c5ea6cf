#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

struct Options {
  int64_t queries = 5;
  int64_t keys = 7;
  int64_t heads = 2;
  int64_t width = 3;
  int64_t values = 4;
  bool causal = false;
  bool key_masked = false;
  bool query_masked = false;
  bool masked = false;
  double rate = 0;
  int64_t rows = 1;  // of a sample
};

Case attention(const std::string& name, const Options& o) {
  return {.name = name,
          .build =
              [=](CaseBuilder& c) {
                const auto heads = [&](int64_t length, int64_t width) {
                  return Shape{Dim::batch(o.rows), of(length), of(o.heads), of(width)};
                };
                std::vector<ValueId> inputs = {c.input("q", heads(o.queries, o.width)),
                                               c.input("k", heads(o.keys, o.width)),
                                               c.input("v", heads(o.keys, o.values))};
                const auto mask = [&](const std::string& of_what, Shape shape) {
                  inputs.push_back(c.integers(of_what, std::move(shape), DType::kBool, 2));
                };
                if (o.key_masked) mask("keys", {Dim::batch(), of(o.keys)});
                if (o.query_masked) mask("queries", {Dim::batch(), of(o.queries)});
                if (o.masked) mask("mask", {Dim::batch(), of(o.queries), of(o.keys)});
                Attributes attributes{{"scale", 0.7},
                                      {"causal", o.causal},
                                      {"key_masked", o.key_masked},
                                      {"query_masked", o.query_masked},
                                      {"masked", o.masked}};
                if (o.rate > 0) {
                  attributes.set("rate", o.rate);
                  attributes.set("site", 5);
                }
                c.result(c.call("attention", inputs, attributes));
              },
          .tolerance = 3e-5,
          .gradient_tolerance = 1e-5,
          .batch = 3};
}

}  // namespace

std::vector<Case> attention_cases() {
  return {
      attention("attention", {}),
      attention("attention_causal", {.queries = 9, .keys = 9, .causal = true}),
      // Several tiles of keys, the last one short.
      attention("attention_long", {.queries = 3, .keys = 131, .heads = 1}),
      attention("attention_causal_long",
                {.queries = 70, .keys = 70, .heads = 1, .width = 2, .values = 2, .causal = true}),
      // Several tiles of both, and whole vectors and parts of them.
      attention("attention_wide", {.queries = 66, .keys = 70, .width = 20, .values = 35}),
      attention("attention_wide_masked", {.queries = 70,
                                          .keys = 66,
                                          .width = 18,
                                          .values = 16,
                                          .causal = true,
                                          .key_masked = true,
                                          .query_masked = true,
                                          .masked = true,
                                          .rate = 0.2}),
      attention("attention_keys_masked", {.key_masked = true}),
      // Rows without any key among them.
      attention("attention_masked", {.query_masked = true, .masked = true}),
      attention("attention_causal_masked",
                {.queries = 9, .keys = 9, .causal = true, .key_masked = true}),
      attention("attention_dropped_out", {.causal = true, .rate = 0.3}),
      // Steps of a sequence are rows: each draws anew, and blocks draw as the whole does.
      attention("attention_dropped_out_of_several_rows", {.rate = 0.3, .rows = 2}),
      attention("attention_dropped_out_of_several_rows_wide",
                {.queries = 66, .keys = 70, .rate = 0.3, .rows = 2}),
      attention("attention_of_one", {.queries = 1, .keys = 1, .heads = 1, .width = 1, .values = 1}),
  };
}

}  // namespace plimsoll::ops_test
