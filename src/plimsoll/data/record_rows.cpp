#include "data/record_rows.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "codec/tf_record.h"
#include "data/array_rows.h"
#include "data/named_arrays.h"

namespace plimsoll::data {
namespace {

using Feature = codec::ExampleFeature;
using Kind = Feature::Kind;

std::string kind_text(const Feature& feature) {
  switch (feature.kind) {
    case Kind::kFloats:
      return std::to_string(feature.floats.size()) + " floats";
    case Kind::kIntegers:
      return std::to_string(feature.integers.size()) + " integers";
    case Kind::kBytes:
      return feature.bytes.size() == 1 ? std::to_string(feature.bytes.front().size()) + " bytes"
                                       : std::to_string(feature.bytes.size()) + " strings of bytes";
    case Kind::kNone:
      break;
  }
  return "nothing";
}

// One feature of all records, as an array in a file.
class Column {
 public:
  Column(std::string name, const Feature& first, const std::string& folder)
      : name_(std::move(name)),
        kind_(first.kind),
        file_(std::make_shared<File>(File::unlinked(folder))) {
    place_.format = codec::native_format(kind_ == Kind::kFloats     ? DType::kFloat32
                                         : kind_ == Kind::kIntegers ? DType::kInt64
                                                                    : DType::kUInt8);
    expected_ = kind_text(first);
    length_ = static_cast<int64_t>(bytes_of(first).size());
  }

  void add(const std::vector<Feature>& record, const std::string& where) {
    const auto found = std::find_if(record.begin(), record.end(),
                                    [&](const Feature& feature) { return feature.name == name_; });
    const std::string received = found == record.end() ? "none" : kind_text(*found);
    if (received != expected_) {
      throw Error(ErrorKind::kData, where + ", feature \"" + name_ + "\": expected " + expected_ +
                                        " as in the first record, received " + received + ".");
    }
    const std::span<const std::byte> bytes = bytes_of(*found);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    ++rows_;
    constexpr size_t kWriteBytes = 128 << 10;
    if (buffer_.size() >= kWriteBytes) flush();
  }

  std::unique_ptr<RowSource> finish(const std::string& origin) {
    flush();
    const int64_t elements = length_ / place_.format.bytes;
    place_.shape = {rows_};
    if (elements != 1) place_.shape.push_back(elements);
    place_.file = std::make_shared<const codec::FileReader>(std::move(file_), 0, written_, origin);
    return make_array_rows(place_);
  }

 private:
  static std::span<const std::byte> bytes_of(const Feature& feature) {
    if (feature.kind == Kind::kFloats) return std::as_bytes(std::span(feature.floats));
    if (feature.kind == Kind::kIntegers) return std::as_bytes(std::span(feature.integers));
    return feature.bytes.size() == 1 ? feature.bytes.front() : std::span<const std::byte>();
  }
  void flush() {
    file_->write_at(written_, buffer_);
    written_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
  }

  std::string name_;
  Kind kind_;
  std::string expected_;
  int64_t length_ = 0;
  std::shared_ptr<File> file_;
  ArrayPlace place_;
  int64_t rows_ = 0;
  int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

// The feature that the user named, or the first of the usual names; null where there is none.
const Feature* choose(const std::vector<Feature>& features, const std::string& wanted,
                      const char* option, std::initializer_list<std::string_view> usual) {
  std::vector<std::string> names;
  for (const Feature& feature : features) {
    if (feature.name == wanted) return &feature;
    names.push_back(feature.name);
  }
  if (!wanted.empty()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw Error(ErrorKind::kConfig, std::string(option) + ": expected a feature of the records (" +
                                        known + "), received \"" + wanted + "\"." +
                                        did_you_mean(wanted, names));
  }
  for (const std::string_view name : usual) {
    for (const Feature& feature : features) {
      if (feature.name == name) return &feature;
    }
  }
  return nullptr;
}

ArrayNames names_in(const std::vector<Feature>& record, const DatasetOptions& options,
                    const std::string& origin) {
  const HoldsArray holds = [&](const std::string& name) {
    return std::ranges::find(record, name, &Feature::name) != record.end();
  };
  ArrayNames names = find_named(options, origin, holds);
  const Feature* x =
      choose(record, options.columns, "--columns", {"x", "features", "inputs", "image", "data"});
  const Feature* y = choose(record, options.label_column, "--label-column",
                            {"y", "label", "labels", "target", "class"});
  const bool one = options.inputs.size() < 2;
  if (x != nullptr && one && (names.features.empty() || !options.columns.empty())) {
    names.features = {x->name};
  }
  if (y != nullptr && options.outputs.size() < 2 &&
      (names.targets.empty() || !options.label_column.empty())) {
    names.targets = {y->name};
  }
  if (has_own_labels(options)) names.targets.clear();
  if (!names.features.empty()) return names;
  std::string known;
  for (const Feature& feature : record) known += (known.empty() ? "" : ", ") + feature.name;
  throw Error(ErrorKind::kData,
              origin + ": expected " +
                  (one ? "a feature called x" : "a feature" + expected_arrays(options).substr(8)) +
                  ", received " + (known.empty() ? "none" : known) +
                  (one ? ". Name one with --columns." : "."));
}

}  // namespace

RecordSources open_records(const std::shared_ptr<const codec::FileReader>& file,
                           const DatasetOptions& options) {
  codec::TfRecordReader reader(file);
  const auto where = [&] { return file->name() + ": record " + std::to_string(reader.index()); };
  if (!reader.next()) {
    throw Error(ErrorKind::kData, file->name() + ": expected records, received an empty file.");
  }
  std::vector<Feature> record = codec::parse_example(reader.record(), where());
  const ArrayNames names = names_in(record, options, file->name());
  const std::string folder = choose_spill_folder(options.spill_directory);
  std::vector<Column> columns;
  for (const std::vector<std::string>* group : {&names.features, &names.targets}) {
    for (const std::string& name : *group) {
      columns.emplace_back(name, *std::ranges::find(record, name, &Feature::name), folder);
    }
  }
  do {
    record = codec::parse_example(reader.record(), where());
    for (Column& column : columns) column.add(record, where());
  } while (reader.next());
  RecordSources sources;
  for (size_t i = 0; i < columns.size(); ++i) {
    (i < names.features.size() ? sources.features : sources.labels)
        .push_back(columns[i].finish(file->name()));
  }
  return sources;
}

}  // namespace plimsoll::data
