#include "data/rows/row_source.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "codec/idx.h"
#include "codec/inflate.h"
#include "codec/npy.h"
#include "codec/zip_reader.h"
#include "data/rows/array_rows.h"
#include "data/rows/row_conversion.h"

namespace plimsoll::data {
namespace {

using codec::FileReader;

// Elements in the user's own memory.
class MemoryRows final : public RowSource {
 public:
  MemoryRows(const void* rows, DType dtype, int64_t row_count, std::vector<int64_t> row_shape,
             std::string origin)
      : rows_(static_cast<const std::byte*>(rows)),
        format_(codec::native_format(dtype)),
        dtype_(dtype),
        row_count_(row_count),
        row_shape_(std::move(row_shape)),
        row_elements_(fixed_shape(row_shape_).element_count(1)),
        origin_(std::move(origin)) {
    if (row_count_ < 1 || row_elements_ < 1) {
      throw Error(ErrorKind::kData,
                  fmt::format("{}: expected rows of numbers, received {} rows of shape {}.",
                              origin_, row_count_, to_string(fixed_shape(row_shape_))));
    }
  }

  int64_t row_count() const override { return row_count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return dtype_; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(0); }
  bool can_read_as(DType dtype) const override { return codec::can_convert(format_, dtype); }
  bool reads_together() const override { return true; }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    PLIMSOLL_CHECK(first >= 0 && count >= 0 && first <= row_count_ && count <= row_count_ - first,
                   "rows outside of " + origin_);
    const int64_t begin = first * row_elements_;
    const RowConversion conversion{format_, dtype, row_elements_, origin_};
    conversion.run(begin, count * row_elements_, rows_ + begin * format_.bytes, destination);
  }

 private:
  const std::byte* rows_;
  codec::NumberFormat format_;
  DType dtype_;
  int64_t row_count_;
  std::vector<int64_t> row_shape_;
  int64_t row_elements_;
  std::string origin_;
};

std::unique_ptr<RowSource> open_array(ArrayPlace array, const std::string& spill_directory) {
  if (array.fortran_order && array.shape.size() > 1) {
    array = to_c_order(array, choose_spill_folder(spill_directory));
  }
  array.fortran_order = false;
  return make_array_rows(array);
}

std::unique_ptr<RowSource> open_npy(std::shared_ptr<const FileReader> file,
                                    const std::string& spill_directory) {
  codec::NpyHeader header = codec::read_npy_header(*file);
  return open_array({std::move(file), header.format, std::move(header.shape), header.data_offset,
                     header.fortran_order},
                    spill_directory);
}

}  // namespace

std::shared_ptr<const FileReader> without_gzip(std::shared_ptr<const FileReader> file,
                                               const std::string& spill_directory) {
  if (!codec::looks_like_gzip(*file)) return file;
  const std::string folder = choose_spill_folder(spill_directory);
  const codec::InflateBounds bounds{free_space(folder).count() / 2, ErrorKind::kData};
  return codec::inflate_to_file(*file, codec::DeflateForm::kGzip, bounds, folder);
}

std::unique_ptr<RowSource> open_rows(const std::string& path, const std::string& spill_directory) {
  const std::shared_ptr<const FileReader> file =
      without_gzip(codec::open_reader(path), spill_directory);
  if (codec::looks_like_npy(*file)) return open_npy(file, spill_directory);
  if (codec::looks_like_zip(*file)) {
    throw Error(ErrorKind::kData, path +
                                      ": expected one array, received an archive of several. "
                                      "Name it as --data, or save the array with np.save.");
  }
  // The magic of IDX is short, so only a file of the right size is taken for one; one that begins
  // with two zeros and is not is reported as a damaged IDX file.
  std::byte start[2] = {std::byte{1}, std::byte{1}};
  if (file->size() >= 2) file->read_at(0, start);
  if (start[0] == std::byte{0} && start[1] == std::byte{0}) {
    codec::IdxHeader header = codec::read_idx_header(*file);
    return open_array({file, header.format, std::move(header.shape), header.data_offset, false},
                      spill_directory);
  }
  throw Error(ErrorKind::kData,
              path +
                  ": expected an .npy, .npz or IDX file (also compressed by gzip), received "
                  "something else. Save the array with np.save.");
}

std::unique_ptr<RowSource> open_npz_member(const std::string& path, const std::string& member,
                                           const std::string& spill_directory) {
  return open_npz_member(codec::ZipReader(codec::open_reader(path), ErrorKind::kData), member,
                         spill_directory);
}

std::unique_ptr<RowSource> open_npz_member(const codec::ZipReader& archive,
                                           const std::string& member,
                                           const std::string& spill_directory) {
  const codec::ZipEntry* entry = archive.find(member + ".npy");
  if (entry == nullptr) entry = archive.find(member);
  if (entry == nullptr) {
    std::vector<std::string> names;
    std::string known;
    for (const codec::ZipEntry& other : archive.entries()) {
      std::string name = other.name;
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
      known += (names.empty() ? "" : ", ") + name;
      names.push_back(std::move(name));
    }
    throw Error(ErrorKind::kData, archive.name() + ": expected an array named \"" + member +
                                      "\", received an archive of " + known + "." +
                                      did_you_mean(member, names));
  }
  const std::string folder =
      entry->deflated ? choose_spill_folder(spill_directory) : spill_directory;
  return open_npy(archive.open(*entry, folder), spill_directory);
}

std::unique_ptr<RowSource> rows_in_memory(const void* rows, DType dtype, int64_t row_count,
                                          std::vector<int64_t> row_shape, std::string origin) {
  return std::make_unique<MemoryRows>(rows, dtype, row_count, std::move(row_shape),
                                      std::move(origin));
}

}  // namespace plimsoll::data
