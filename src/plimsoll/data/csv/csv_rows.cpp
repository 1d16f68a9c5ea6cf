#include "data/csv/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "codec/csv.h"
#include "codec/number_format.h"
#include "data/rows/array_rows.h"

namespace plimsoll::data {
namespace {

constexpr size_t kWriteBytes = 128 << 10;
constexpr int64_t kStagingBytes = 128 << 10;

// Parses every record and appends its cells to an unlinked file.
class Converter {
 public:
  Converter(const std::shared_ptr<const codec::FileReader>& file, const CsvSchema& schema,
            bool like)
      : file_(file), schema_(schema), like_(like) {}

  // The cells as an array (rows, columns) of float64.
  ArrayPlace run(const std::string& folder);
  bool has_label() const { return has_label_; }
  std::vector<std::string> notes() const;
  Bytes peak() const { return peak_; }

 private:
  bool is_label(size_t index) const { return static_cast<int>(index) == schema_.label; }
  bool is_header(std::span<const std::string_view> fields) const;
  void start(codec::CsvReader& reader);
  void take_record(const codec::CsvReader& reader);
  bool is_absent(size_t index, std::string_view field) const;
  double cell(const codec::CsvReader& reader, size_t index, std::string_view field) const;
  double missing(const codec::CsvReader& reader, size_t index, const std::string& what,
                 const std::string& next_step) const;
  void flush(File& out);

  std::shared_ptr<const codec::FileReader> file_;
  const CsvSchema& schema_;
  bool like_;
  bool has_label_ = true;
  int64_t rows_ = 0;
  int64_t unlabelled_ = 0;  // rows that are left out
  int64_t first_unlabelled_ = 0;
  int64_t written_ = 0;
  Bytes peak_;
  std::vector<double> cells_;
};

// Whether a field of the column stands for nothing.
bool Converter::is_absent(size_t index, std::string_view field) const {
  return is_missing(field) || (!schema_.columns[index].text && missing_among_numbers(field) >= 0);
}

double Converter::missing(const codec::CsvReader& reader, size_t index, const std::string& what,
                          const std::string& next_step) const {
  const CsvColumn& column = schema_.columns[index];
  const bool label_alone = is_label(index) && !column.used;
  const bool class_name = is_label(index) && column.text;
  if (label_alone && !schema_.wants_labels) return 0;
  const bool filled =
      !schema_.fill.empty() && !class_name && !(label_alone && schema_.leaves_out_unlabelled);
  if (filled) {
    if (column.text) return static_cast<double>(column.categories.size());
    double number = column.mean;
    codec::parse_number(schema_.fill, number);
    return number;
  }
  throw Error(ErrorKind::kData, fmt::format("{}: line {}, column \"{}\": {}{}", file_->name(),
                                            reader.line(), column.name, what, next_step));
}

double Converter::cell(const codec::CsvReader& reader, size_t index, std::string_view field) const {
  const CsvColumn& column = schema_.columns[index];
  if (is_absent(index, field)) {
    return missing(reader, index,
                   "expected a value, received " +
                       (field.empty() ? std::string("none") : "\"" + std::string(field) + "\"") +
                       ".",
                   " Fill missing values with --fill mean or --fill 0.");
  }
  if (!column.text) {
    double value = 0;
    if (parse_number(field, column.style, value)) return value;
    return missing(
        reader, index,
        "expected a number as in " + schema_.origin + ", received \"" + std::string(field) + "\".",
        "");
  }
  const auto found = std::lower_bound(column.categories.begin(), column.categories.end(), field);
  if (found != column.categories.end() && *found == field) {
    return static_cast<double>(found - column.categories.begin());
  }
  return missing(reader, index,
                 fmt::format("expected one of the {} categories of {}, received \"{}\".",
                             column.categories.size(), schema_.origin, field),
                 did_you_mean(field, column.categories));
}

void Converter::take_record(const codec::CsvReader& reader) {
  const std::span<const std::string_view> fields = reader.fields();
  const size_t columns = schema_.columns.size();
  const size_t expected = has_label_ ? columns : columns - 1;
  if (fields.size() != expected) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: line {}: expected {} fields as in {}, received {}.", file_->name(),
                            reader.line(), expected,
                            like_ ? schema_.origin : std::string("the first line"), fields.size()));
  }
  const auto label = static_cast<size_t>(std::max(schema_.label, 0));
  if (has_label_ && schema_.leaves_out_unlabelled && is_absent(label, fields[label])) {
    if (unlabelled_++ == 0) first_unlabelled_ = reader.line();
    return;
  }
  for (size_t i = 0, at = 0; i < columns; ++i) {
    if (is_label(i) && !has_label_) {
      cells_.push_back(0);
      continue;
    }
    const bool wanted = schema_.columns[i].used || is_label(i);
    cells_.push_back(wanted ? cell(reader, i, fields[at]) : 0);
    ++at;
  }
  ++rows_;
}

