#include "data/csv/csv_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "codec/csv.h"
#include "data/csv/csv_header.h"
#include "data/csv/csv_survey.h"
#include "data/rows/named_arrays.h"

namespace plimsoll::data {
namespace {

constexpr size_t kMostNamed = 5;  // columns of one note

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string with_place(const FoundValue& value) {
  return fmt::format("{} in line {}", quoted(value.text), value.line);
}

// Bytes of a string beside itself.
int64_t heap_bytes(const std::string& text) {
  constexpr size_t kInside = 15;
  return text.capacity() > kInside ? static_cast<int64_t>(text.capacity() + 1 + 31) / 16 * 16 : 0;
}

class Inference {
 public:
  Inference(const std::shared_ptr<const codec::FileReader>& file, const DatasetOptions& options)
      : file_(file), options_(options) {}

  CsvSchema run();

 private:
  void take_first(codec::CsvReader& reader);
  bool first_is_header(codec::CsvReader& reader);
  bool is_asked_for(std::string_view name) const;
  void take_names(codec::CsvReader& reader);
  void use_named_columns();
  void choose_columns();
  void choose_label();
  bool has_inputs() const;
  bool names_input(size_t index) const;
  void place_inputs();
  void place_input(size_t input, std::vector<size_t> columns);
  int find_column(const std::string& wanted, const char* option) const;
  bool is_label(size_t index) const { return static_cast<int>(index) == schema_.label; }
  bool is_wanted(size_t index) const { return schema_.columns[index].used || is_label(index); }
  bool fills(size_t index) const;
  void take_record(const codec::CsvReader& reader);
  void take_field(const codec::CsvReader& reader, size_t index, std::string_view field);
  void check_values(const codec::CsvReader& reader, size_t index);
  void survey_styles();
  void settle(size_t index, const StyleSurvey& found);
  void finish();
  void finish_column(size_t index);
  void leave_out_index();
  void note_columns();
  [[noreturn]] void refuse(int64_t line, size_t column, const std::string& what) const;
  [[noreturn]] void refuse_missing(int64_t line, size_t index, std::string_view field) const;

