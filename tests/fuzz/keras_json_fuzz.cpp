// Any text as the structure of a model; what is read is written and read again.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "formats/json_text.h"
#include "formats/keras/keras_json.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const formats::InputShapes shapes = {{4, 4, 4}};
  layers::Config written;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    written = formats::write_architecture(
        formats::read_architecture(formats::parse_json(text, "fuzz"), "fuzz", shapes));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
    return 0;
  }
  try {
    formats::read_architecture(written, "again", shapes);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
