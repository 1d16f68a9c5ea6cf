#pragma once

// The `[[node …]]` part of TensorFlow's messages, in the forms of all its versions.

#include <optional>
#include <string>

#include "explain/read/document.h"

namespace plimsoll::explain {

struct TfNode {
  std::string name;
  std::string op_type;
  std::string device;
  std::string dtype;  // "float" for DT_FLOAT
  size_t at = 0;
  size_t end = 0;
};

// The node whose `[[` stands at `at`, or nothing. Nodes that only report that another one failed
// (_Recv, _Send, names that end in /_123) are no answer and yield nothing.
std::optional<TfNode> read_tf_node(const Document& document, size_t at);

// The operator of a failure printed at `from`: the first node within the next few lines.
std::optional<TfNode> next_tf_node(const Document& document, size_t from);

// "Detected at node 'x' defined at", "Node: 'x'", "Caused by op u'x', defined at:" somewhere around
// `near`, before it or after; "" if there is none.
std::string named_tf_node(const Document& document, size_t near);

// "conv_ops.cc:673" of "OP_REQUIRES failed at conv_ops.cc:673 : " in the record before `at`, or "".
std::string kernel_file_before(const Document& document, size_t at);

// The operator of "[Op:AddV2]" in the record at `from`, or "" (function names are no operators).
std::string eager_tf_op(const Document& document, size_t from);

}  // namespace plimsoll::explain
