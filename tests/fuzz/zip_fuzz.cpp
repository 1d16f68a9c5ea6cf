// Any bytes as a zip archive: every member read, within bounds.

#include <cstdlib>

#include "base/error.h"
#include "codec/zip_reader.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const codec::ZipReader zip(fuzz::file_of(data, size), ErrorKind::kModel);
    for (const codec::ZipEntry& entry : zip.entries()) {
      try {
        zip.read(entry, 1 << 20);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInternal) std::abort();
      }
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
