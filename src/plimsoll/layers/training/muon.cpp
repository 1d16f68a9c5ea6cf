#include "layers/training/muon.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::layers {
namespace {

using graph::ValueId;

constexpr double kNoBound = 1e30;
constexpr double kEpsilon = 1e-7;  // Keras's, beside the norm
constexpr int64_t kMostSteps = 100;

class Direction {
 public:
  Direction(graph::GraphBuilder& builder, const Muon& muon, std::string name)
      : builder_(builder), muon_(muon), name_(std::move(name)) {}

  // About the nearest orthogonal matrix to `matrix`.
  ValueId find(ValueId matrix) {
    const std::vector<int64_t> dims = builder_.type(matrix).shape.at(1);
    tall_ = dims[0] > dims[1];
    const ValueId squares = call("sum_squares", "squares", {matrix}, {{"factor", 1.0}});
    const ValueId norm = call("unary", "norm", {squares}, {{"kind", "sqrt"}});
    const ValueId inverse =
        call("unary", "inverse", {scaled("norm_from_zero", norm, 1.0, kEpsilon)},
             {{"kind", "reciprocal"}});
    ValueId x =
        call("reshape", "matrix", {matrix}, {{"shape", std::vector<int64_t>{1, dims[0], dims[1]}}});
    x = call("multiply", "unit", {x, inverse}, {});
    for (int64_t i = 0; i < muon_.steps; ++i) x = iterate(x, "step_" + std::to_string(i) + "/");
    return call("reshape", "direction", {x}, {{"shape", dims}});
  }

 private:
  // a x + (b A + c A A) x, A = x xᵀ; of a tall x a x + x (b A + c A A), A = xᵀ x.
  ValueId iterate(ValueId x, const std::string& step) {
    const ValueId square = product(step + "square", x, x, tall_, !tall_);
    const ValueId fourth =
        product(step + "fourth", scaled(step + "c", square, muon_.c), square, false, false);
    const ValueId factor =
        call("add", step + "factor", {scaled(step + "b", square, muon_.b), fourth}, {});
    const ValueId change = tall_ ? product(step + "change", x, factor, false, false)
                                 : product(step + "change", factor, x, false, false);
    return call("add", step + "next", {scaled(step + "a", x, muon_.a), change}, {});
  }

  ValueId product(const std::string& what, ValueId left, ValueId right, bool turn_left,
                  bool turn_right) {
    return call("batch_matmul", what, {left, right},
                {{"transpose_left", turn_left}, {"transpose_right", turn_right}});
  }
  ValueId scaled(const std::string& what, ValueId x, double factor, double offset = 0.0) {
    return call("scale_shift", what, {x}, {{"scale", factor}, {"offset", offset}});
  }
  ValueId call(const char* op, const std::string& what, const std::vector<ValueId>& inputs,
               const graph::Attributes& attributes) {
    return builder_.call(op, name_ + "/" + what, inputs, attributes);
  }

  graph::GraphBuilder& builder_;
  const Muon& muon_;
  std::string name_;
  bool tall_ = false;
};

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Keras takes regular expressions, of which a file's may take any time. Those are read that say no
// more than plain text, "." for any character, "^" for a name's begin and "$" for its end.
std::vector<std::string> read_excluded(OptionReader& options) {
  std::vector<std::string> all = options.texts("exclude_layers");
  for (const std::string& one : all) {
    const size_t begin = one.starts_with('^') ? 1 : 0;
    const size_t end = one.size() - (one.size() > begin && one.ends_with('$') ? 1 : 0);
    if (one.substr(begin, end - begin).find_first_of("\\^$|?*+()[]{}") != std::string::npos) {
      options.refuse("exclude_layers",
                     "parts of weights' names, with no special characters but . ^ $", Config(one),
                     "Name a part of a weight's name.");
    }
  }
  return all;
}

bool is_found(std::string_view pattern, std::string_view name) {
  const bool from_begin = pattern.starts_with('^');
  if (from_begin) pattern.remove_prefix(1);
  const bool to_end = pattern.ends_with('$');
  if (to_end) pattern.remove_suffix(1);
  if (pattern.size() > name.size()) return false;
  for (size_t at = 0; at + pattern.size() <= name.size(); ++at) {
    if (from_begin && at > 0) break;
    if (to_end && at + pattern.size() != name.size()) continue;
    const std::string_view part = name.substr(at, pattern.size());
    if (std::ranges::equal(pattern, part, [](char p, char c) { return p == '.' || p == c; })) {
      return true;
    }
  }
  return false;
}

}  // namespace

Muon read_muon(OptionReader& options) {
  Muon muon;
  muon.exclude_layers = read_excluded(options);
  muon.exclude_embeddings = options.flag("exclude_embeddings", true);
  muon.a = options.number("muon_a", 3.4445, -kNoBound, kNoBound);
  muon.b = options.number("muon_b", -4.7750, -kNoBound, kNoBound);
  muon.c = options.number("muon_c", 2.0315, -kNoBound, kNoBound);
  muon.adam_rate_ratio = options.number("adam_lr_ratio", 1, 1e-12, kNoBound);
  muon.momentum = options.number("momentum", 0.95, 0, 1);
  muon.steps = static_cast<int64_t>(options.number("ns_steps", 5, 0, kMostSteps));
  muon.nesterov = options.flag("nesterov", true);
  if (options.is_null("rms_rate")) {
    options.ignore("rms_rate");
  } else {
    muon.rms_rate = options.number("rms_rate", 0.2, 0, kNoBound);
  }
  return muon;
}

bool takes(const Muon& muon, const std::string& weight, size_t rank) {
  if (rank != 2) return false;
  if (muon.exclude_embeddings && lower(weight).find("embedding") != std::string::npos) return false;
  return std::ranges::none_of(
      muon.exclude_layers, [&](const std::string& excluded) { return is_found(excluded, weight); });
}

MuonStep add_muon_step(graph::GraphBuilder& builder, const Muon& muon, const std::string& name,
                       const MuonStep& before, ValueId gradient, ValueId learning_rate) {
  const auto scaled = [&](const std::string& what, ValueId x, double factor) {
    return builder.call("scale_shift", name + "/" + what, {x},
                        {{"scale", factor}, {"offset", 0.0}});
  };
  MuonStep next;
  next.momentum = builder.call("add", name + "/momentum_next",
                               {scaled("momentum_left", before.momentum, muon.momentum), gradient});
  ValueId way = next.momentum;
  if (muon.nesterov) {
    way = builder.call("add", name + "/ahead",
                       {scaled("momentum_ahead", next.momentum, muon.momentum), gradient});
  }
  ValueId step = Direction(builder, muon, name + "/muon").find(way);
  if (muon.rms_rate) {
    const std::vector<int64_t> dims = builder.type(step).shape.at(1);
    const auto larger = static_cast<double>(std::max(dims[0], dims[1]));
    step = scaled("step", step, std::sqrt(larger) * *muon.rms_rate);
  }
  graph::Attributes attributes;
  if (muon.weight_decay) attributes.set("weight_decay", *muon.weight_decay);
  next.weight =
      builder.call("sgd", name + "/update", {before.weight, step, learning_rate}, attributes);
  return next;
}

}  // namespace plimsoll::layers
