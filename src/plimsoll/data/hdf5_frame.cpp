#include "data/hdf5_frame.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "codec/number_format.h"
#include "data/hdf5_rows.h"
#include "data/named_arrays.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostNameBytes = 1 << 20;
constexpr int64_t kStagingBytes = 128 << 10;
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

// Where a column's numbers are.
struct FrameColumn {
  std::string name;
  size_t block = 0;
  int64_t place = 0;  // in a row of it
};

struct Frame {
  std::vector<std::string> names;    // of all columns, in order
  std::vector<std::string> blocks;   // paths of their values, of numbers
  std::vector<FrameColumn> columns;  // of numbers, in order
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
    for (const int64_t number : numbers) names.push_back(std::to_string(number));
    return names;
  });
}

Frame read_frame(const codec::Hdf5Reader& file, const std::string& group) {
  Frame frame;
  frame.names = read_names(file, below(group, kAxis));
  for (int i = 0;; ++i) {
    const std::string block = below(group, "block" + std::to_string(i));
    const std::string values = block + std::string(kValues);
    if (!as_data([&] { return file.is_dataset(values); })) break;
    const codec::Hdf5DatasetInfo info = as_data([&] { return file.open(values)->info(); });
    const bool numbers = info.type.type_class == codec::Hdf5Type::Class::kNumber;
    if (!numbers || info.shape.size() != 2) continue;
    const std::vector<std::string> items = read_names(file, block + "_items");
    if (std::ssize(items) != info.shape[1]) {
      throw Error(ErrorKind::kData,
                  file.name() + "/" + values + ": expected " + std::to_string(items.size()) +
                      " columns as it has names, received " + std::to_string(info.shape[1]) + ".");
    }
    for (size_t at = 0; at < items.size(); ++at) {
      frame.columns.push_back({items[at], frame.blocks.size(), static_cast<int64_t>(at)});
    }
    frame.blocks.push_back(values);
  }
  const auto order = [&](const FrameColumn& column) {
    return std::ranges::find(frame.names, column.name) - frame.names.begin();
  };
  std::ranges::stable_sort(frame.columns, {}, order);
  return frame;
}

// Some columns of a frame's blocks, side by side.
class FrameRows final : public RowSource {
 public:
  FrameRows(std::vector<std::shared_ptr<RowSource>> blocks, std::vector<FrameColumn> columns,
            bool is_label, bool counts_blocks)
      : blocks_(std::move(blocks)), columns_(std::move(columns)), counts_blocks_(counts_blocks) {
    int64_t widest = std::ssize(columns_);
    for (const FrameColumn& column : columns_) {
      widest = std::max(widest, blocks_[column.block]->row_shape().front());
    }
    staged_rows_ = std::max<int64_t>(kStagingBytes / (8 * widest), 1);
    block_.resize(static_cast<size_t>(staged_rows_ * widest));
    values_.resize(static_cast<size_t>(staged_rows_ * std::ssize(columns_)));
    if (!is_label) row_shape_ = {std::ssize(columns_)};
    stored_ = is_label ? blocks_[columns_.front().block]->stored_dtype() : DType::kFloat32;
  }