  std::shared_ptr<const codec::FileReader> file_;
  const DatasetOptions& options_;
  CsvSchema schema_;
  std::vector<ColumnSurvey> surveys_;
  StyleSet styles_ = 0;
  int64_t category_bytes_ = 0;
  int64_t most_category_bytes_ = 0;
  int64_t records_ = 0;
  bool may_be_index_ = false;  // the first column: it has no name, and counts so far
};

void Inference::refuse(int64_t line, size_t column, const std::string& what) const {
  throw Error(ErrorKind::kData, fmt::format("{}: line {}, column {}: {}", file_->name(), line,
                                            quoted(schema_.columns[column].name), what));
}

void Inference::refuse_missing(int64_t line, size_t index, std::string_view field) const {
  const bool unlabelled = is_label(index) && !schema_.columns[index].used;
  refuse(line, index,
         "expected a value, received " + (field.empty() ? std::string("none") : quoted(field)) +
             (unlabelled ? ". A sample without a label cannot be trained on; leave it out, or say "
                           "--fill mean, which leaves out all of them."
                         : ". Fill missing values with --fill mean or --fill 0, or leave the "
                           "column out with --columns."));
}

bool Inference::first_is_header(codec::CsvReader& reader) {
  if (options_.header == "yes") return true;
  if (options_.header == "no") return false;
  double ignored = 0;
  const std::span<const std::string_view> fields = reader.fields();
  for (const Port& port : options_.inputs) {
    if (has_inputs() && std::ranges::find(fields, port.name) != fields.end()) return true;
  }
  const auto unmarked = static_cast<StyleSet>(
      styles_ & (style_bit(NumberStyle::kPlain) | style_bit(NumberStyle::kDecimalComma) |
                 style_bit(NumberStyle::kThousands)));  // "50%" may well be a name
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool index = i == 0 && fields[i].empty() && fields.size() > 1;  // pandas' own
    if (!index && is_missing(fields[i])) return false;
    if (styles_that_read(fields[i], unmarked) != 0 || is_infinite(fields[i])) return false;
  }
  if (std::ranges::any_of(fields, [&](std::string_view name) { return is_asked_for(name); })) {
    return true;
  }
  // A few records are enough to see a number below a word.
  codec::CsvReader ahead(file_, schema_.dialect);
  ahead.next();
  HeaderOfWords words(fields);
  int seen = 0;
  for (; seen < 100 && ahead.next(); ++seen) {
    words.look_at(ahead.fields());
    for (const std::string_view field : ahead.fields()) {
      if (codec::parse_number(field, ignored) || styles_that_read(field, styles_) != 0) return true;
    }
  }
  if (seen == 0) return true;  // a header, and nothing below it
  if (!words.is_one()) return false;
  schema_.notes.push_back(
      file_->name() +
      ": the first line names the columns: none of its words stands below. Pass "
      "--header no where it is a record.");
  return true;
}

// Named by --label-column or --columns.
bool Inference::is_asked_for(std::string_view name) const {
  if (name.empty()) return false;
  if (name == options_.label_column) return true;
  std::string_view rest = options_.columns;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == name) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

void Inference::take_names(codec::CsvReader& reader) {
  std::vector<std::string> names;
  if (schema_.header) names.assign(reader.fields().begin(), reader.fields().end());
  // A comment above the first record is its header where it has as many names.
  if (!schema_.header && options_.header == "auto" && reader.fields().size() > 1) {
    names = codec::split_csv_line(schema_.dialect.last_comment, schema_.dialect.delimiter);
    if (names.size() != reader.fields().size()) names.clear();
  }
  int64_t comments = schema_.dialect.comments;
  if (!schema_.header && !names.empty()) --comments;
  if (comments > 0) {
    schema_.notes.push_back(fmt::format("{}: left out {}{} above the first record.", file_->name(),
                                        comments,
                                        comments == 1 ? " comment line" : " comment lines"));
  }
  may_be_index_ = !names.empty() && (names.front().empty() || names.front() == "Unnamed: 0");
  schema_.columns.resize(reader.fields().size());
  for (size_t i = 0; i < schema_.columns.size(); ++i) {
    const bool named = i < names.size() && !names[i].empty();
    schema_.columns[i].name = named ? std::move(names[i]) : fmt::format("column {}", i + 1);
  }
}

void Inference::take_first(codec::CsvReader& reader) {
  if (!reader.next()) {
    const int64_t comments = schema_.dialect.comments;
    throw Error(ErrorKind::kData,
                file_->name() + ": expected records, received " +
                    (comments > 0 ? fmt::format("{} lines that begin with #", comments)
                                  : std::string("an empty file")) +
                    ".");
  }
  schema_.header = first_is_header(reader);
  take_names(reader);
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
  throw Error(
      ErrorKind::kConfig,
      fmt::format(
          "{}: expected a column of {} (its name, or its number from 1 to {}), received \"{}\".{}",
          option, file_->name(), names.size(), wanted, did_you_mean(wanted, names)));
}

void Inference::choose_label() {
  std::vector<CsvColumn>& columns = schema_.columns;
  if (!options_.label_column.empty()) {
    schema_.label = find_column(options_.label_column, "--label-column");
  } else if (options_.labels.empty() && columns.size() > 1) {
    if (!names_input(columns.size() - 1)) schema_.label = static_cast<int>(columns.size()) - 1;
    for (const std::string_view usual : kLabelNames) {
      for (size_t i = 0; i < columns.size(); ++i) {
        if (lower(columns[i].name) == usual && !names_input(i)) {
          schema_.label = static_cast<int>(i);
        }
      }
    }
  }
}

void Inference::use_named_columns() {
  for (CsvColumn& column : schema_.columns) column.used = false;
  for (size_t begin = 0; begin <= options_.columns.size();) {
    const size_t end = std::min(options_.columns.find(',', begin), options_.columns.size());
    const std::string name = options_.columns.substr(begin, end - begin);
    schema_.columns[static_cast<size_t>(find_column(name, "--columns"))].used = true;
    begin = end + 1;
  }
}

void Inference::choose_columns() {
  std::vector<CsvColumn>& columns = schema_.columns;
  if (!options_.columns.empty()) use_named_columns();
  choose_label();
  const auto label = static_cast<size_t>(std::max(schema_.label, 0));
  if (options_.columns.empty()) {
    if (schema_.label >= 0) columns[label].used = false;
  } else {
    if (options_.label_column.empty() && schema_.label >= 0 && columns[label].used) {
      schema_.label = -1;  // the user took it for a feature
    }
    may_be_index_ = false;
  }
  if (has_inputs()) place_inputs();
  may_be_index_ = may_be_index_ && columns.front().used;
  schema_.wants_labels = options_.labels_wanted;
  schema_.leaves_out_unlabelled = schema_.label >= 0 && !schema_.fill.empty() &&
                                  schema_.wants_labels && options_.window == 0 &&
                                  !columns[label].used;
}

// Whether columns are told apart by the model's inputs.
bool Inference::has_inputs() const {
  return options_.inputs.size() > 1 ||
         (!options_.inputs.empty() && options_.inputs.front().lookup != nullptr);
}

// A column that --columns leaves out is no input's, whatever it is called.
bool Inference::names_input(size_t index) const {
  const bool left_out = !options_.columns.empty() && !schema_.columns[index].used;
  return has_inputs() && !left_out &&
         std::ranges::find(options_.inputs, schema_.columns[index].name, &Port::name) !=
             options_.inputs.end();
}

void Inference::place_input(size_t input, std::vector<size_t> columns) {
  const Port& port = options_.inputs[input];
  if (port.lookup != nullptr) {
    const auto wanted = static_cast<size_t>(port.lookup->input_elements());
    if (columns.size() != wanted) {
      std::vector<std::string> names;
      names.reserve(columns.size());
      for (const size_t index : columns) names.push_back(schema_.columns[index].name);
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: expected {} for the input {}, received {} ({}). Name them with "
                      "--columns, or call the column as the input is called.",
                      file_->name(), wanted == 1 ? "one column" : fmt::format("{} columns", wanted),
                      port.name, columns.size(), list_names(names)));
    }
    const auto ids = std::make_shared<FieldIds>(port.lookup);
    for (const size_t index : columns) schema_.columns[index].ids = ids;
  }
  schema_.inputs[input] = std::move(columns);
}

