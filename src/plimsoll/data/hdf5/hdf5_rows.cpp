#include "data/hdf5/hdf5_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "data/rows/row_conversion.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kStagingBytes = 128 << 10;
// The decoder's own, where there are chunks to be decoded, and what else belongs to an array.
constexpr Bytes kReaderBytes = 64_KiB;
constexpr Bytes kArrayBytes = 4_KiB;

class Hdf5Rows final : public RowSource {
 public:
  Hdf5Rows(std::unique_ptr<codec::Hdf5Dataset> dataset, std::string origin)
      : dataset_(std::move(dataset)),
        origin_(std::move(origin)),
        row_count_(dataset_->info().shape.front()),
        row_shape_(dataset_->info().shape.begin() + 1, dataset_->info().shape.end()),
        row_elements_(fixed_shape(row_shape_).element_count(1)),
        // A file may hold hundreds of small arrays.
        staging_(static_cast<size_t>(
            std::min(kStagingBytes, row_count_ * row_elements_ * format().bytes))) {}

  int64_t row_count() const override { return row_count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return nearest_dtype(format()); }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override {
    return Bytes(std::ssize(staging_)) + kArrayBytes + Bytes(dataset_->resident_bytes()) +
           (dataset_->decodes() ? kReaderBytes : Bytes());
  }
  Bytes opened_bytes() const override { return Bytes(dataset_->table_bytes()); }
  bool can_read_as(DType dtype) const override { return codec::can_convert(format(), dtype); }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    const int64_t begin = first * row_elements_;
    const int64_t elements = count * row_elements_;
    const int64_t piece = kStagingBytes / format().bytes;
    const RowConversion conversion{format(), dtype, row_elements_, origin_};
    auto* out = static_cast<std::byte*>(destination);
    for (int64_t done = 0; done < elements; done += piece) {
      const int64_t now = std::min(piece, elements - done);
      const auto part = std::span(staging_).first(static_cast<size_t>(now * format().bytes));
      as_data([&] { dataset_->read_raw(begin + done, now, part); });
      conversion.run(begin + done, now, part.data(), out + done * element_bytes(dtype).count());
    }
  }

 private:
  const codec::NumberFormat& format() const { return dataset_->info().type.number; }

  std::unique_ptr<codec::Hdf5Dataset> dataset_;
  std::string origin_;
  int64_t row_count_;
  std::vector<int64_t> row_shape_;
  int64_t row_elements_;
  std::vector<std::byte> staging_;
};

}  // namespace

std::unique_ptr<RowSource> open_hdf5_rows(const codec::Hdf5Reader& file, const std::string& path,
                                          const std::string& spill_directory) {
  std::unique_ptr<codec::Hdf5Dataset> dataset =
      as_data([&] { return file.open(path, spill_directory); });
  const codec::Hdf5DatasetInfo& info = dataset->info();
  const std::string origin = file.name() + "/" + path;
  if (info.type.type_class != codec::Hdf5Type::Class::kNumber || info.shape.empty() ||
      info.element_count == 0) {
    throw Error(ErrorKind::kData,
                origin + ": expected rows of numbers, received " +
                    (info.type.type_class == codec::Hdf5Type::Class::kNumber
                         ? fmt::format("an array of shape {}", to_string(fixed_shape(info.shape)))
                         : std::string("text or records")) +
                    ".");
  }
  return std::make_unique<Hdf5Rows>(std::move(dataset), origin);
}

}  // namespace plimsoll::data
