#include "data/csv/csv_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "codec/csv.h"
#include "codec/number_format.h"
#include "data/lookup/looked_up_rows.h"
#include "data/rows/array_rows.h"
#include "data/rows/class_rows.h"

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
  // The rows of an input of text; null: it is another.
  std::unique_ptr<RowSource> take_texts(size_t input);

 private:
  bool is_label(size_t index) const { return static_cast<int>(index) == schema_.label; }
  bool is_header(std::span<const std::string_view> fields) const;
  void start(codec::CsvReader& reader);
  void take_record(const codec::CsvReader& reader);
  bool is_absent(size_t index, std::string_view field) const;
  double cell(const codec::CsvReader& reader, size_t index, std::string_view field) const;
  double missing(const codec::CsvReader& reader, size_t index, const std::string& what,
                 const std::string& next_step) const;
  double looked_up(const codec::CsvReader& reader, size_t index, std::string_view field) const;
  int64_t integer_id(const codec::CsvReader& reader, size_t index, std::string_view field) const;
  void open_texts(const std::string& folder);
  void add_texts(const codec::CsvReader& reader);
  // Where a column stands in a record of the file.
  size_t place_of(size_t index) const {
    const bool after = !has_label_ && schema_.label >= 0 && static_cast<int>(index) > schema_.label;
    return index - (after ? 1 : 0);
  }
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
  std::vector<std::unique_ptr<TokenWriter>> texts_;  // by input; null: none of text
  std::vector<std::string_view> strings_;            // of one sample
};

bool is_text(const CsvSchema& schema, size_t input) {
  const std::vector<size_t>& columns = schema.inputs[input];
  const FieldIds* ids = columns.empty() ? nullptr : schema.columns[columns.front()].ids.get();
  return ids != nullptr && ids->lookup().kind == InputLookup::Kind::kText;
}

void Converter::open_texts(const std::string& folder) {
  texts_.resize(schema_.inputs.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!is_text(schema_, i)) continue;
    texts_[i] =
        std::make_unique<TokenWriter>(schema_.columns[schema_.inputs[i].front()].ids, folder);
  }
}

void Converter::add_texts(const codec::CsvReader& reader) {
  const std::span<const std::string_view> fields = reader.fields_as_written();
  const auto where = [&] { return fmt::format("{}: line {}", file_->name(), reader.line()); };
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i] == nullptr) continue;
    strings_.clear();
    for (const size_t index : schema_.inputs[i]) strings_.push_back(fields[place_of(index)]);
    texts_[i]->add(strings_, where);
  }
}

std::unique_ptr<RowSource> Converter::take_texts(size_t input) {
  if (texts_[input] == nullptr) return nullptr;
  return texts_[input]->finish(file_->name());
}

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

// A whole number's id.
int64_t Converter::integer_id(const codec::CsvReader& reader, size_t index,
                              std::string_view field) const {
  const FieldIds& ids = *schema_.columns[index].ids;
  if (is_missing(field) && !schema_.fill.empty()) field = schema_.fill;
  int64_t integer = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), integer);
  const bool whole = read.ec == std::errc() && read.ptr == field.data() + field.size();
  double number = static_cast<double>(integer);
  constexpr double kExact = 9007199254740992.0;  // 2^53: integers below it are exact
  const bool fractions = ids.lookup().takes_fractions;
  if (!whole || (fractions && !FieldIds::holds(static_cast<float>(number)))) {
    const bool given = codec::parse_number(field, number) && std::abs(number) < kExact &&
                       (fractions || std::trunc(number) == number);
    if (!given) {
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: line {}, column \"{}\": expected a whole number, which layer {} "
                      "looks up, received {}. Fill missing values with a whole number, such "
                      "as --fill 0.",
                      file_->name(), reader.line(), schema_.columns[index].name, ids.lookup().layer,
                      field.empty() ? "none" : "\"" + std::string(field) + "\""));
    }
    integer = static_cast<int64_t>(number);
  }
  return fractions ? ids.of_number(static_cast<float>(number)) : ids.of_integer(integer);
}