// Columns called as inputs are theirs; one input without takes the others.
void Inference::place_inputs() {
  const std::vector<Port>& inputs = options_.inputs;
  std::vector<CsvColumn>& columns = schema_.columns;
  schema_.inputs.resize(inputs.size());
  std::vector<size_t> open;
  std::vector<size_t> left;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = std::ranges::find(columns, inputs[i].name, &CsvColumn::name);
    const auto index = static_cast<size_t>(named - columns.begin());
    if (named == columns.end() || !names_input(index)) {
      open.push_back(i);
      continue;
    }
    if (is_label(index)) {
      throw Error(ErrorKind::kConfig, fmt::format("--label-column: expected a column that is no "
                                                  "input of the model, received {}.",
                                                  quoted(named->name)));
    }
    place_input(i, {index});
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool counter = i == 0 && may_be_index_;  // it has no name that an input could have
    if (columns[i].used && !counter && !names_input(i)) left.push_back(i);
  }
  if (open.size() == 1) {
    place_input(open.front(), left);
  } else if (!open.empty()) {
    std::vector<std::string> names;
    names.reserve(columns.size());
    for (const CsvColumn& column : columns) names.push_back(column.name);
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected a column for each of the model's inputs {}, received {} "
                            "without {} and {}. Give each input a file of its own: --data "
                            "NAME=PATH.",
                            file_->name(), names_of(inputs), list_names(names),
                            inputs[open[0]].name, inputs[open[1]].name));
  }
  for (CsvColumn& column : columns) column.used = false;
  for (const std::vector<size_t>& input : schema_.inputs) {
    for (const size_t index : input) columns[index].used = true;
  }
}

bool Inference::fills(size_t index) const {
  if (is_label(index) && !schema_.columns[index].used && !schema_.wants_labels) return true;
  return !schema_.fill.empty();
}

void Inference::take_field(const codec::CsvReader& reader, size_t index, std::string_view field) {
  if (schema_.columns[index].ids != nullptr) return;  // whatever it says
  if (is_missing(field)) {
    if (!fills(index)) refuse_missing(reader.line(), index, field);
    return;
  }
  surveys_[index].add(reader.line(), field, styles_, category_bytes_);
  check_values(reader, index);
}

