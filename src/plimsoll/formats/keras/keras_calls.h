#pragma once

// The calls of a Functional model in JSON: which layer is called on which tensors, and with what
// else. Internal to formats.

#include <map>
#include <string>
#include <vector>

#include "formats/keras/keras_json_impl.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

class CallReader {
 public:
  // `tensor_count` counts over all models of a file. Both references outlive the reader.
  CallReader(layers::ModelTree& tree, const JsonSource& source, int64_t& tensor_count)
      : tree_(tree), source_(source), tensor_count_(tensor_count) {}

  // Nodes in order, each with its "inbound_nodes"; nullptr: none.
  void add_node(size_t node, const layers::Config* inbound);
  // Fills in the calls of all nodes. `outputs` is "output_layers": it tells, too, from where calls
  // of a model are counted.
  void read(const layers::Config* outputs);
  // "input_layers" or "output_layers": [layer, call, output], a list or a dictionary of such, also
  // nested. Appends the tensors and returns their structure.
  layers::Config read_ports(const layers::Config* ports, const char* key,
                            std::vector<layers::TreeTensor>& tensors) const;

 private:
  // Where a tensor is named: calls of models are counted in two ways.
  enum class Place { kArgument, kPort };

  int64_t first_call(size_t node, Place place) const;
  void find_first_calls(const layers::Config& value);
  void read_call(const layers::Config& node, size_t index, layers::TreeCall& call);
  void read_arguments(const layers::Config& node, size_t index, layers::TreeCall& call);
  void read_old_call(const layers::Config& node, size_t index, layers::TreeCall& call);
  void read_old_tensor(const layers::Config& tensor, size_t index, layers::TreeCall& call,
                       layers::Config::Array& args);
  layers::Config take_tensors(const layers::Config& value, const std::string& where, int depth,
                              layers::TreeCall& call) const;
  layers::Config take_keywords(const layers::Config* keywords, const std::string& where,
                               layers::TreeCall& call) const;
  layers::Config take_old_keyword(const layers::Config& value, const std::string& where, int depth,
                                  layers::TreeCall& call) const;
  layers::Config add_tensor(layers::TreeTensor tensor, layers::TreeCall& call) const;
  layers::TreeTensor read_name(const layers::Config& name, const std::string& where,
                               Place place) const;
  layers::Config port_structure(const layers::Config& ports, const char* key, int depth,
                                std::vector<layers::TreeTensor>& tensors) const;
  std::string suggestion(const std::string& name) const;

  layers::ModelTree& tree_;
  const JsonSource& source_;
  int64_t& tensor_count_;
  std::map<std::string, size_t> positions_;                  // nodes by name
  std::vector<std::vector<const layers::Config*>> inbound_;  // per node; nullptr: an input's
  bool keras_3_ = false;                                     // by the form of the calls
  std::vector<int64_t> lowest_;  // before Keras 3: of each node, the lowest call that is named
};

}  // namespace plimsoll::formats
