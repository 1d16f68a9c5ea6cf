#include "data/csv_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/suggest.h"
#include "codec/csv.h"

namespace plimsoll::data {
namespace {

constexpr size_t kMaxColumns = 65536;
constexpr size_t kMaxCategories = 10'000;
constexpr size_t kMaxNumbers = 1000;  // that are kept in case that they are categories
constexpr int64_t kMaxCategoryBytes = 8 << 20;
constexpr int64_t kNodeBytes = 96;  // of a set of strings, without long text

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Among numbers it is one, and no category.
bool is_infinite(std::string_view field) {
  if (field.starts_with('-') || field.starts_with('+')) field.remove_prefix(1);
  const std::string word = lower(field);
  return word == "inf" || word == "infinity";
}

// What one pass learns of a column.
struct Survey {
  bool any_number = false;
  int64_t first_text_line = 0;  // 0: all numbers so far, finite or not
  std::string first_text;
  int64_t first_infinite_line = 0;  // 0: none so far, or text before
  std::string first_infinite;
  std::set<std::string, std::less<>> values;
  bool overflown = false;  // too many values: they are not kept
  int64_t count = 0;
  double mean = 0;
  double squares = 0;  // of distances from the mean

  // Infinities alone are words.
  bool is_text() const { return first_text_line > 0 || (first_infinite_line > 0 && !any_number); }
  void add_value(int64_t line, std::string_view field) {
    if (first_text_line > 0) return;
    double value = 0;
    if (codec::parse_number(field, value)) {
      add_number(value);
    } else if (!is_infinite(field)) {
      first_text_line = line;
      first_text = field;
    } else if (first_infinite_line == 0) {
      first_infinite_line = line;
      first_infinite = field;
    }
  }
  void add_number(double value) {
    any_number = true;
    ++count;
    const double distance = value - mean;
    mean += distance / static_cast<double>(count);
    squares += distance * (value - mean);
  }
};

class Inference {
 public:
  Inference(const std::shared_ptr<const codec::FileReader>& file, const DatasetOptions& options)
      : file_(file), options_(options) {}

  CsvSchema run();

 private:
  void take_first(codec::CsvReader& reader);
  bool first_is_header(codec::CsvReader& reader);
  void choose_columns();
  int find_column(const std::string& wanted, const char* option) const;
  void take_record(const codec::CsvReader& reader);
  void take_field(const codec::CsvReader& reader, size_t index, std::string_view field);
  void note_value(const codec::CsvReader& reader, size_t index, std::string_view field);
  void overflow(Survey& survey);
  void finish();
  [[noreturn]] void refuse(int64_t line, size_t column, const std::string& what) const;

