// Any bytes as the weights of a known model: of Keras 3 (model.weights.h5) or of an older Keras.

#include <cstdlib>

#include "base/error.h"
#include "codec/hdf5/hdf5_reader.h"
#include "formats/keras/keras_h5.h"
#include "formats/keras/keras_weights.h"
#include "fuzz/fuzz_input.h"
#include "unit/formats/fixtures.h"

namespace {

struct Known {
  plimsoll::layers::Model model = plimsoll::formats::small_sequential();
  plimsoll::layers::CompileOptions compile;
};

const Known& known() {
  using plimsoll::layers::Config;
  static const Known instance = [] {
    Known known;
    known.compile.optimizer =
        Config(Config::Object{{"class_name", "Adam"}, {"config", Config(Config::Object{})}});
    known.compile.losses = {Config("mse")};
    return known;
  }();
  return instance;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const auto file = fuzz::file_of(data, size);
    codec::Hdf5Reader reader(file);
    const auto weights =
        formats::is_h5_weights(reader)
            ? formats::open_h5_weights(std::move(reader), known().model, known().compile)
            : formats::open_weights(file, known().model, known().compile);
    fuzz::read_some(*weights);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
