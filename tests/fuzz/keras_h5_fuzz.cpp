// Any bytes as a whole model in HDF5.

#include <cstdlib>

#include "base/error.h"
#include "formats/keras/keras_h5.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const formats::LoadedModel loaded =
        formats::load_keras_h5(fuzz::file_of(data, size), formats::LoadOptions{});
    if (loaded.weights != nullptr) fuzz::read_some(*loaded.weights);
    if (loaded.self_test != nullptr) fuzz::read_some(*loaded.self_test);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