  std::shared_ptr<const codec::FileReader> file_;
  const DatasetOptions& options_;
  CsvSchema schema_;
  std::vector<Survey> surveys_;
  int64_t category_bytes_ = 0;
};

void Inference::refuse(int64_t line, size_t column, const std::string& what) const {
  throw Error(ErrorKind::kData, file_->name() + ": line " + std::to_string(line) + ", column \"" +
                                    schema_.columns[column].name + "\": " + what);
}

bool Inference::first_is_header(codec::CsvReader& reader) {
  if (options_.header == "yes") return true;
  if (options_.header == "no") return false;
  double ignored = 0;
  for (const std::string_view field : reader.fields()) {
    const bool number = codec::parse_number(field, ignored) || is_infinite(field);
    if (number || is_missing(field)) return false;
  }
  // A few records are enough to see a number below a word.
  codec::CsvReader ahead(file_, schema_.delimiter);
  ahead.next();
  for (int i = 0; i < 100 && ahead.next(); ++i) {
    for (const std::string_view field : ahead.fields()) {
      if (codec::parse_number(field, ignored)) return true;
    }
  }
  return false;
}

void Inference::take_first(codec::CsvReader& reader) {
  if (!reader.next()) {
    throw Error(ErrorKind::kData, file_->name() + ": expected records, received an empty file.");
  }
  if (reader.fields().size() > kMaxColumns) {
    throw Error(ErrorKind::kData, file_->name() + ": expected at most " +
                                      std::to_string(kMaxColumns) + " columns, received " +
                                      std::to_string(reader.fields().size()) + ".");
  }
  schema_.header = first_is_header(reader);
  for (const std::string_view field : reader.fields()) {
    CsvColumn column;
    column.name = "column " + std::to_string(schema_.columns.size() + 1);
    if (schema_.header && !field.empty()) column.name = field;
    schema_.columns.push_back(std::move(column));
  }
  surveys_.resize(schema_.columns.size());
}

// Its index; a number counts from 1. Throws kConfig.
int Inference::find_column(const std::string& wanted, const char* option) const {
  std::vector<std::string> names;
  for (const CsvColumn& column : schema_.columns) {
    if (column.name == wanted) return static_cast<int>(names.size());
    names.push_back(column.name);
  }
  int number = 0;
  const auto read = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool whole = read.ec == std::errc() && read.ptr == wanted.data() + wanted.size();
  if (whole && number >= 1 && number <= static_cast<int>(names.size())) return number - 1;
  throw Error(ErrorKind::kConfig, std::string(option) + ": expected a column of " + file_->name() +
                                      " (its name, or its number from 1 to " +
                                      std::to_string(names.size()) + "), received \"" + wanted +
                                      "\"." + did_you_mean(wanted, names));
}

void Inference::choose_columns() {
  std::vector<CsvColumn>& columns = schema_.columns;
  if (!options_.label_column.empty()) {
    schema_.label = find_column(options_.label_column, "--label-column");
  } else if (options_.labels.empty() && columns.size() > 1) {
    schema_.label = static_cast<int>(columns.size()) - 1;
    for (const std::string_view usual : {"y", "class", "target", "label"}) {
      for (size_t i = 0; i < columns.size(); ++i) {
        if (lower(columns[i].name) == usual) schema_.label = static_cast<int>(i);
      }
    }
  }
  if (options_.columns.empty()) return;
  for (CsvColumn& column : columns) column.used = false;
  for (size_t begin = 0; begin <= options_.columns.size();) {
    const size_t end = std::min(options_.columns.find(',', begin), options_.columns.size());
    const std::string name = options_.columns.substr(begin, end - begin);
    columns[static_cast<size_t>(find_column(name, "--columns"))].used = true;
    begin = end + 1;
  }
  if (options_.label_column.empty() && schema_.label >= 0 &&
      columns[static_cast<size_t>(schema_.label)].used) {
    schema_.label = -1;  // the user took it for a feature
  }
  if (schema_.label >= 0) columns[static_cast<size_t>(schema_.label)].used = true;
}

void Inference::take_field(const codec::CsvReader& reader, size_t index, std::string_view field) {
  Survey& survey = surveys_[index];
  if (is_missing(field)) {
    const bool label = static_cast<int>(index) == schema_.label;
    if (!options_.fill.empty() && !label) return;
    refuse(reader.line(), index,
           "expected a value, received " +
               (field.empty() ? std::string("none") : "\"" + std::string(field) + "\"") +
               (label ? ". A sample without a label cannot be trained on; leave it out."
                      : ". Fill missing values with --fill mean or --fill 0, or leave the column "
                        "out with --columns."));
  }
  survey.add_value(reader.line(), field);
  note_value(reader, index, field);
}

// Numbers before the first text are categories too, should text follow: they are kept while they
// are few.
void Inference::note_value(const codec::CsvReader& reader, size_t index, std::string_view field) {
  Survey& survey = surveys_[index];
  if (!survey.overflown && survey.values.find(field) == survey.values.end()) {
    survey.values.emplace(field);
    category_bytes_ += kNodeBytes + static_cast<int64_t>(field.size());
    if (survey.values.size() > (survey.is_text() ? kMaxCategories : kMaxNumbers)) overflow(survey);
    if (category_bytes_ > kMaxCategoryBytes) {
      for (Survey& other : surveys_) {
        if (!other.is_text()) overflow(other);
      }
      if (category_bytes_ > kMaxCategoryBytes) overflow(survey);
    }
  }
  if (!survey.overflown || !survey.is_text()) return;
  if (survey.any_number) {
    refuse(survey.first_text_line, index,
           "expected a number as in the lines before, received \"" + survey.first_text + "\".");
  }
  refuse(reader.line(), index,
         "expected at most " + std::to_string(kMaxCategories) +
             " categories, received more. Free text is no category: leave the column out with "
             "--columns.");
}

void Inference::overflow(Survey& survey) {
  for (const std::string& value : survey.values) {
    category_bytes_ -= kNodeBytes + static_cast<int64_t>(value.size());
  }
  survey.values.clear();
  survey.overflown = true;
}

void Inference::take_record(const codec::CsvReader& reader) {
  const std::span<const std::string_view> fields = reader.fields();
  if (fields.size() != schema_.columns.size()) {
    throw Error(ErrorKind::kData, file_->name() + ": line " + std::to_string(reader.line()) +
                                      ": expected " + std::to_string(schema_.columns.size()) +
                                      " fields as in the first line, received " +
                                      std::to_string(fields.size()) + ".");
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool wanted = schema_.columns[i].used || static_cast<int>(i) == schema_.label;
    if (wanted) take_field(reader, i, fields[i]);
  }
  ++schema_.rows;
}

void Inference::finish() {
  for (size_t i = 0; i < surveys_.size(); ++i) {
    const Survey& survey = surveys_[i];
    CsvColumn& column = schema_.columns[i];
    if (survey.first_infinite_line > 0 && !survey.is_text()) {
      refuse(survey.first_infinite_line, i,
             "expected a finite number, received \"" + survey.first_infinite + "\".");
    }
    column.text = survey.is_text();
    if (column.text) {
      column.categories.assign(survey.values.begin(), survey.values.end());
    } else if (survey.count > 0) {
      column.mean = survey.mean;
      const double deviation = std::sqrt(survey.squares / static_cast<double>(survey.count));
      if (deviation > 0) column.deviation = deviation;
    }
  }
}

CsvSchema Inference::run() {
  schema_.origin = file_->name();
  schema_.fill = options_.fill;
  schema_.delimiter = codec::guess_delimiter(*file_);
  codec::CsvReader reader(file_, schema_.delimiter);
  take_first(reader);
  choose_columns();
  if (!schema_.header) take_record(reader);
  while (reader.next()) take_record(reader);
  if (schema_.rows == 0) {
    throw Error(ErrorKind::kData,
                file_->name() + ": expected records, received a header and none.");
  }
  finish();
  return std::move(schema_);
}

void check_word(const char* option, const std::string& word,
                std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  throw Error(ErrorKind::kConfig, std::string(option) + ": expected " + list + ", received \"" +
                                      word + "\"." + did_you_mean(word, known));
}

void check_options(const DatasetOptions& options) {
  check_word("--header", options.header, {"auto", "yes", "no"});
  check_word("--categories", options.categories, {"onehot", "index"});
  double number = 0;
  if (options.fill.empty() || options.fill == "mean" || codec::parse_number(options.fill, number)) {
    return;
  }
  throw Error(ErrorKind::kConfig,
              "--fill: expected mean or a number, received \"" + options.fill + "\".");
}

}  // namespace

bool is_missing(std::string_view field) {
  static constexpr std::array<std::string_view, 9> kSpellings = {
      "", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"};
  return std::find(kSpellings.begin(), kSpellings.end(), field) != kSpellings.end();
}

Bytes CsvSchema::resident_bytes() const {
  int64_t bytes = static_cast<int64_t>(columns.size() * sizeof(CsvColumn));
  for (const CsvColumn& column : columns) {
    bytes += static_cast<int64_t>(column.name.size());
    for (const std::string& category : column.categories) {
      bytes += static_cast<int64_t>(sizeof(std::string) + category.size());
    }
  }
  return Bytes(bytes);
}

CsvSchema infer_csv(const std::shared_ptr<const codec::FileReader>& file,
                    const DatasetOptions& options) {
  check_options(options);
  return Inference(file, options).run();
}

}  // namespace plimsoll::data
