#include "formats/keras/tensorflow_functions.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::TreeCall;
using layers::TreeNode;

constexpr std::string_view kNumpy = "keras.src.ops.numpy";
constexpr std::string_view kNn = "keras.src.ops.nn";
constexpr std::string_view kCore = "keras.src.ops.core";
constexpr std::string_view kLayers = "keras.layers";

// What an argument of the function is to the operator.
struct Argument {
  std::string_view given;   // by TensorFlow's name
  std::string_view option;  // of the operator; empty: its second operand
};

struct Function {
  std::string_view name;  // after "tf."
  std::string_view operation;
  std::string_view module;
  std::array<Argument, 2> arguments{};
};

constexpr std::array<Argument, 2> kSecond = {Argument{"y", ""}};
constexpr std::array<Argument, 2> kAxis = {Argument{"axis", "axis"}};
constexpr std::array<Argument, 2> kReduce = {Argument{"axis", "axis"},
                                             Argument{"keepdims", "keepdims"}};

constexpr std::array kFunctions = {
    Function{"__operators__.add", "Add", kNumpy, kSecond},
    Function{"math.add", "Add", kNumpy, kSecond},
    Function{"math.subtract", "Subtract", kNumpy, kSecond},
    Function{"math.multiply", "Multiply", kNumpy, kSecond},
    Function{"math.divide", "Divide", kNumpy, kSecond},
    Function{"math.truediv", "Divide", kNumpy, kSecond},
    Function{"math.maximum", "Maximum", kNumpy, kSecond},
    Function{"math.minimum", "Minimum", kNumpy, kSecond},
    Function{"math.equal", "Equal", kNumpy, kSecond},
    Function{"math.not_equal", "NotEqual", kNumpy, kSecond},
    Function{"math.greater", "Greater", kNumpy, kSecond},
    Function{"math.greater_equal", "GreaterEqual", kNumpy, kSecond},
    Function{"math.less", "Less", kNumpy, kSecond},
    Function{"math.less_equal", "LessEqual", kNumpy, kSecond},
    Function{"math.logical_and", "LogicalAnd", kNumpy, kSecond},
    Function{"math.logical_or", "LogicalOr", kNumpy, kSecond},
    Function{"math.logical_not", "LogicalNot", kNumpy},
    Function{"math.negative", "Negative", kNumpy},
    Function{"math.square", "Square", kNumpy},
    Function{"math.abs", "Absolute", kNumpy},
    Function{"math.sqrt", "Sqrt", kNumpy},
    Function{"math.log", "Log", kNumpy},
    Function{"math.log1p", "Log1p", kNumpy},
    Function{"math.pow", "Power", kNumpy, kSecond},
    Function{"clip_by_value",
             "Clip",
             kNumpy,
             {Argument{"clip_value_min", "x_min"}, Argument{"clip_value_max", "x_max"}}},
    Function{"linalg.matmul", "Matmul", kNumpy, {Argument{"b", ""}}},
    Function{"math.exp", "Exp", kNumpy},
    Function{"math.tanh", "Tanh", kNumpy},
    Function{"nn.tanh", "Tanh", kNumpy},
    Function{"math.sigmoid", "Sigmoid", kNn},
    Function{"nn.sigmoid", "Sigmoid", kNn},
    Function{"math.log_sigmoid", "LogSigmoid", kNn},
    Function{"math.softplus", "Softplus", kNn},
    Function{"nn.softplus", "Softplus", kNn},
    Function{"nn.softsign", "Softsign", kNn},
    Function{"math.softsign", "Softsign", kNn},
    Function{"nn.relu", "Relu", kNn},
    Function{"nn.relu6", "Relu6", kNn},
    Function{"nn.leaky_relu", "LeakyRelu", kNn, {Argument{"alpha", "negative_slope"}}},
    Function{"nn.elu", "Elu", kNn},
    Function{"nn.selu", "Selu", kNn},
    Function{"nn.silu", "Silu", kNn},
    Function{"nn.swish", "Silu", kNn},
    Function{"nn.gelu", "Gelu", kNn, {Argument{"approximate", "approximate"}}},
    Function{"nn.softmax", "Softmax", kNn, kAxis},
    Function{"nn.log_softmax", "LogSoftmax", kNn, kAxis},
    Function{"identity", "Identity", kLayers},
    Function{"cast", "Cast", kCore, {Argument{"dtype", "dtype"}}},
    Function{"reshape", "Reshape", kNumpy, {Argument{"shape", "newshape"}}},
    Function{"transpose", "Transpose", kNumpy, {Argument{"perm", "axes"}}},
    Function{"expand_dims", "ExpandDims", kNumpy, kAxis},
    Function{"squeeze", "Squeeze", kNumpy, kAxis},
    Function{"concat", "Concatenate", kNumpy, kAxis},
    Function{"stack", "Stack", kNumpy, kAxis},
    Function{"math.reduce_mean", "Mean", kNumpy, kReduce},
    Function{"math.reduce_sum", "Sum", kNumpy, kReduce},
    Function{"math.reduce_max", "Max", kNumpy, kReduce},
    Function{"math.reduce_min", "Min", kNumpy, kReduce},
    Function{"__operators__.getitem", "GetItem", kNumpy, {Argument{"slice_spec", ""}}},
};

// Functions that TensorFlow has under a second name: tf.add is tf.math.add.
std::string full_name(const std::string& name) {
  if (name == "nn.log_sigmoid") return "math.log_sigmoid";
  if (name == "matmul") return "linalg.matmul";
  if (name.find('.') != std::string::npos) return name;
  const std::string in_math = "math." + name;
  for (const Function& known : kFunctions) {
    if (known.name == in_math) return in_math;
  }
  return name;
}

