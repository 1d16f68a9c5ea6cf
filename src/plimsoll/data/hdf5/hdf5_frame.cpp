#include "data/hdf5/hdf5_frame.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "data/hdf5/frame_rows.h"
#include "data/hdf5/hdf5_rows.h"
#include "data/hdf5/hdf5_table.h"
#include "data/rows/named_arrays.h"
#include "data/rows/row_conversion.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostNameBytes = 1 << 20;
constexpr Bytes kBytesOfColumn{384};  // its names and places while a frame is opened
constexpr std::string_view kAxis = "axis0";
constexpr std::string_view kValues = "_values";
constexpr std::string_view kTable = "table";

std::string below(const std::string& group, std::string_view name) {
  return group.empty() ? std::string(name) : group + "/" + std::string(name);
}

// The group that a dataset of this name lies in; none for another name.
std::optional<std::string> group_of(const std::string& path, std::string_view name) {
  if (path == name) return "";
  if (!path.ends_with("/" + std::string(name))) return std::nullopt;
  return path.substr(0, path.size() - name.size() - 1);
}

// An array of a frame's columns, or a table of records that holds them.
struct FrameBlock {
  std::string path;
  int64_t rows = 0;
};

struct Frame {
  std::string form;
  std::vector<FrameBlock> blocks;
  std::vector<FrameColumn> columns;  // of numbers, in order
  size_t left_out = 0;               // that are no numbers
  bool has_names = true;             // columns are called as in the frame
};

std::vector<std::string> read_names(const codec::Hdf5Reader& file, const std::string& path) {
  return as_data([&] {
    const std::unique_ptr<codec::Hdf5Dataset> data = file.open(path);
    const codec::Hdf5DatasetInfo& info = data->info();
    if (info.type.type_class != codec::Hdf5Type::Class::kNumber) {
      return data->read_strings(kMostNameBytes);
    }
    constexpr int64_t kMostNumbers = 1 << 16;  // columns that are called 0, 1, 2, …
    std::vector<int64_t> numbers(static_cast<size_t>(std::min(info.element_count, kMostNumbers)));
    data->read_as(DType::kInt64, 0, std::ssize(numbers), numbers.data());
    std::vector<std::string> names;
    names.reserve(numbers.size());
    for (const int64_t number : numbers) names.push_back(std::to_string(number));
    return names;
  });
}

// Columns as the frame orders them.
void sort_columns(const std::vector<std::string>& names, std::vector<FrameColumn>& columns) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  const auto order = [&](const FrameColumn& column) {
    const auto found = places.find(column.name);
    return found == places.end() ? names.size() : found->second;
  };
  std::ranges::stable_sort(columns, {}, order);
}

// The fixed format: a block for the columns of each type, or several.
Frame read_fixed(const codec::Hdf5Reader& file, const std::string& group) {
  Frame frame;
  const std::vector<std::string> names = read_names(file, below(group, kAxis));
  for (int i = 0;; ++i) {
    const std::string block = below(group, fmt::format("block{}", i));
    const std::string values = block + std::string(kValues);
    if (!as_data([&] { return file.is_dataset(values); })) break;
    const codec::Hdf5DatasetInfo info = as_data([&] { return file.open(values)->info(); });
    const bool numbers = info.type.type_class == codec::Hdf5Type::Class::kNumber;
    if (!numbers || info.shape.size() != 2) continue;
    const std::vector<std::string> items = read_names(file, block + "_items");
    if (std::ssize(items) != info.shape[1]) {
      throw Error(ErrorKind::kData,
                  fmt::format("{}/{}: expected {} columns as it has names, received {}.",
                              file.name(), values, items.size(), info.shape[1]));
    }
    check_width(file, frame.columns.size() + items.size());
    for (size_t at = 0; at < items.size(); ++at) {
      frame.columns.push_back({items[at], frame.blocks.size(), static_cast<int64_t>(at),
                               nearest_dtype(info.type.number)});
    }
    frame.blocks.push_back({values, info.shape[0]});
  }
  frame.left_out = names.size() - std::min(names.size(), frame.columns.size());
  sort_columns(names, frame.columns);
  return frame;
}