// Refuses what cannot be kept. Numbers before the first text are categories too, should text
// follow: they are kept while they are few.
void Inference::check_values(const codec::CsvReader& reader, size_t index) {
  ColumnSurvey& survey = surveys_[index];
  const auto is_words = [](const ColumnSurvey& other) {
    return other.is_text() && other.styles() == 0;
  };
  most_category_bytes_ = std::max(most_category_bytes_, category_bytes_);
  const bool full = category_bytes_ > ColumnSurvey::kMaxCategoryBytes;
  if (full) {
    for (ColumnSurvey& other : surveys_) {
      if (!is_words(other)) other.give_up_values(category_bytes_);
    }
  }
  if (category_bytes_ > ColumnSurvey::kMaxCategoryBytes) {
    refuse(reader.line(), index,
           fmt::format("expected categories of all columns together within 8 MiB, received more "
                       "({} of this column so far). Leave out columns of free text with --columns.",
                       survey.kept_values()));
  }
  if (!survey.lost_values() || !is_words(survey)) return;
  if (survey.has_numbers()) {
    refuse(survey.culprit().line, index,
           "expected a number as in the lines before, received " + quoted(survey.culprit().text) +
               ".");
  }
  refuse(reader.line(), index,
         fmt::format("expected at most {} categories, received more. Free text is no category: "
                     "leave the column out with --columns.",
                     ColumnSurvey::kMaxCategories));
}

void Inference::take_record(const codec::CsvReader& reader) {
  const std::span<const std::string_view> fields = reader.fields();
  if (fields.size() != schema_.columns.size()) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: line {}: expected {} fields as in the first line, received {}.",
                            file_->name(), reader.line(), schema_.columns.size(), fields.size()));
  }
  if (may_be_index_) {
    double number = -1;
    may_be_index_ =
        codec::parse_number(fields.front(), number) && number == static_cast<double>(records_);
  }
  ++records_;
  if (schema_.leaves_out_unlabelled && is_missing(fields[static_cast<size_t>(schema_.label)])) {
    return;
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (is_wanted(i)) take_field(reader, i, fields[i]);
  }
  ++schema_.rows;
}

// Reads columns once more whose words may all be numbers in another style.
void Inference::survey_styles() {
  std::vector<std::pair<size_t, StyleSurvey>> open;
  for (size_t i = 0; i < surveys_.size(); ++i) {
    if (surveys_[i].is_text() && surveys_[i].styles() != 0) {
      open.emplace_back(i, StyleSurvey(surveys_[i].styles()));
    }
  }
  if (open.empty()) return;
  codec::CsvReader reader(file_, schema_.dialect);
  if (schema_.header) reader.next();
  while (reader.next()) {
    const std::span<const std::string_view> fields = reader.fields();
    if (schema_.leaves_out_unlabelled && is_missing(fields[static_cast<size_t>(schema_.label)])) {
      continue;
    }
    for (auto& [index, survey] : open) {
      const std::string_view field = fields[index];
      const bool missing = is_missing(field) || missing_among_numbers(field) >= 0;
      if (!missing) survey.add(reader.line(), field);
    }
  }
  for (const auto& [index, survey] : open) settle(index, survey);
}

void Inference::settle(size_t index, const StyleSurvey& found) {
  ColumnSurvey& survey = surveys_[index];
  if (found.styles() != 0) {
    const NumberStyle style = first_style(found.styles());
    return survey.settle(style, found.numbers(style));
  }
  // Among plain numbers it is the first word that is odd.
  survey.settle_as_words(survey.any_number() ? survey.first_word() : found.odd());
  if (!survey.lost_values()) return;
  refuse(survey.culprit().line, index,
         "expected numbers in one style, received " + quoted(survey.culprit().text) + ".");
}

void Inference::finish_column(size_t index) {
  ColumnSurvey& survey = surveys_[index];
  CsvColumn& column = schema_.columns[index];
  column.text = survey.is_text();
  if (column.text) {
    const std::set<std::string, std::less<>> values = survey.take_categories();
    column.categories.assign(values.begin(), values.end());
    return;
  }
  if (survey.infinite().line > 0) {
    refuse(survey.infinite().line, index,
           "expected a finite number, received " + quoted(survey.infinite().text) + ".");
  }
  if (survey.missing().line > 0 && !fills(index)) {
    refuse_missing(survey.missing().line, index, survey.missing().text);
  }
  column.style = survey.style();
  if (survey.numbers().count() == 0) return;
  column.mean = survey.numbers().mean();
  column.deviation = survey.numbers().deviation();
}