const Function* find_function(const Config& config) {
  const Config* name = config.find("function");
  if (name == nullptr || !name->is_string()) return nullptr;
  const std::string full = full_name(name->as_string());
  for (const Function& known : kFunctions) {
    if (known.name == full) return &known;
  }
  return nullptr;
}

const Function& function_of(const std::string& where, const Config& config,
                            const JsonSource& source) {
  if (const Function* found = find_function(config)) return *found;
  const Config* name = config.find("function");
  const std::string given =
      name != nullptr && name->is_string() ? name->as_string() : std::string("none");
  std::vector<std::string> known;
  for (const Function& function : kFunctions) known.emplace_back(function.name);
  source.refuse(where, "a TensorFlow function that is an operator Plimsoll trains", "tf." + given,
                "Build this part of the model with Keras's layers." + did_you_mean(given, known));
}

const Argument* find_argument(const Function& function, std::string_view given) {
  for (const Argument& argument : function.arguments) {
    if (!argument.given.empty() && argument.given == given) return &argument;
  }
  return nullptr;
}

// An index of x[…] as Keras 3 writes it: slices as objects, a new axis as null.
Config index_of(const Config& value) {
  if (value.is_array()) {
    Config::Array items;
    for (const Config& item : value.as_array()) items.push_back(index_of(item));
    return items;
  }
  if (value.is_object() && value.find("start") != nullptr) {
    return Config::Object{{"class_name", "__slice__"}, {"config", value}};
  }
  if (value == Config("...")) {
    return Config::Object{{"class_name", "__ellipsis__"}, {"config", Config::Object{}}};
  }
  return value;
}

// A constant array as Keras 3 writes one.
Config operand_of(const Config& value) {
  if (!value.is_array()) return value;
  return Config::Object{{"class_name", "__numpy__"},
                        {"config", Config::Object{{"value", value}, {"dtype", "float32"}}}};
}

// Values that mean what the operator does anyway.
bool is_default(const Function& function, std::string_view key, const Config& value) {
  if (key == "name") return true;
  const bool swish = function.operation == "Silu" && key == "beta";
  return swish && value.is_number() && value.as_double() == 1.0;
}

// Arguments that TensorFlow's function takes where none are given and Keras's operator does not.
Config default_options(const Function& function) {
  if (function.operation == "Softmax" || function.operation == "LogSoftmax") {
    return Config::Object{{"axis", -1}};
  }
  if (function.operation == "Stack") return Config::Object{{"axis", 0}};
  if (function.operation == "Gelu") return Config::Object{{"approximate", false}};
  return Config::Object{};
}

bool holds_tensor(const Config& value) {
  if (value.is_array()) {
    for (const Config& item : value.as_array()) {
      if (holds_tensor(item)) return true;
    }
  }
  return value.find("tensor") != nullptr;
}

class Translator {
 public:
  Translator(TreeNode& node, const Function& function, const JsonSource& source)
      : node_(node), function_(function), source_(source) {}

  void run() {
    Config options;
    for (size_t i = 0; i < node_.calls.size(); ++i) {
      Config own;
      translate(node_.calls[i], own);
      if (i > 0 && own != options) {
        source_.refuse(node_.name, "the same arguments in each call",
                       fmt::format("others in call {}", i), "Call the function anew for each.");
      }
      options = std::move(own);
    }
    Config config{Config::Object{{"name", node_.name}}};
    for (const auto& [key, value] : options.as_object()) config.set(key, value);
    node_.config = std::move(config);
    node_.class_name = function_.operation;
    node_.module = function_.module;
  }

 private:
  void translate(TreeCall& call, Config& options) const {
    Config::Array args = call.args.as_array();
    if (args.size() == 1 && !holds_tensor(args[0])) args[0] = operand_of(args[0]);
    options = default_options(function_);
    for (const auto& [key, value] : call.kwargs.as_object()) {
      if (is_default(function_, key, value)) continue;
      const Argument* argument = find_argument(function_, key);
      if (argument == nullptr) {
        source_.refuse(node_.name, "arguments that are known of tf." + std::string(function_.name),
                       key + "=" + excerpt(value), "Build this part of the model with layers.");
      }
      if (argument->option.empty()) {
        args.push_back(function_.operation == "GetItem" ? index_of(value) : operand_of(value));
      } else {
        if (holds_tensor(value)) {
          source_.refuse(node_.name, "a constant " + key, "one that is computed",
                         "Give sizes and axes as numbers.");
        }
        options.set(std::string(argument->option), only(key, value));
      }
    }
    call.args = std::move(args);
    call.kwargs = Config(Config::Object{});
  }

  // squeeze takes a list of one.
  static Config only(const std::string& key, const Config& value) {
    const bool one = key == "axis" && value.is_array() && value.as_array().size() == 1;
    return one ? value.as_array()[0] : value;
  }

  TreeNode& node_;
  const Function& function_;
  const JsonSource& source_;
};

}  // namespace

bool is_tensorflow_function(const std::string& class_name) {
  return class_name == "TFOpLambda" || class_name == "SlicingOpLambda";
}

void check_tensorflow_function(const LayerEntry& entry, const JsonSource& source) {
  function_of(entry.name.empty() ? entry.class_name : entry.name, entry.config, source);
}

void translate_tensorflow_function(TreeNode& node, const JsonSource& source) {
  Translator(node, function_of(node.name, node.config, source), source).run();
}

}  // namespace plimsoll::formats