// The table format: records of the index and of columns, each by its name or those of a type
// together. Names of the latter are in pickles alone, which are programs and not read.
Frame read_table(const codec::Hdf5Reader& file, const std::string& path) {
  Frame frame;
  const TableFields fields = as_data([&] { return read_table_fields(file, path); });
  frame.blocks.push_back({path, fields.rows});
  for (size_t i = 0; i < fields.columns.size(); ++i) {
    const TableColumn& column = fields.columns[i];
    frame.columns.push_back({column.name, 0, static_cast<int64_t>(i), column.stored});
  }
  frame.left_out = fields.left_out;
  frame.has_names = fields.has_names;
  return frame;
}

// Datasets that are named as columns, each of one number a row.
Frame read_columns(const codec::Hdf5Reader& file, const std::vector<std::string>& names) {
  Frame frame;
  for (const std::string& name : names) {
    const codec::Hdf5DatasetInfo info = as_data([&] { return file.open(name)->info(); });
    const bool numbers = info.type.type_class == codec::Hdf5Type::Class::kNumber;
    const bool flat = info.shape.size() == 1 || (info.shape.size() == 2 && info.shape[1] == 1);
    if (!numbers || !flat) {
      throw Error(ErrorKind::kData, file.name() + "/" + name +
                                        ": expected one number a row, as each of several datasets "
                                        "in --columns has, received something else.");
    }
    frame.columns.push_back({name, frame.blocks.size(), 0, nearest_dtype(info.type.number)});
    frame.blocks.push_back({name, info.shape[0]});
  }
  return frame;
}

// Columns of one frame have as many rows.
void check_rows(const codec::Hdf5Reader& file, const Frame& frame) {
  if (frame.columns.empty()) return;
  const FrameColumn& first = frame.columns.front();
  const int64_t rows = frame.blocks[first.block].rows;
  for (const FrameColumn& column : frame.columns) {
    const int64_t received = frame.blocks[column.block].rows;
    if (received == rows) continue;
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected {} rows in column \"{}\" as in \"{}\", received {}. "
                            "Columns must match: write the file again.",
                            file.name(), rows, column.name, first.name, received));
  }
}

const FrameColumn& need(const Frame& frame, const std::string& name, const char* option) {
  const auto found = std::ranges::find(frame.columns, name, &FrameColumn::name);
  if (found != frame.columns.end()) return *found;
  std::vector<std::string> known;
  for (const FrameColumn& column : frame.columns) known.push_back(column.name);
  throw Error(ErrorKind::kConfig, std::string(option) +
                                      ": expected a column of numbers of the data frame, received "
                                      "\"" +
                                      name + "\"." + did_you_mean(name, known));
}

std::string usual_label(const Frame& frame) {
  for (const std::string_view usual : {"label", "target", "class", "y"}) {
    for (const FrameColumn& column : frame.columns) {
      const auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == b;
      };
      if (std::ranges::equal(column.name, usual, same)) return column.name;
    }
  }
  return frame.columns.back().name;
}

