#include "data/record/record_rows.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "codec/image/image.h"
#include "codec/tf_record.h"
#include "data/image/image_rows.h"
#include "data/lookup/string_rows.h"
#include "data/record/record_images.h"
#include "data/rows/array_rows.h"
#include "data/rows/named_arrays.h"

namespace plimsoll::data {
namespace {

using Feature = codec::ExampleFeature;
using Kind = Feature::Kind;

// A feature as the first record has it, which all others must have too.
struct Part {
  std::string name;
  Kind kind = Kind::kNone;
  int64_t elements = 0;  // of a record: numbers, or bytes
  std::string described;
};

std::string describe(const Feature& feature) {
  switch (feature.kind) {
    case Kind::kFloats:
      return fmt::format("{} floats", feature.count);
    case Kind::kIntegers:
      return fmt::format("{} integers", feature.count);
    case Kind::kBytes:
      return feature.count == 1 ? fmt::format("{} bytes", feature.bytes)
                                : fmt::format("{} strings of bytes", feature.count);
    case Kind::kNone:
      break;
  }
  return "nothing";
}

Part part_of_record(const Feature& feature) {
  const bool bytes = feature.kind == Kind::kBytes;
  const int64_t elements = !bytes ? feature.count : feature.count == 1 ? feature.bytes : 0;
  return {feature.name, feature.kind, elements, describe(feature)};
}

DType dtype_of(Kind kind) {
  return kind == Kind::kFloats     ? DType::kFloat32
         : kind == Kind::kIntegers ? DType::kInt64
                                   : DType::kUInt8;
}

// Features are in the order of their names here, whatever the record's: a wide one would take long
// to be searched for each.
std::vector<Feature> features_of(codec::TfRecordReader& reader) {
  std::vector<Feature> record = reader.features();
  std::ranges::sort(record, [](const Feature& a, const Feature& b) {
    const int order = a.name.compare(b.name);
    return order != 0 ? order < 0 : a.begin < b.begin;
  });
  return record;
}

const Feature* find(const std::vector<Feature>& record, std::string_view name) {
  const auto found = std::ranges::lower_bound(record, name, {}, &Feature::name);
  return found == record.end() || found->name != name ? nullptr : &*found;
}

// What becomes of features of all records.
class Column {
 public:
  virtual ~Column() = default;
  virtual void add(codec::TfRecordReader& reader, const std::vector<Feature>& record) = 0;
  virtual std::unique_ptr<RowSource> finish(const std::string& origin) = 0;
  virtual Bytes held_bytes() const = 0;  // at most, so far
  // The tables of the vocabulary that it looks up; none: it does not.
  virtual Bytes tables() const { return {}; }
};

// Features side by side, as an array in a file: numbers of their own kind, or float32 where they
// are of several.
class ArrayColumn final : public Column {
 public:
  ArrayColumn(std::vector<Part> parts, const std::string& folder)
      : parts_(std::move(parts)), file_(std::make_shared<File>(File::unlinked(folder))) {
    stored_ = dtype_of(parts_.front().kind);
    for (const Part& part : parts_) {
      if (dtype_of(part.kind) != stored_) stored_ = DType::kFloat32;
      elements_ += part.elements;
    }
    buffer_.reserve(kWriteBytes);
  }

  void add(codec::TfRecordReader& reader, const std::vector<Feature>& record) override {
    for (const Part& part : parts_) {
      const Feature* const found = find(record, part.name);
      const std::string received = found == nullptr ? "none" : describe(*found);
      if (received != part.described) {
        throw Error(ErrorKind::kData, reader.where() + ", feature \"" + part.name +
                                          "\": expected " + part.described +
                                          " as in the first record, received " + received + ".");
      }
      const codec::NumberFormat format = codec::native_format(dtype_of(part.kind));
      reader.read_values(*found, [&](std::span<const std::byte> piece) {
        const auto count = std::ssize(piece) / format.bytes;
        const bool same = dtype_of(part.kind) == stored_;
        const int64_t bytes = same ? std::ssize(piece) : count * element_bytes(stored_).count();
        if (std::ssize(buffer_) + bytes > kWriteBytes) flush();
        buffer_.resize(buffer_.size() + static_cast<size_t>(bytes));
        std::byte* const out = buffer_.data() + buffer_.size() - bytes;
        if (same) {
          std::ranges::copy(piece, out);
        } else {
          codec::convert_numbers(format, piece.data(), stored_, out, count);
        }
      });
    }
    ++rows_;
  }