// The id of a field that the model looks up; of a text's, which has several, 0.
double Converter::looked_up(const codec::CsvReader& reader, size_t index,
                            std::string_view field) const {
  const CsvColumn& column = schema_.columns[index];
  const InputLookup& lookup = column.ids->lookup();
  if (lookup.kind == InputLookup::Kind::kText) return 0;
  const int64_t id =
      lookup.takes_text ? column.ids->of_text(field) : integer_id(reader, index, field);
  if (id != FieldIds::kUnknown) return static_cast<double>(id);
  throw Error(ErrorKind::kData,
              fmt::format("{}: line {}, column \"{}\": expected one of the {} words of layer {}, "
                          "which has no number for others (num_oov_indices=0), received \"{}\".",
                          file_->name(), reader.line(), column.name,
                          lookup.words.size() + lookup.integers.size(), lookup.layer, field));
}

double Converter::cell(const codec::CsvReader& reader, size_t index, std::string_view field) const {
  const CsvColumn& column = schema_.columns[index];
  if (column.ids != nullptr) return looked_up(reader, index, field);
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
    const FieldIds* ids = schema_.columns[i].ids.get();
    const bool words = ids != nullptr && ids->lookup().takes_text;
    cells_.push_back(wanted ? cell(reader, i, words ? reader.fields_as_written()[at] : fields[at])
                            : 0);
    ++at;
  }
  if (!texts_.empty()) add_texts(reader);
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
  open_texts(folder);
  start(reader);
  while (reader.next()) {
    take_record(reader);
    if (cells_.size() * sizeof(double) >= kWriteBytes) flush(*out);
  }
  flush(*out);
  peak_ = Bytes(reader.held_bytes() + static_cast<int64_t>(cells_.capacity() * sizeof(double)));
  for (const auto& text : texts_) peak_ += Bytes(text == nullptr ? 0 : text->peak_bytes());
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
  size_t at = 0;         // where its numbers begin in the sample; fields may share them
  size_t width = 1;      // above 1: one number a category
  bool one_hot = false;  // of width numbers
  bool counts = false;   // adds 1 where others mark with 1
  double shift = 0;
  double scale = 1;
};

