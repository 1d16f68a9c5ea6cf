#include "data/hdf5/hdf5_table.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "data/hdf5/hdf5_rows.h"
#include "data/rows/row_conversion.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kStagingBytes = 128 << 10;
// The decoder's own.
constexpr Bytes kReaderBytes = 64_KiB;
constexpr std::string_view kIndex = "index";
constexpr std::string_view kBlock = "values_block_";

class TableRecords final : public RowSource {
 public:
  TableRecords(std::unique_ptr<codec::Hdf5Dataset> dataset, std::vector<TableColumn> columns,
               std::string origin)
      : dataset_(std::move(dataset)),
        columns_(std::move(columns)),
        origin_(std::move(origin)),
        row_count_(dataset_->info().shape.front()),
        row_shape_{std::ssize(columns_)},
        staged_(std::max<int64_t>(kStagingBytes / record_bytes(), 1)),
        staging_(static_cast<size_t>(staged_ * record_bytes())) {}

  int64_t row_count() const override { return row_count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kFloat64; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override {
    return Bytes(std::ssize(staging_)) + kReaderBytes + Bytes(dataset_->resident_bytes()) +
           table_bytes();
  }
  Bytes opened_bytes() const override { return Bytes(dataset_->table_bytes()) + table_bytes(); }
  bool can_read_as(DType dtype) const override { return dtype == DType::kFloat64; }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    PLIMSOLL_CHECK(dtype == DType::kFloat64, "records that are read as another type");
    auto* out = static_cast<double*>(destination);
    for (int64_t done = 0; done < count; done += staged_) {
      const int64_t now = std::min(staged_, count - done);
      const auto part = std::span(staging_).first(static_cast<size_t>(now * record_bytes()));
      as_data([&] { dataset_->read_raw(first + done, now, part); });
      for (int64_t row = 0; row < now; ++row) {
        const std::byte* const record = part.data() + row * record_bytes();
        for (const TableColumn& column : columns_) {
          codec::convert_numbers(column.format, record + column.offset, DType::kFloat64, out, 1);
          ++out;
        }
      }
    }
  }

 private:
  int64_t record_bytes() const { return dataset_->info().type.bytes; }
  Bytes table_bytes() const {
    return Bytes(static_cast<int64_t>(columns_.capacity() * sizeof(TableColumn)));
  }

  std::unique_ptr<codec::Hdf5Dataset> dataset_;
  std::vector<TableColumn> columns_;
  std::string origin_;
  int64_t row_count_;
  std::vector<int64_t> row_shape_;
  int64_t staged_;
  std::vector<std::byte> staging_;
};

// Whether what pandas says of a field in plain text is that it holds numbers, or says nothing.
class FieldKinds {
 public:
  FieldKinds(const codec::Hdf5Reader& file, const std::string& path) {
    for (codec::Hdf5Attribute& attribute : file.attributes(path)) {
      const bool wanted = attribute.name.ends_with(kType) || attribute.name.ends_with(kMeta);
      if (!wanted || attribute.strings.size() != 1) continue;
      texts_[attribute.name] = std::move(attribute.strings.front());
    }
  }
  bool are_numbers(const std::string& field) const {
    const auto meta = texts_.find(field + std::string(kMeta));
    if (meta != texts_.end() && meta->second == "category") return false;
    const auto type = texts_.find(field + std::string(kType));
    if (type == texts_.end()) return true;
    for (const std::string_view kind : {"float", "int", "uint", "bool"}) {
      if (type->second.starts_with(kind)) return true;
    }
    return false;
  }

 private:
  static constexpr std::string_view kType = "_dtype";
  static constexpr std::string_view kMeta = "_meta";
  std::map<std::string, std::string> texts_;
};

}  // namespace

void check_width(const codec::Hdf5Reader& file, size_t columns) {
  constexpr size_t kMostColumns = 1 << 16;
  if (columns <= kMostColumns) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected at most {} columns of a data frame, received more. Write "
                          "wide rows as one array, a dataset called x.",
                          file.name(), kMostColumns));
}

TableFields read_table_fields(const codec::Hdf5Reader& file, const std::string& path) {
  const codec::Hdf5DatasetInfo info = file.open(path)->info();
  const codec::Hdf5Type& type = info.type;
  if (type.members.empty() || info.shape.size() != 1 || info.element_count == 0) {
    throw Error(ErrorKind::kData,
                file.name() + "/" + path +
                    ": expected records of numbers as pandas' table format "
                    "has, received " +
                    (info.element_count == 0 ? "none" : "others") +
                    ". Write the frame with df.to_hdf(path, key=\"df\", format=\"fixed\"), or as a "
                    "CSV file.");
  }
  const FieldKinds kinds(file, path);
  TableFields fields;
  fields.rows = info.shape.front();
  for (const codec::Hdf5Member& member : type.members) {
    if (member.name == kIndex) continue;
    if (!member.is_number || !kinds.are_numbers(member.name)) {
      fields.left_out += static_cast<size_t>(member.count);
      continue;
    }
    check_width(file, fields.columns.size() + static_cast<size_t>(member.count));
    const bool block = member.name.starts_with(kBlock);
    fields.has_names = fields.has_names && !block;
    for (int64_t i = 0; i < member.count; ++i) {
      const bool alone = !block && member.count == 1;
      fields.columns.push_back({alone ? member.name : fmt::format("{}[{}]", member.name, i),
                                member.number, member.offset + i * member.number.bytes,
                                nearest_dtype(member.number)});
    }
  }
  return fields;
}

std::unique_ptr<RowSource> open_table_rows(const codec::Hdf5Reader& file, const std::string& path,
                                           const std::string& spill_directory) {
  TableFields fields = as_data([&] { return read_table_fields(file, path); });
  return std::make_unique<TableRecords>(as_data([&] { return file.open(path, spill_directory); }),
                                        std::move(fields.columns), file.name() + "/" + path);
}

}  // namespace plimsoll::data