  std::unique_ptr<RowSource> finish(const std::string& origin) override {
    flush();
    ArrayPlace place;
    place.format = codec::native_format(stored_);
    place.shape = {rows_};
    if (elements_ != 1) place.shape.push_back(elements_);
    place.file = std::make_shared<const codec::FileReader>(std::move(file_), 0, written_, origin);
    return make_array_rows(place);
  }
  // What was never written to takes no memory: a page more, since it begins anywhere in one.
  Bytes held_bytes() const override {
    return round_up(Bytes(std::max(most_, std::ssize(buffer_))), page_size()) + page_size();
  }

 private:
  static constexpr int64_t kWriteBytes = 512 << 10;  // a piece of bytes as float32, twice

  void flush() {
    most_ = std::max(most_, std::ssize(buffer_));
    file_->write_at(written_, buffer_);
    written_ += std::ssize(buffer_);
    buffer_.clear();
  }

  std::vector<Part> parts_;
  DType stored_ = DType::kFloat32;
  int64_t elements_ = 0;
  std::shared_ptr<File> file_;
  int64_t rows_ = 0;
  int64_t written_ = 0;
  int64_t most_ = 0;  // bytes of the buffer that were used before
  std::vector<std::byte> buffer_;
};

// One feature that holds encoded images, decoded to what the model takes.
class ImageColumn final : public Column {
 public:
  ImageColumn(std::string name, const DatasetOptions& options, const std::string& folder)
      : name_(std::move(name)),
        options_(options),
        images_(std::make_shared<RecordImages>(options.data, folder)) {}

  void add(codec::TfRecordReader& reader, const std::vector<Feature>& record) override {
    const Feature* const found = find(record, name_);
    const bool one = found != nullptr && found->kind == Kind::kBytes && found->count == 1;
    if (!one) {
      throw Error(ErrorKind::kData, reader.where() + ", feature \"" + name_ +
                                        "\": expected an image as in the first record, received " +
                                        (found == nullptr ? "none" : describe(*found)) + ".");
    }
    images_->add(reader, *found);
  }
  std::unique_ptr<RowSource> finish(const std::string& origin) override {
    (void)origin;
    images_->finish();
    return decoded_image_rows(images_, options_);
  }
  Bytes held_bytes() const override { return RecordImages::kMostPending; }

 private:
  std::string name_;
  DatasetOptions options_;
  std::shared_ptr<RecordImages> images_;
};

// Features of strings side by side that a model's input looks up.
class StringColumn final : public Column {
 public:
  StringColumn(std::vector<std::string> names, std::shared_ptr<FieldIds> ids,
               const std::string& folder)
      : names_(std::move(names)), ids_(std::move(ids)), samples_(ids_, folder) {}

  void add(codec::TfRecordReader& reader, const std::vector<Feature>& record) override {
    int64_t count = 0;
    for (const std::string& name : names_) {
      const Feature* const found = find(record, name);
      if (found == nullptr || found->kind != Kind::kBytes) refuse(reader, name, found);
      count += found->count;
      if (count > samples_.width()) refuse(reader, name, found);
    }
    if (count < samples_.width()) refuse(reader, names_.back(), find(record, names_.back()));
    const auto where = [&] { return reader.where(); };
    for (const std::string& name : names_) {
      reader.read_strings(*find(record, name), [&](int64_t bytes) -> std::string& {
        return samples_.next(bytes, where);
      });
    }
    samples_.add(where);
  }

