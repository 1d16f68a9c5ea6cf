#include "base/error.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_tree.h"

namespace plimsoll::formats {

layers::Model read_architecture(const layers::Config& json, const std::string& origin,
                                const InputShapes& shapes, const Assets* assets) {
  const JsonSource source(origin, assets);
  layers::Model model = expand_tree(read_tree(json, source), shapes, source);
  with_context("while reading " + origin, [&] { model.check_complete(); });
  return model;
}

}  // namespace plimsoll::formats