  int64_t row_count() const override { return blocks_[columns_.front().block]->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return stored_; }
  const std::string& origin() const override { return blocks_[columns_.front().block]->origin(); }
  Bytes resident_bytes() const override {
    Bytes bytes(static_cast<int64_t>((block_.size() + values_.size()) * sizeof(double)));
    if (!counts_blocks_) return bytes;
    for (const auto& block : blocks_) bytes += block->resident_bytes();
    return bytes;
  }
  Bytes opened_bytes() const override {
    Bytes bytes;
    if (!counts_blocks_) return bytes;
    for (const auto& block : blocks_) bytes += block->opened_bytes();
    return bytes;
  }
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kFloat64), dtype);
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    const int64_t width = std::ssize(columns_);
    const codec::NumberFormat format = codec::native_format(DType::kFloat64);
    auto* out = static_cast<std::byte*>(destination);
    for (int64_t done = 0; done < count; done += staged_rows_) {
      const int64_t now = std::min(staged_rows_, count - done);
      gather(first + done, now);
      const int64_t bad =
          codec::convert_numbers(format, reinterpret_cast<const std::byte*>(values_.data()), dtype,
                                 out + done * width * element_bytes(dtype).count(), now * width);
      if (bad < 0) continue;
      throw Error(ErrorKind::kData, origin() + ": row " +
                                        std::to_string(first + done + bad / width) +
                                        ": expected a whole number that " +
                                        std::string(to_string(dtype)) + " can hold, received " +
                                        std::to_string(values_[static_cast<size_t>(bad)]) + ".");
    }
  }

 private:
  void gather(int64_t first, int64_t count) {
    const auto width = static_cast<size_t>(columns_.size());
    for (size_t block = 0; block < blocks_.size(); ++block) {
      const auto is_there = [&](const FrameColumn& column) { return column.block == block; };
      if (std::ranges::none_of(columns_, is_there)) continue;
      const auto stride = static_cast<size_t>(blocks_[block]->row_shape().front());
      blocks_[block]->read(first, count, DType::kFloat64, block_.data());
      for (size_t c = 0; c < width; ++c) {
        if (columns_[c].block != block) continue;
        const auto place = static_cast<size_t>(columns_[c].place);
        for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
          values_[row * width + c] = block_[row * stride + place];
        }
      }
    }
  }

  std::vector<std::shared_ptr<RowSource>> blocks_;
  std::vector<FrameColumn> columns_;
  bool counts_blocks_;
  std::vector<int64_t> row_shape_{};
  DType stored_ = DType::kFloat32;
  int64_t staged_rows_ = 0;
  std::vector<double> block_;
  std::vector<double> values_;
};

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
  return as_data(
      [&] { return file.open(path)->info().type.type_class == codec::Hdf5Type::Class::kOther; });
}

}  // namespace

std::optional<std::string> find_hdf5_frame(const codec::Hdf5Reader& file) {
  std::vector<std::string> frames;
  std::vector<std::string> tables;
  for (const std::string& path : as_data([&] { return file.list_datasets(""); })) {
    if (const auto group = group_of(path, kAxis)) frames.push_back(*group);
    const auto group = group_of(path, kTable);
    if (group && is_record_type(file, path)) tables.push_back(*group);
  }
  if (frames.size() > 1) {
    throw Error(ErrorKind::kData, file.name() + ": expected one data frame, received " +
                                      std::to_string(frames.size()) +
                                      ". Write each to a file of its own.");
  }
  if (!frames.empty()) return frames.front();
  if (tables.empty()) return std::nullopt;
  throw Error(ErrorKind::kData,
              file.name() + "/" + tables.front() +
                  ": expected a data frame in pandas' fixed format, received one "
                  "in its table format. Write it with df.to_hdf(path, key=\"df\", "
                  "format=\"fixed\"), or as a CSV file.");
}

FrameSources open_hdf5_frame(const codec::Hdf5Reader& file, const std::string& group,
                             const DatasetOptions& options) {
  const Frame frame = read_frame(file, group);
  if (frame.columns.empty()) {
    throw Error(ErrorKind::kData,
                file.name() + ": expected a data frame with columns of numbers, received none.");
  }
  FrameSources sources;
  if (frame.columns.size() < frame.names.size()) {
    sources.notes.push_back(file.name() + ": left out " +
                            std::to_string(frame.names.size() - frame.columns.size()) +
                            " columns that are no numbers.");
  }
  std::string label = options.label_column;
  if (!label.empty()) {
    need(frame, label, "--label-column");
  } else if (!has_own_labels(options) && frame.columns.size() > 1) {
    label = usual_label(frame);
  }
  std::vector<FrameColumn> features;
  for (size_t begin = 0; !options.columns.empty() && begin <= options.columns.size();) {
    const size_t end = std::min(options.columns.find(',', begin), options.columns.size());
    features.push_back(need(frame, options.columns.substr(begin, end - begin), "--columns"));
    begin = end + 1;
  }
  for (const FrameColumn& column : frame.columns) {
    if (options.columns.empty() && column.name != label) features.push_back(column);
  }
  std::vector<std::shared_ptr<RowSource>> blocks;
  for (const std::string& path : frame.blocks) {
    blocks.push_back(open_hdf5_rows(file, path, options.spill_directory));
  }
  if (!label.empty()) {
    sources.labels = std::make_unique<FrameRows>(
        blocks, std::vector<FrameColumn>{need(frame, label, "--label-column")}, true, false);
  }
  sources.features =
      std::make_unique<FrameRows>(std::move(blocks), std::move(features), false, true);
  return sources;
}

}  // namespace plimsoll::data
