#include "data/rows/class_rows.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "codec/number_format.h"
#include "data/rows/named_arrays.h"

namespace plimsoll::data {
namespace {

class ClassRows final : public RowSource {
 public:
  ClassRows(std::shared_ptr<const SampleFolder> folder, bool one_hot)
      : folder_(std::move(folder)), origin_(folder_->path()) {
    if (one_hot) row_shape_ = {static_cast<int64_t>(folder_->classes().size())};
  }
  int64_t row_count() const override { return folder_->count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kInt32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(0); }  // the folder counts with the images
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kInt32), dtype);
  }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    const auto put = [&](int32_t value) {
      codec::convert_numbers(codec::native_format(DType::kInt32),
                             reinterpret_cast<const std::byte*>(&value), dtype, out, 1);
      out += element_bytes(dtype).count();
    };
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = folder_->class_of(first + i);
      if (row_shape_.empty()) {
        put(static_cast<int32_t>(number));
        continue;
      }
      for (int64_t k = 0; k < row_shape_.front(); ++k) put(k == number ? 1 : 0);
    }
  }

 private:
  std::shared_ptr<const SampleFolder> folder_;
  std::string origin_;
  std::vector<int64_t> row_shape_;
};

}  // namespace

std::unique_ptr<RowSource> class_rows(std::shared_ptr<const SampleFolder> folder,
                                      const DatasetOptions& options) {
  const auto classes = std::ssize(folder->classes());
  const bool one_hot = classes > 1 && options.target_elements == classes;
  return std::make_unique<ClassRows>(std::move(folder), one_hot);
}

void check_classes(const DatasetOptions& options, const std::string& what,
                   const std::vector<std::string>& classes) {
  if (!options.labels_wanted || has_own_labels(options) || options.outputs.empty()) return;
  if (!options.outputs.front().two_classes || classes.size() <= 2) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected 2 {}, since output {} is one number whose loss tells two "
                          "classes apart, received {} ({}). Give the model {} outputs with softmax "
                          "and the loss sparse_categorical_crossentropy, or leave out all but two.",
                          options.data, what, options.outputs.front().name, classes.size(),
                          list_names(classes), classes.size()));
}

}  // namespace plimsoll::data