  std::unique_ptr<RowSource> finish(const std::string& origin) override {
    return samples_.finish(origin);
  }
  Bytes held_bytes() const override { return samples_.peak() + tables(); }
  Bytes tables() const override { return Bytes(ids_->held_bytes()); }

 private:
  [[noreturn]] void refuse(const codec::TfRecordReader& reader, const std::string& name,
                           const Feature* found) const {
    const bool strings = found != nullptr && found->kind == Kind::kBytes;
    const auto count_of = [](int64_t count) {
      return fmt::format("{} string{}", count, count == 1 ? "" : "s");
    };
    throw Error(ErrorKind::kData,
                fmt::format("{}, feature \"{}\": expected {} in a tf.train.BytesList, which layer "
                            "{} looks up, received {}.",
                            reader.where(), name, count_of(samples_.width()), ids_->lookup().layer,
                            found == nullptr ? "none"
                            : strings        ? count_of(found->count)
                                             : describe(*found)));
  }

  std::vector<std::string> names_;
  std::shared_ptr<FieldIds> ids_;
  StringSamples samples_;
};

std::string names_of(const std::vector<Feature>& record) {
  std::vector<std::string> names;
  names.reserve(record.size());
  for (const Feature& feature : record) names.push_back(feature.name);
  return list_names(names);
}

// The features that an option names: one, or several with commas between them. Throws kConfig.
std::vector<std::string> named_by(const char* option, const std::string& words,
                                  const std::vector<Feature>& record) {
  if (words.empty()) return {};
  if (find(record, words) != nullptr) return {words};
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= words.size();) {
    const size_t end = std::min(words.find(',', begin), words.size());
    names.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& name : names) {
    if (find(record, name) != nullptr) continue;
    std::vector<std::string> known;
    known.reserve(record.size());
    for (const Feature& feature : record) known.push_back(feature.name);
    throw Error(ErrorKind::kConfig, std::string(option) + ": expected a feature of the records (" +
                                        names_of(record) + "), received \"" + name + "\"." +
                                        did_you_mean(name, known));
  }
  return names;
}

std::vector<std::string> first_of(std::initializer_list<std::string_view> usual,
                                  const std::vector<Feature>& record) {
  for (const std::string_view name : usual) {
    if (find(record, name) != nullptr) return {std::string(name)};
  }
  return {};
}

// What the records' features are taken as: the columns of each input and output.
struct Choice {
  std::vector<std::vector<std::string>> inputs;
  std::vector<std::vector<std::string>> outputs;
};

bool looks_up_strings(const DatasetOptions& options, size_t input) {
  const auto lookup = input < options.inputs.size() ? options.inputs[input].lookup : nullptr;
  return lookup != nullptr && lookup->takes_text;
}

std::vector<std::string> all_strings(const std::vector<Feature>& record, const std::string& label) {
  std::vector<std::string> names;
  for (const Feature& feature : record) {
    if (feature.kind == Kind::kBytes && feature.name != label) names.push_back(feature.name);
  }
  return names;
}

// All features that are numbers but `label`, by name: records as rows of a table. None where
// anything else is among them.
std::vector<std::string> all_numbers(const std::vector<Feature>& record, const std::string& label) {
  std::vector<std::string> names;
  for (const Feature& feature : record) {
    if (feature.name == label) continue;
    if (feature.kind != Kind::kFloats && feature.kind != Kind::kIntegers) return {};
    names.push_back(feature.name);
  }
  return names;
}

// What to do about records whose features are not chosen by themselves: where strings are among
// them, those that are numbers by name.
std::string how_to_choose(const std::vector<Feature>& record, const std::vector<std::string>& y) {
  std::vector<std::string> strings;
  std::vector<std::string> numbers;
  for (const Feature& feature : record) {
    if (std::ranges::find(y, feature.name) != y.end()) continue;
    if (feature.kind == Kind::kBytes) {
      strings.push_back("\"" + feature.name + "\"");
    } else if (feature.kind != Kind::kNone) {
      numbers.push_back(feature.name);
    }
  }
  if (strings.empty()) return " Name one with --columns.";
  std::string columns;
  for (const std::string& name : numbers) columns += (columns.empty() ? "" : ",") + name;
  return " Strings of bytes, in " + list_names(strings) + ", are no numbers. Name " +
         (columns.empty() ? std::string("a feature with --columns.")
                          : "features of numbers with --columns " + columns + ".");
}

Choice choose(const std::vector<Feature>& record, const DatasetOptions& options,
              const std::string& origin, std::vector<std::string>& notes) {
  const HoldsArray holds = [&](const std::string& name) { return find(record, name) != nullptr; };
  const ArrayNames own = find_named(options, origin, holds);
  Choice choice;
  for (const std::string& name : own.features) choice.inputs.push_back({name});
  for (const std::string& name : own.targets) choice.outputs.push_back({name});
  std::vector<std::string> y = named_by("--label-column", options.label_column, record);
  if (y.empty() && options.outputs.size() < 2 && choice.outputs.empty()) {
    y = first_of({"y", "label", "labels", "target", "class", "image/class/label"}, record);
  }
  if (!y.empty() && options.outputs.size() < 2) choice.outputs = {y};
  const bool one = options.inputs.size() < 2;
  std::vector<std::string> x = named_by("--columns", options.columns, record);
  if (x.empty() && one && choice.inputs.empty()) {
    x = first_of({"x", "features", "inputs", "image", "data", "image/encoded"}, record);
    if (x.empty()) {
      const std::string label = y.empty() ? "" : y.front();
      x = looks_up_strings(options, 0) ? all_strings(record, label) : all_numbers(record, label);
      if (!x.empty()) notes.push_back(origin + ": samples are made of " + list_names(x) + ".");
    }
  }
  if (!x.empty() && one) choice.inputs = {x};
  if (has_own_labels(options)) choice.outputs.clear();
  if (!choice.inputs.empty()) return choice;
  throw Error(ErrorKind::kData,
              origin + ": expected " +
                  (one ? "a feature called x" : "a feature" + expected_arrays(options).substr(8)) +
                  ", received " + names_of(record) + "." + (one ? how_to_choose(record, y) : ""));
}

using Columns = std::vector<std::unique_ptr<Column>>;

// A feature that holds whole files of images rather than the elements of a sample.
bool is_image(codec::TfRecordReader& reader, const Feature& feature,
              const std::vector<int64_t>& sample_shape) {
  if (feature.kind != Kind::kBytes || feature.count != 1) return false;
  int64_t elements = 1;
  for (const int64_t extent : sample_shape) elements *= std::max<int64_t>(extent, 1);
  return feature.bytes != elements && codec::looks_like_image(*reader.open_string(feature));
}

// What an input or output takes of a record, for strings of bytes: its name, and how many elements
// a sample or a label has; 0: any number.
struct Taken {
  bool is_label = false;
  int64_t elements = 0;
};

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements = extent < 1 ? 0 : elements * extent;
  return elements;
}