void Inference::leave_out_index() {
  const bool others = std::any_of(schema_.columns.begin() + 1, schema_.columns.end(),
                                  [](const CsvColumn& column) { return column.used; });
  if (!may_be_index_ || !others) return;
  schema_.columns.front().used = false;
  schema_.notes.push_back(file_->name() +
                          ": left out the first column, an index: it has no name and counts the "
                          "rows. Name it among --columns to use it.");
}

// What was found in a column and not asked for, once, with the value that did it.
void Inference::note_columns() {
  std::array<std::vector<size_t>, kNumberStyles> styled;
  std::vector<size_t> words;
  for (size_t i = 0; i < surveys_.size(); ++i) {
    if (!is_wanted(i)) continue;
    const NumberStyle style = schema_.columns[i].style;
    if (style != NumberStyle::kPlain) styled[static_cast<size_t>(style)].push_back(i);
    if (schema_.columns[i].text && surveys_[i].has_numbers()) words.push_back(i);
  }
  const auto say = [&](const std::vector<size_t>& columns, const std::string& what, auto&& why) {
    for (size_t i = 0; i < std::min(columns.size(), kMostNamed); ++i) {
      schema_.notes.push_back(file_->name() + ": column " +
                              quoted(schema_.columns[columns[i]].name) + what +
                              why(surveys_[columns[i]]) + ".");
    }
    if (columns.size() <= kMostNamed) return;
    schema_.notes.push_back(
        fmt::format("{}: so do {} other columns.", file_->name(), columns.size() - kMostNamed));
  };
  for (int i = 0; i < kNumberStyles; ++i) {
    say(styled[static_cast<size_t>(i)],
        fmt::format(" holds numbers with {}, as ", to_string(static_cast<NumberStyle>(i))),
        [](const ColumnSurvey& survey) { return with_place(survey.first_word()); });
  }
  say(words, " holds categories because of ", [](const ColumnSurvey& survey) {
    return with_place(survey.culprit()) + ", which is no number as others of it are";
  });
}

void Inference::finish() {
  survey_styles();
  leave_out_index();
  for (size_t i = 0; i < surveys_.size(); ++i) {
    if (is_wanted(i)) finish_column(i);
  }
  note_columns();
}

CsvSchema Inference::run() {
  schema_.origin = file_->name();
  schema_.fill = options_.fill;
  schema_.dialect = codec::find_dialect(*file_);
  styles_ = styles_of(schema_.dialect.delimiter);
  codec::CsvReader reader(file_, schema_.dialect);
  take_first(reader);
  choose_columns();
  if (!schema_.header) take_record(reader);
  while (reader.next()) take_record(reader);
  if (records_ == 0) {
    throw Error(ErrorKind::kData,
                file_->name() + ": expected records, received a header and none.");
  }
  if (schema_.rows == 0) {
    throw Error(ErrorKind::kData, file_->name() + ": expected labels, received none.");
  }
  finish();
  schema_.opening_peak = schema_.resident_bytes() +
                         Bytes(2 * reader.held_bytes() + most_category_bytes_) +
                         Bytes(static_cast<int64_t>(surveys_.capacity() * sizeof(ColumnSurvey)));
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

Bytes CsvSchema::resident_bytes() const {
  int64_t bytes = static_cast<int64_t>(columns.capacity() * sizeof(CsvColumn));
  for (const std::string& note : notes) bytes += heap_bytes(note);
  for (const CsvColumn& column : columns) {
    bytes += heap_bytes(column.name) +
             static_cast<int64_t>(column.categories.capacity() * sizeof(std::string));
    for (const std::string& category : column.categories) bytes += heap_bytes(category);
  }
  std::set<const FieldIds*> counted;
  for (const CsvColumn& column : columns) {
    if (column.ids != nullptr && counted.insert(column.ids.get()).second) {
      bytes += column.ids->held_bytes();
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
