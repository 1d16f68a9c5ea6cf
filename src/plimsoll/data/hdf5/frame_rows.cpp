#include "data/hdf5/frame_rows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "codec/number_format.h"
#include "data/rows/array_rows.h"

namespace plimsoll::data {
namespace {

using Blocks = std::vector<std::shared_ptr<RowSource>>;

constexpr int64_t kStagingBytes = 128 << 10;
// Arrays that are read where they lie; as many types as a frame has of numbers, but for odd ones.
constexpr size_t kMostOpen = 8;

int64_t width_of(const RowSource& block) {
  return block.row_shape().empty() ? 1 : block.row_shape().front();
}

class FrameRows final : public RowSource {
 public:
  FrameRows(std::vector<std::shared_ptr<RowSource>> blocks, std::vector<FrameColumn> columns,
            bool is_label, bool counts_blocks)
      : blocks_(std::move(blocks)), columns_(std::move(columns)), counts_blocks_(counts_blocks) {
    int64_t widest = std::ssize(columns_);
    for (const FrameColumn& column : columns_) {
      widest = std::max(widest, width_of(*blocks_[column.block]));
    }
    staged_rows_ = std::max<int64_t>(kStagingBytes / (8 * widest), 1);
    block_.resize(static_cast<size_t>(staged_rows_ * widest));
    values_.resize(static_cast<size_t>(staged_rows_ * std::ssize(columns_)));
    if (!is_label) row_shape_ = {std::ssize(columns_)};
    stored_ = is_label ? columns_.front().stored : DType::kFloat32;
  }

  int64_t row_count() const override { return blocks_[columns_.front().block]->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return stored_; }
  const std::string& origin() const override { return blocks_[columns_.front().block]->origin(); }
  Bytes resident_bytes() const override {
    Bytes bytes = columns_bytes() +
                  Bytes(static_cast<int64_t>((block_.size() + values_.size()) * sizeof(double)));
    if (!counts_blocks_) return bytes;
    for (const auto& block : blocks_) bytes += block->resident_bytes();
    return bytes;
  }
  Bytes opened_bytes() const override {
    Bytes bytes = columns_bytes();
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
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: row {}: expected a whole number that {} can hold, received {:f}.",
                      origin(), first + done + bad / width, to_string(dtype),
                      values_[static_cast<size_t>(bad)]));
    }
  }

 private:
  Bytes columns_bytes() const {
    size_t bytes = columns_.capacity() * sizeof(FrameColumn);
    for (const FrameColumn& column : columns_) bytes += column.name.capacity() + 1;
    return Bytes(static_cast<int64_t>(bytes));
  }
  void gather(int64_t first, int64_t count) {
    const auto width = static_cast<size_t>(columns_.size());
    for (size_t block = 0; block < blocks_.size(); ++block) {
      const auto is_there = [&](const FrameColumn& column) { return column.block == block; };
      if (std::ranges::none_of(columns_, is_there)) continue;
      const auto stride = static_cast<size_t>(width_of(*blocks_[block]));
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

// Copies columns one after another, as an array in Fortran order.
class ColumnCopy {
 public:
  ColumnCopy(std::string origin, const std::string& folder)
      : origin_(std::move(origin)), file_(std::make_shared<File>(File::unlinked(folder))) {}

  // Takes the columns of a block to `places` in the array.
  void take(RowSource& block, std::span<const FrameColumn* const> columns,
            std::span<const size_t> places) {
    rows_ = block.row_count();
    const int64_t width = width_of(block);
    const int64_t most = std::max<int64_t>(kStagingBytes / (8 * width), 1);
    block_.resize(static_cast<size_t>(most * width));
    column_.resize(static_cast<size_t>(most));
    for (int64_t first = 0; first < rows_; first += most) {
      const int64_t now = std::min(most, rows_ - first);
      block.read(first, now, DType::kFloat64, block_.data());
      for (size_t c = 0; c < columns.size(); ++c) {
        for (int64_t row = 0; row < now; ++row) {
          column_[static_cast<size_t>(row)] =
              block_[static_cast<size_t>(row * width + columns[c]->place)];
        }
        const int64_t at = (static_cast<int64_t>(places[c]) * rows_ + first) * 8;
        file_->write_at(at, std::as_bytes(std::span(column_).first(static_cast<size_t>(now))));
      }
    }
    peak_ = max(peak_, block.resident_bytes() +
                           Bytes(static_cast<int64_t>((block_.size() + column_.size()) * 8)));
  }

  std::shared_ptr<RowSource> finish(size_t columns, const std::string& folder) {
    block_ = {};
    column_ = {};
    const auto width = static_cast<int64_t>(columns);
    ArrayPlace place;
    place.file =
        std::make_shared<const codec::FileReader>(std::move(file_), 0, rows_ * width * 8, origin_);
    place.format = codec::native_format(DType::kFloat64);
    place.shape = {rows_, width};
    place.fortran_order = true;
    peak_ = max(peak_, c_order_bytes(place));
    return make_array_rows(to_c_order(place, folder));
  }

  Bytes peak() const { return peak_; }

 private:
  std::string origin_;
  std::shared_ptr<File> file_;
  int64_t rows_ = 0;
  Bytes peak_;
  std::vector<double> block_;
  std::vector<double> column_;
};

Blocks copy_blocks(std::vector<FrameColumn>& columns, std::span<const size_t> blocks,
                   const OpenBlock& open, const std::string& spill_directory, Bytes& peak) {
  const std::string folder = choose_spill_folder(spill_directory);
  std::vector<std::vector<size_t>> places(blocks.size());  // of columns, by block
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto found = std::ranges::lower_bound(blocks, columns[i].block);
    places[static_cast<size_t>(found - blocks.begin())].push_back(i);
  }
  std::optional<ColumnCopy> copy;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::shared_ptr<RowSource> block = open(blocks[i]);
    if (!copy) copy.emplace(block->origin(), folder);
    std::vector<const FrameColumn*> taken;
    for (const size_t place : places[i]) taken.push_back(&columns[place]);
    copy->take(*block, taken, places[i]);
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].block = 0;
    columns[i].place = static_cast<int64_t>(i);
  }
  Blocks one = {copy->finish(columns.size(), folder)};
  peak = copy->peak();
  return one;
}

}  // namespace

std::unique_ptr<RowSource> frame_label(Blocks blocks, const FrameColumn& column) {
  return std::make_unique<FrameRows>(std::move(blocks), std::vector<FrameColumn>{column}, true,
                                     false);
}

std::unique_ptr<RowSource> frame_features(Blocks blocks, std::vector<FrameColumn> columns) {
  return std::make_unique<FrameRows>(std::move(blocks), std::move(columns), false, true);
}

Blocks open_blocks(std::vector<FrameColumn>& columns, const OpenBlock& open,
                   const std::string& spill_directory, Bytes& peak) {
  std::vector<size_t> needed;
  needed.reserve(columns.size());
  for (const FrameColumn& column : columns) needed.push_back(column.block);
  std::ranges::sort(needed);
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  if (needed.size() > kMostOpen) return copy_blocks(columns, needed, open, spill_directory, peak);
  Blocks blocks;
  for (const size_t block : needed) blocks.push_back(open(block));
  for (FrameColumn& column : columns) {
    const auto found = std::ranges::lower_bound(needed, column.block);
    column.block = static_cast<size_t>(found - needed.begin());
  }
  return blocks;
}

}  // namespace plimsoll::data