// Whether a record is the columns' names: its first field that says anything is. (An index's
// column has none.)
bool Converter::is_header(std::span<const std::string_view> fields) const {
  for (size_t i = 0, at = 0; i < schema_.columns.size() && at < std::min<size_t>(fields.size(), 2);
       ++i) {
    if (is_label(i) && !has_label_) continue;
    if (!fields[at].empty()) return fields[at] == schema_.columns[i].name;
    ++at;
  }
  return false;
}

void Converter::start(codec::CsvReader& reader) {
  if (!reader.next()) {
    throw Error(ErrorKind::kData, file_->name() + ": expected records, received an empty file.");
  }
  has_label_ = schema_.label < 0 || schema_.columns[static_cast<size_t>(schema_.label)].used ||
               !(like_ && reader.fields().size() + 1 == schema_.columns.size());
  // With or without a header, a file that is read like another.
  const bool header = like_ ? is_header(reader.fields()) : schema_.header;
  if (!header) take_record(reader);
}

std::vector<std::string> Converter::notes() const {
  if (unlabelled_ == 0) return {};
  return {fmt::format("{}: left out {}{} without a label, the first in line {}.", file_->name(),
                      unlabelled_, unlabelled_ == 1 ? " row" : " rows", first_unlabelled_)};
}

void Converter::flush(File& out) {
  out.write_at(written_, std::as_bytes(std::span(cells_)));
  written_ += static_cast<int64_t>(cells_.size() * sizeof(double));
  cells_.clear();
}

ArrayPlace Converter::run(const std::string& folder) {
  auto out = std::make_shared<File>(File::unlinked(folder));
  cells_.reserve(kWriteBytes / sizeof(double) + schema_.columns.size());
  codec::CsvDialect dialect = codec::find_dialect(*file_);
  dialect.delimiter = schema_.dialect.delimiter;
  codec::CsvReader reader(file_, dialect);
  start(reader);
  while (reader.next()) {
    take_record(reader);
    if (cells_.size() * sizeof(double) >= kWriteBytes) flush(*out);
  }
  flush(*out);
  peak_ = Bytes(reader.held_bytes() + static_cast<int64_t>(cells_.capacity() * sizeof(double)));
  ArrayPlace place;
  place.file =
      std::make_shared<const codec::FileReader>(std::move(out), 0, written_, file_->name());
  place.format = codec::native_format(DType::kFloat64);
  place.shape = {rows_, static_cast<int64_t>(schema_.columns.size())};
  return place;
}

// How one column of the table appears among the numbers of a sample.
struct Field {
  size_t column = 0;
  size_t width = 1;      // above 1: one number a category
  bool one_hot = false;  // of width numbers
  double shift = 0;
  double scale = 1;
};

class TableRows final : public RowSource {
 public:
  TableRows(std::shared_ptr<RowSource> table, std::shared_ptr<const CsvSchema> schema,
            std::vector<Field> fields, std::vector<int64_t> row_shape, DType stored, bool first)
      : table_(std::move(table)),
        schema_(std::move(schema)),
        fields_(std::move(fields)),
        row_shape_(std::move(row_shape)),
        stored_(stored),
        first_(first),
        columns_(table_->row_shape().front()) {
    for (const Field& field : fields_) width_ += static_cast<int64_t>(field.width);
    staged_rows_ = std::max<int64_t>(kStagingBytes / (columns_ * 8 + width_ * 8), 1);
    staged_rows_ = std::min(staged_rows_, table_->row_count());
    cells_.resize(static_cast<size_t>(staged_rows_ * columns_));
    values_.resize(static_cast<size_t>(staged_rows_ * width_));
  }

