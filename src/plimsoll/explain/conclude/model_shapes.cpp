#include "explain/conclude/model_shapes.h"

#include <algorithm>
#include <string_view>

namespace plimsoll::explain {
namespace {

constexpr size_t kMostMatches = 8;

// True when `sample` is `shape` after its first axis, channels moved to the front or not.
bool is_output_of(const std::vector<int64_t>& sample, const std::vector<int64_t>& shape) {
  if (sample.empty() || shape.size() != sample.size() + 1) return false;
  if (std::equal(sample.begin(), sample.end(), shape.begin() + 1)) return true;
  std::vector<int64_t> channels_first = sample;
  std::rotate(channels_first.begin(), channels_first.end() - 1, channels_first.end());
  return std::equal(channels_first.begin(), channels_first.end(), shape.begin() + 1);
}

bool mentions(std::string_view op, std::string_view name) {
  for (size_t at = op.find(name); at != std::string_view::npos; at = op.find(name, at + 1)) {
    const bool begins = at == 0 || op[at - 1] == '/';
    const size_t end = at + name.size();
    if (begins && (end == op.size() || op[end] == '/' || op[end] == '_')) return true;
  }
  return false;
}

}  // namespace

std::vector<LayerMatch> match_layers(const ModelShapes& model, const std::vector<int64_t>& shape,
                                     std::string_view op) {
  std::vector<LayerMatch> named;
  std::vector<LayerMatch> others;
  for (const ModelLayer& layer : model.layers) {
    LayerMatch match;
    match.layer = layer.name;
    const bool weight =
        std::find(layer.weights.begin(), layer.weights.end(), shape) != layer.weights.end();
    if (!weight && !is_output_of(layer.output, shape)) continue;
    match.is_weight = weight;
    if (!weight) match.batch = shape.front();
    (!layer.name.empty() && mentions(op, layer.name) ? named : others).push_back(match);
  }
  // A layer that the operator names is the answer; the others only have the same shape.
  std::vector<LayerMatch>& result = named.empty() ? others : named;
  if (result.size() > kMostMatches) result.resize(kMostMatches);
  return result;
}

}  // namespace plimsoll::explain