bool is_record_type(const codec::Hdf5Reader& file, const std::string& path) {
  return as_data([&] { return file.type(path).type_class == codec::Hdf5Type::Class::kOther; });
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// The label's name; "": labels are elsewhere, or there are none.
std::string choose_label(const codec::Hdf5Reader& file, const Frame& frame,
                         const DatasetOptions& options) {
  if (!options.label_column.empty()) {
    return need(frame, options.label_column, "--label-column").name;
  }
  if (has_own_labels(options) || frame.columns.size() < 2) return "";
  if (frame.has_names) return usual_label(frame);
  if (!options.labels_wanted) return "";
  std::vector<std::string> names;
  for (const FrameColumn& column : frame.columns) names.push_back(column.name);
  throw Error(ErrorKind::kConfig,
              file.name() +
                  ": expected --label-column, since the columns' names are kept as "
                  "pickled objects, which are not read; received " +
                  list_names(names) +
                  ". Name one of these, or write the names out with df.to_hdf(…, "
                  "format=\"table\", data_columns=True).");
}

// `label` is "" where labels are elsewhere, or there are none.
FrameSources open_frame(const codec::Hdf5Reader& file, const Frame& frame,
                        const DatasetOptions& options, const std::string& label) {
  check_rows(file, frame);
  FrameSources sources;
  sources.form = frame.form;
  if (frame.left_out > 0) {
    sources.notes.push_back(
        fmt::format("{}: left out {} columns that are no numbers.", file.name(), frame.left_out));
  }
  if (!frame.has_names) {
    sources.notes.push_back(
        file.name() + ": columns are named by block and position (" + frame.columns.front().name +
        "), since their names are kept as pickled objects, which are not read.");
  }
  std::vector<FrameColumn> columns;  // features, and the label after them
  for (const std::string& name : split_names(options.columns)) {
    columns.push_back(need(frame, name, "--columns"));
  }
  for (const FrameColumn& column : frame.columns) {
    if (options.columns.empty() && column.name != label) columns.push_back(column);
  }
  if (columns.empty()) {
    throw Error(ErrorKind::kData, file.name() +
                                      ": expected columns of features, received the label's "
                                      "alone. Name others with --columns.");
  }
  if (!label.empty()) columns.push_back(need(frame, label, "--label-column"));
  const OpenBlock open = [&](size_t block) -> std::shared_ptr<RowSource> {
    const std::string& path = frame.blocks[block].path;
    if (is_record_type(file, path)) return open_table_rows(file, path, options.spill_directory);
    return open_hdf5_rows(file, path, options.spill_directory);
  };
  const std::vector<std::shared_ptr<RowSource>> blocks =
      open_blocks(columns, open, options.spill_directory, sources.opening_peak);
  sources.opening_peak += kBytesOfColumn * static_cast<int64_t>(frame.columns.size());
  if (!label.empty()) {
    sources.labels = frame_label(blocks, columns.back());
    columns.pop_back();
  }
  sources.features = frame_features(blocks, std::move(columns));
  return sources;
}

}  // namespace

std::optional<std::string> find_hdf5_frame(const codec::Hdf5Reader& file) {
  std::optional<std::string> frame;
  for (const std::string& path : as_data([&] { return file.list_datasets(""); })) {
    std::optional<std::string> group = group_of(path, kAxis);
    if (!group) {
      group = group_of(path, kTable);
      if (!group || !is_record_type(file, path)) continue;
    }
    if (frame) {
      throw Error(ErrorKind::kData, file.name() + ": expected one data frame, received \"" +
                                        *frame + "\" and \"" + *group +
                                        "\". Write each to a file of its own.");
    }
    frame = std::move(group);
  }
  return frame;
}

FrameSources open_hdf5_frame(const codec::Hdf5Reader& file, const std::string& group,
                             const DatasetOptions& options) {
  const std::string table = below(group, kTable);
  const bool is_table = as_data([&] { return !file.is_dataset(below(group, kAxis)); });
  Frame frame = is_table ? read_table(file, table) : read_fixed(file, group);
  frame.form = "HDF5 (a data frame)";
  if (frame.columns.empty()) {
    throw Error(ErrorKind::kData,
                file.name() + ": expected a data frame with columns of numbers, received none.");
  }
  return open_frame(file, frame, options, choose_label(file, frame, options));
}

std::optional<FrameSources> open_hdf5_columns(const codec::Hdf5Reader& file,
                                              const DatasetOptions& options) {
  std::vector<std::string> names = split_names(options.columns);
  const auto is_there = [&](const std::string& name) {
    return as_data([&] { return file.is_dataset(name); });
  };
  if (names.size() < 2 || !std::ranges::all_of(names, is_there)) return std::nullopt;
  std::string label = options.label_column;
  for (const char* const usual : {"y", "label", "labels", "target", "class"}) {
    const bool wanted = label.empty() && !has_own_labels(options);
    if (wanted && is_there(usual)) label = usual;
  }
  if (!label.empty() && std::ranges::find(names, label) == names.end()) names.push_back(label);
  Frame frame = read_columns(file, names);
  frame.form = "HDF5 (columns)";
  return open_frame(file, frame, options, label);
}

}  // namespace plimsoll::data