Taken input_of(const DatasetOptions& options, size_t index) {
  const bool known = index < options.inputs.size();
  const std::vector<int64_t>& shape =
      known ? options.inputs[index].sample_shape : options.sample_shape;
  const bool any = options.window > 0 || (!known && shape.empty());
  return {.is_label = false, .elements = any ? 0 : elements_of(shape)};
}

Taken output_of(const DatasetOptions& options, size_t index) {
  if (options.window > 0) return {.is_label = true};
  if (index >= options.outputs.size()) {
    return {.is_label = true, .elements = options.target_elements};
  }
  return {.is_label = true, .elements = label_elements(options.outputs[index])};
}

// A string of bytes is an array where it has as many as the model takes; any other is text, or
// something else that holds no numbers.
void check_strings(const codec::TfRecordReader& reader, const std::vector<Part>& parts,
                   const Taken& taken) {
  int64_t elements = 0;
  for (const Part& part : parts) elements += part.elements;
  for (const Part& part : parts) {
    if (part.kind != Kind::kBytes) continue;
    const bool fits = taken.elements == 0 || elements == taken.elements;
    if (part.elements > 0 && fits) continue;
    const int64_t bytes = taken.elements - (elements - part.elements);
    throw Error(
        ErrorKind::kData,
        reader.where() + ", feature \"" + part.name + "\": expected numbers" +
            (taken.is_label ? "" : ", an encoded image") +
            (bytes > 0 ? fmt::format(" or one string of {} bytes, an element each", bytes) : "") +
            ", received " + (part.elements > 0 ? "one string of " : "") + part.described + ". " +
            (taken.is_label
                 ? "Write class numbers as a tf.train.Int64List, or name another feature with "
                   "--label-column."
                 : "Write numbers as a tf.train.FloatList or Int64List, or name other features "
                   "with --columns."));
  }
}

