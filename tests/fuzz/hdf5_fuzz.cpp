// Any bytes as an HDF5 file: listed, attributes and elements read; refused or read, never a crash.

#include <cstdlib>

#include "base/error.h"
#include "codec/hdf5/hdf5_reader.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const auto bytes = fuzz::bytes_of(data, size);
  try {
    const codec::Hdf5Reader reader(std::make_shared<codec::MemoryReader>(
        std::vector<std::byte>(bytes.begin(), bytes.end()), "fuzz"));
    reader.attributes("");
    reader.texts_attribute("", "layer_names");
    for (const std::string& path : reader.list_datasets("")) {
      reader.attributes(path);
      const auto dataset = reader.open(path);
      const codec::Hdf5Type& type = dataset->info().type;
      const int64_t count = std::min<int64_t>(dataset->info().element_count, 1000);
      if (!type.members.empty()) {
        constexpr int64_t kMostBytes = 1 << 20;
        const int64_t few = std::min(count, kMostBytes / std::max<int64_t>(type.bytes, 1));
        std::vector<std::byte> records(static_cast<size_t>(few * type.bytes));
        dataset->read_raw(0, few, records);
      } else if (type.type_class == codec::Hdf5Type::Class::kNumber) {
        std::vector<float> values(static_cast<size_t>(count));
        dataset->read_as(DType::kFloat32, 0, count, values.data());
      } else {
        constexpr int64_t kMostBytes = 1 << 24;
        if (type.is_string() && dataset->info().element_count <= kMostBytes / type.bytes) {
          dataset->visit_strings([](std::string_view) {});
        }
        dataset->read_strings(1 << 16);
      }
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
