#include "formats/self_test_file.h"

#include <string>
#include <utility>

#include "base/format.h"
#include "formats/stored_tensor.h"

namespace plimsoll::formats {
namespace {

std::string path_of(std::string_view group, const std::string& name) {
  return group.empty() ? name : std::string(group) + "/" + name;
}

DType dtype_of(const codec::Hdf5DatasetInfo& info) {
  if (info.type.number.kind == codec::NumberFormat::Kind::kFloat) return DType::kFloat32;
  return info.type.number.bytes > 4 ? DType::kInt64 : DType::kInt32;
}

}  // namespace

std::unique_ptr<TensorSource> open_self_test(codec::Hdf5Reader file, std::string_view group) {
  std::vector<StoredTensor> tensors;
  for (const std::string part : {"inputs", "outputs"}) {
    for (int i = 0;; ++i) {
      const std::string name = fmt::format("{}/{}", part, i);
      const std::string path = path_of(group, name);
      if (!file.is_dataset(path)) break;
      const codec::Hdf5DatasetInfo info = file.open(path)->info();
      tensors.push_back({{name, dtype_of(info), info.shape}, {{path}}});
      check_stored(file, tensors.back());
    }
  }
  return make_stored_source(std::move(file), std::move(tensors));
}

void add_self_test(codec::Hdf5Tree& tree, const TensorSource& test, std::string_view group) {
  for (const TensorInfo& info : test.tensors()) {
    tree.add_dataset(path_of(group, info.name), info.dtype, info.shape);
  }
}

std::vector<size_t> all_tensors(const TensorSource& test) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < test.tensors().size(); ++i) positions.push_back(i);
  return positions;
}

}  // namespace plimsoll::formats