std::unique_ptr<Column> column_of(const std::vector<std::string>& names, const Taken& taken,
                                  const codec::TfRecordReader& reader,
                                  const std::vector<Feature>& record, const std::string& folder) {
  std::vector<Part> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) parts.push_back(part_of_record(*find(record, name)));
  check_strings(reader, parts, taken);
  return std::make_unique<ArrayColumn>(std::move(parts), folder);
}

Columns columns_of(const Choice& choice, codec::TfRecordReader& reader,
                   const std::vector<Feature>& record, const DatasetOptions& options) {
  const std::string folder = choose_spill_folder(options.spill_directory);
  Columns columns;
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    const std::vector<std::string>& names = choice.inputs[i];
    DatasetOptions own = options;
    if (i < options.inputs.size()) own.sample_shape = options.inputs[i].sample_shape;
    if (looks_up_strings(options, i)) {
      columns.push_back(std::make_unique<StringColumn>(
          names, std::make_shared<FieldIds>(options.inputs[i].lookup), folder));
    } else if (names.size() == 1 &&
               is_image(reader, *find(record, names.front()), own.sample_shape)) {
      columns.push_back(std::make_unique<ImageColumn>(names.front(), own, folder));
    } else {
      columns.push_back(column_of(names, input_of(options, i), reader, record, folder));
    }
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    const Taken taken = output_of(options, i);
    columns.push_back(column_of(choice.outputs[i], taken, reader, record, folder));
  }
  return columns;
}

}  // namespace

RecordSources open_records(const std::vector<RecordFile>& files, const DatasetOptions& options) {
  RecordSources sources;
  Choice choice;
  Columns columns;
  for (const RecordFile& open : files) {
    codec::TfRecordReader reader(open());
    while (reader.next()) {
      const std::vector<Feature> record = features_of(reader);
      if (columns.empty()) {
        choice = choose(record, options, options.data, sources.notes);
        columns = columns_of(choice, reader, record, options);
      }
      for (const auto& column : columns) column->add(reader, record);
    }
  }
  if (columns.empty()) {
    throw Error(ErrorKind::kData, options.data + ": expected records, received an empty file.");
  }
  sources.opening_peak = Bytes(codec::TfRecordReader::kResidentBytes);
  for (const auto& column : columns) sources.opening_peak += column->held_bytes();
  for (size_t i = 0; i < columns.size(); ++i) {
    sources.tables += columns[i]->tables();
    if (i < choice.inputs.size()) sources.were_strings.push_back(columns[i]->tables() > Bytes());
    (i < choice.inputs.size() ? sources.features : sources.labels)
        .push_back(columns[i]->finish(options.data));
    columns[i].reset();
  }
  return sources;
}

}  // namespace plimsoll::data