  int64_t row_count() const override { return table_->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return stored_; }
  const std::string& origin() const override { return table_->origin(); }
  Bytes resident_bytes() const override {
    const Bytes own(static_cast<int64_t>((cells_.size() + values_.size()) * sizeof(double)));
    return first_ ? own + table_->resident_bytes() + schema_->resident_bytes() : own;
  }
  Bytes opened_bytes() const override { return first_ ? schema_->resident_bytes() : Bytes(); }
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kFloat64), dtype);
  }
  void expect_order(bool random) override { table_->expect_order(random); }
  void read_ahead(int64_t first, int64_t count) override {
    if (first_) table_->read_ahead(first, count);
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    const int64_t row_bytes = width_ * element_bytes(dtype).count();
    for (int64_t done = 0; done < count; done += staged_rows_) {
      const int64_t now = std::min(staged_rows_, count - done);
      table_->read(first + done, now, DType::kFloat64, cells_.data());
      for (int64_t row = 0; row < now; ++row) expand(row);
      const codec::NumberFormat format = codec::native_format(DType::kFloat64);
      const int64_t bad =
          codec::convert_numbers(format, reinterpret_cast<const std::byte*>(values_.data()), dtype,
                                 out + done * row_bytes, now * width_);
      if (bad >= 0) refuse(first + done + bad / width_, bad, dtype);
    }
  }

 private:
  void expand(int64_t row) {
    const double* cells = cells_.data() + row * columns_;
    double* value = values_.data() + row * width_;
    for (const Field& field : fields_) {
      const double cell = cells[field.column];
      if (!field.one_hot) {
        *value++ = (cell - field.shift) * field.scale;
        continue;
      }
      std::fill_n(value, field.width, 0.0);
      // One beyond the last category: none of them.
      if (cell < static_cast<double>(field.width)) value[static_cast<size_t>(cell)] = 1;
      value += field.width;
    }
  }
  [[noreturn]] void refuse(int64_t row, int64_t bad, DType dtype) const {
    throw Error(ErrorKind::kData,
                fmt::format("{}: row {}: expected a whole number that {} can hold, received {}.",
                            origin(), row, to_string(dtype),
                            codec::number_text(codec::native_format(DType::kFloat64),
                                               reinterpret_cast<const std::byte*>(
                                                   &values_[static_cast<size_t>(bad)]))));
  }

  std::shared_ptr<RowSource> table_;
  std::shared_ptr<const CsvSchema> schema_;
  std::vector<Field> fields_;
  std::vector<int64_t> row_shape_;
  DType stored_;
  bool first_;  // of those that share the table: counts it
  int64_t columns_;
  int64_t width_ = 0;
  int64_t staged_rows_ = 0;
  std::vector<double> cells_;
  std::vector<double> values_;
};

std::vector<Field> feature_fields(const CsvSchema& schema, const DatasetOptions& options) {
  std::vector<Field> fields;
  for (size_t i = 0; i < schema.columns.size(); ++i) {
    const CsvColumn& column = schema.columns[i];
    if (!column.used) continue;
    Field field;
    field.column = i;
    if (column.text && options.categories == "onehot") {
      field.one_hot = true;
      field.width = column.categories.size();
    } else if (!column.text && options.standardize) {
      field.shift = column.mean;
      field.scale = 1 / column.deviation;
    }
    fields.push_back(field);
  }
  return fields;
}

}  // namespace

CsvSources open_csv(const std::shared_ptr<const codec::FileReader>& file,
                    std::shared_ptr<const CsvSchema> schema, bool like,
                    const DatasetOptions& options) {
  Converter converter(file, *schema, like);
  const ArrayPlace place = converter.run(choose_spill_folder(options.spill_directory));
  if (place.shape.front() == 0) {
    throw Error(ErrorKind::kData, file->name() + ": expected rows with labels, received none.");
  }
  const std::shared_ptr<RowSource> table = make_array_rows(place);
  std::vector<Field> fields = feature_fields(*schema, options);
  if (fields.empty()) {
    throw Error(ErrorKind::kData, file->name() +
                                      ": expected columns of features, received the label's "
                                      "alone. Name others with --columns.");
  }
  int64_t width = 0;
  for (const Field& field : fields) width += static_cast<int64_t>(field.width);
  CsvSources sources;
  sources.notes = converter.notes();
  sources.opening_peak = converter.peak();
  sources.features = std::make_unique<TableRows>(
      table, schema, std::move(fields), std::vector<int64_t>{width}, DType::kFloat32, true);
  if (schema->label < 0 || !converter.has_label()) return sources;
  const CsvColumn& label = schema->columns[static_cast<size_t>(schema->label)];
  Field field;
  field.column = static_cast<size_t>(schema->label);
  const auto classes = static_cast<int64_t>(label.categories.size());
  field.one_hot = label.text && classes > 1 && options.target_elements == classes;
  if (field.one_hot) field.width = label.categories.size();
  sources.labels = std::make_unique<TableRows>(
      table, schema, std::vector<Field>{field},
      field.one_hot ? std::vector<int64_t>{classes} : std::vector<int64_t>{},
      label.text ? DType::kInt32 : DType::kFloat32, false);
  return sources;
}

}  // namespace plimsoll::data