class TableRows final : public RowSource {
 public:
  TableRows(std::shared_ptr<RowSource> table, std::shared_ptr<const CsvSchema> schema,
            std::vector<Field> fields, std::vector<int64_t> row_shape, DType stored, bool first,
            std::span<const float> weights = {})
      : table_(std::move(table)),
        schema_(std::move(schema)),
        fields_(std::move(fields)),
        row_shape_(std::move(row_shape)),
        stored_(stored),
        weights_(weights),
        first_(first),
        columns_(table_->row_shape().front()) {
    for (const Field& field : fields_) {
      width_ = std::max(width_, static_cast<int64_t>(field.at + field.width));
    }
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
    double* const values = values_.data() + row * width_;
    std::fill_n(values, width_, 0.0);
    for (const Field& field : fields_) {
      const double cell = cells[field.column];
      if (!field.one_hot) {
        values[field.at] = (cell - field.shift) * field.scale;
        continue;
      }
      // One beyond the last category, and a number below 0: none of them.
      if (cell < 0 || cell >= static_cast<double>(field.width)) continue;
      double& value = values[field.at + static_cast<size_t>(cell)];
      value = field.counts ? value + 1 : 1;
    }
    for (size_t i = 0; i < weights_.size(); ++i) values[i] *= static_cast<double>(weights_[i]);
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
  std::span<const float> weights_;  // of what words weigh; the schema has them
  bool first_;                      // of those that share the table: counts it
  int64_t columns_;
  int64_t width_ = 0;
  int64_t staged_rows_ = 0;
  std::vector<double> cells_;
  std::vector<double> values_;
};

// Fields of one input that looks its columns up.
std::vector<Field> looked_up_fields(const InputLookup& lookup, const std::vector<size_t>& columns) {
  using Encoding = InputLookup::Encoding;
  std::vector<Field> fields;
  const bool shared = lookup.encoding != Encoding::kIds && lookup.encoding != Encoding::kOneHot;
  for (const size_t column : columns) {
    Field field;
    field.column = column;
    field.one_hot = lookup.encoding != Encoding::kIds;
    field.counts = lookup.encoding == Encoding::kCount || lookup.encoding == Encoding::kTfIdf;
    if (field.one_hot) field.width = static_cast<size_t>(lookup.depth);
    if (!shared) field.at = fields.size() * field.width;
    fields.push_back(field);
  }
  return fields;
}

std::vector<Field> feature_fields(const CsvSchema& schema, const std::vector<size_t>& columns,
                                  const DatasetOptions& options) {
  std::vector<Field> fields;
  size_t at = 0;
  for (const size_t i : columns) {
    const CsvColumn& column = schema.columns[i];
    if (!column.used) continue;
    Field field;
    field.column = i;
    field.at = at;
    if (column.text && options.categories == "onehot") {
      field.one_hot = true;
      field.width = column.categories.size();
    } else if (!column.text && options.standardize) {
      field.shift = column.mean;
      field.scale = 1 / column.deviation;
    }
    at += field.width;
    fields.push_back(field);
  }
  return fields;
}

// The features of one input. `first`: it counts the table that all share.
std::unique_ptr<RowSource> rows_of_input(const std::shared_ptr<RowSource>& table,
                                         const std::shared_ptr<const CsvSchema>& schema,
                                         const std::vector<size_t>& columns,
                                         const DatasetOptions& options, bool first) {
  const FieldIds* ids = columns.empty() ? nullptr : schema->columns[columns.front()].ids.get();
  if (ids != nullptr) {
    const InputLookup& lookup = ids->lookup();
    return std::make_unique<TableRows>(
        table, schema, looked_up_fields(lookup, columns), lookup.output_shape,
        lookup.encoding == InputLookup::Encoding::kIds ? DType::kInt64 : DType::kFloat32, first,
        lookup.weights);
  }
  std::vector<Field> fields = feature_fields(*schema, columns, options);
  if (fields.empty()) {
    throw Error(ErrorKind::kData, table->origin() +
                                      ": expected columns of features, received the label's "
                                      "alone. Name others with --columns.");
  }
  const auto width = static_cast<int64_t>(fields.back().at + fields.back().width);
  return std::make_unique<TableRows>(table, schema, std::move(fields), std::vector<int64_t>{width},
                                     DType::kFloat32, first);
}

}  // namespace

CsvSources open_csv(const std::shared_ptr<const codec::FileReader>& file,
                    std::shared_ptr<const CsvSchema> schema, bool like,
                    const DatasetOptions& options) {
  if (schema->label >= 0) {
    const CsvColumn& label = schema->columns[static_cast<size_t>(schema->label)];
    if (label.text) check_classes(options, "words as labels", label.categories);
  }
  Converter converter(file, *schema, like);
  const ArrayPlace place = converter.run(choose_spill_folder(options.spill_directory));
  if (place.shape.front() == 0) {
    throw Error(ErrorKind::kData, file->name() + ": expected rows with labels, received none.");
  }
  const std::shared_ptr<RowSource> table = make_array_rows(place);
  CsvSources sources;
  sources.notes = converter.notes();
  sources.opening_peak = converter.peak();
  std::vector<std::vector<size_t>> inputs = schema->inputs;
  if (inputs.empty()) {
    inputs.emplace_back(schema->columns.size());
    std::iota(inputs.front().begin(), inputs.front().end(), size_t{0});
  }
  bool first = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::unique_ptr<RowSource> rows = schema->inputs.empty() ? nullptr : converter.take_texts(i);
    if (rows == nullptr) {
      rows = rows_of_input(table, schema, inputs[i], options, first);
      first = false;
    }
    sources.features.push_back(std::move(rows));
  }
  sources.counts_schema = !first || (schema->label >= 0 && converter.has_label());
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
      label.text ? DType::kInt32 : DType::kFloat32, first);
  return sources;
}

}  // namespace plimsoll::data
