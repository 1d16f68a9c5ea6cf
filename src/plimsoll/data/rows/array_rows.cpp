#include "data/rows/array_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/shape.h"
#include "data/rows/read_ahead.h"
#include "data/rows/row_conversion.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kPieceBytes = 32 * 1024;
// Stacks of the threads that read at once: as much as four of them take.
constexpr Bytes kStagingBytes(4 * kPieceBytes);
// The array's reader, and its open file.
constexpr Bytes kReaderBytes = 1_KiB;
constexpr int64_t kKeptBytes = 256 * 1024;
constexpr int64_t kMostKeptBytes = 4 << 20;  // where that is asked for
constexpr double kMostlyCached = 0.5;
constexpr Bytes kAnyBytes(std::numeric_limits<int64_t>::max());

class ArrayRows final : public RowSource {
 public:
  explicit ArrayRows(const ArrayPlace& array)
      : file_(array.file),
        format_(array.format),
        data_offset_(array.data_offset),
        row_count_(array.shape.front()),
        row_shape_(array.shape.begin() + 1, array.shape.end()),
        row_elements_(fixed_shape(row_shape_).element_count(1)) {
    is_small_ = total_bytes() <= kKeptBytes;
    if (is_small_) ArrayRows::keep(true);
  }

  int64_t row_count() const override { return row_count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return nearest_dtype(format_); }
  const std::string& origin() const override { return file_->name(); }
  Bytes resident_bytes() const override { return is_small_ ? Bytes(total_bytes()) : kReaderBytes; }
  Bytes stack_bytes() const override { return is_small_ ? Bytes() : kStagingBytes; }
  bool can_read_as(DType dtype) const override { return codec::can_convert(format_, dtype); }
  bool reads_together() const override { return true; }

  void expect_order(bool random) override {
    if (is_small_) return;
    const File& file = *file_->file();
    const int64_t bytes = total_bytes();
    file.advise(random ? File::Access::kRandom : File::Access::kSequential);
    // Rows in random order cost a device access each until the file is in the page cache: a file
    // that will fit there easily is read ahead as a whole.
    asks_ahead_ = Bytes(4 * bytes) > memory_available_to_process();
    if (random && !asks_ahead_) file.prefetch(file_->offset() + data_offset_, bytes);
  }

  Bytes wants_ahead(int64_t ranges, int64_t rows) const override {
    const File& file = *file_->file();
    const bool stays = Bytes(4 * total_bytes()) <= memory_available_to_process();
    if (is_small_ || stays || file.cached_share() > kMostlyCached) return {};
    if (!ReadAhead::works_with(file)) return {};
    return ahead_shape(ranges, rows, kAnyBytes).bytes();
  }
  void grant_ahead(Bytes bytes, int64_t ranges, int64_t rows) override {
    const ReadAhead::Shape shape = ahead_shape(ranges, rows, bytes);
    ahead_.reset();
    if (shape.slots > 1) ahead_ = std::make_unique<ReadAhead>(*file_->file(), shape);
  }

  Bytes wants_kept() const override {
    return is_small_ || total_bytes() > kMostKeptBytes ? Bytes() : Bytes(total_bytes());
  }
  void keep(bool whole) override {
    if (!whole && !is_small_) kept_ = {};
    if (!whole || !kept_.empty()) return;
    kept_.resize(static_cast<size_t>(total_bytes()));
    file_->read_at(data_offset_, kept_);
  }

  void read_ahead(int64_t first, int64_t count) override {
    if (!kept_.empty()) return;
    const int64_t row_bytes = row_elements_ * format_.bytes;
    const int64_t begin = file_->offset() + data_offset_ + first * row_bytes;
    if (ahead_) {
      ahead_->ask(begin, begin + count * row_bytes);
    } else if (asks_ahead_) {
      file_->file()->prefetch(begin, count * row_bytes);
    }
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    PLIMSOLL_CHECK(first >= 0 && count >= 0 && first <= row_count_ && count <= row_count_ - first,
                   "rows outside of " + origin());
    const int64_t begin = first * row_elements_;
    const int64_t elements = count * row_elements_;
    const RowConversion conversion{format_, dtype, row_elements_, origin()};
    if (!kept_.empty()) {
      conversion.run(begin, elements, kept_.data() + begin * format_.bytes, destination);
      return;
    }
    auto* out = static_cast<std::byte*>(destination);
    for (int64_t done = 0; done < elements;) {
      const int64_t now = read_run(conversion, begin + done, elements - done, out);
      out += now * element_bytes(dtype).count();
      done += now;
    }
  }

 private:
  int64_t total_bytes() const { return row_count_ * row_elements_ * format_.bytes; }
  ReadAhead::Shape ahead_shape(int64_t ranges, int64_t rows, Bytes most) const {
    return ReadAhead::shape_for(ranges, rows * row_elements_ * format_.bytes, most);
  }

  // The first of `count` elements from element `begin` on, as many as lie together; at least one.
  int64_t read_run(const RowConversion& conversion, int64_t begin, int64_t count, std::byte* out) {
    const int64_t offset = data_offset_ + begin * format_.bytes;
    if (ahead_) {
      const int64_t at = file_->offset() + offset;
      ReadAhead::Lease lease = ahead_->take(at, at + count * format_.bytes);
      const int64_t ready = std::ssize(lease.bytes()) / format_.bytes;
      if (ready > 0) {
        lease.use(ready * format_.bytes);
        conversion.run(begin, ready, lease.bytes().data(), out);
        return ready;
      }
    }
    const int64_t piece = std::min(kPieceBytes / format_.bytes, count);
    if (conversion.is_copy()) {
      const int64_t now = ahead_ ? piece : count;
      file_->read_at(offset, {out, static_cast<size_t>(now * format_.bytes)});
      return now;
    }
    std::array<std::byte, kPieceBytes> staging;
    file_->read_at(offset, {staging.data(), static_cast<size_t>(piece * format_.bytes)});
    conversion.run(begin, piece, staging.data(), out);
    return piece;
  }

  std::shared_ptr<const codec::FileReader> file_;
  codec::NumberFormat format_;
  int64_t data_offset_;
  int64_t row_count_;
  std::vector<int64_t> row_shape_;
  int64_t row_elements_;
  bool is_small_ = false;
  std::vector<std::byte> kept_;  // all of it, or nothing
  bool asks_ahead_ = false;      // the file does not stay in the page cache
  std::unique_ptr<ReadAhead> ahead_{};
};

// Number of the column that stands at position `index` of a row in C order, in Fortran order.
int64_t fortran_column(int64_t index, std::span<const int64_t> row_shape) {
  int64_t column = 0;
  int64_t stride = 1;
  for (int64_t extent : row_shape) stride *= extent;
  int64_t fortran_stride = 1;
  for (int64_t extent : row_shape) {
    stride /= extent;
    column += index / stride * fortran_stride;
    index %= stride;
    fortran_stride *= extent;
  }
  return column;
}

void check_shape(const ArrayPlace& array) {
  const bool empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  if (!array.shape.empty() && !empty) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected rows of numbers, received an array of shape {}.",
                          array.file->name(), to_string(fixed_shape(array.shape))));
}

// What is transposed from Fortran order at a time.
struct Tile {
  int64_t rows = 0;
  int64_t columns = 0;
};

Tile tile_of(const ArrayPlace& array) {
  constexpr int64_t kTileBytes = 4 << 20;
  constexpr int64_t kLeastRows = 1024;  // shorter runs would cost a call each
  const int64_t rows = array.shape.front();
  const int64_t columns = fixed_shape(std::span(array.shape).subspan(1)).element_count(1);
  const int64_t element = array.format.bytes;
  Tile tile;
  tile.rows = std::clamp(kTileBytes / (columns * element), std::min(kLeastRows, rows), rows);
  tile.columns = std::clamp<int64_t>(kTileBytes / (tile.rows * element), 1, columns);
  return tile;
}

}  // namespace

Bytes c_order_bytes(const ArrayPlace& array) {
  const Tile tile = tile_of(array);
  return Bytes(tile.rows * (tile.columns + 1) * array.format.bytes);
}

ArrayPlace to_c_order(const ArrayPlace& array, const std::string& spill_directory) {
  check_shape(array);
  const int64_t rows = array.shape.front();
  const std::span<const int64_t> row_shape = std::span(array.shape).subspan(1);
  const int64_t columns = fixed_shape(row_shape).element_count(1);
  const int64_t element = array.format.bytes;
  const Tile shape = tile_of(array);
  const int64_t tile_rows = shape.rows;
  const int64_t tile_columns = shape.columns;
  std::vector<std::byte> run(static_cast<size_t>(tile_rows * element));
  std::vector<std::byte> tile(static_cast<size_t>(tile_rows * tile_columns * element));
  auto file = std::make_shared<File>(File::unlinked(spill_directory));
  // Fills `tile` with rows from `first` on and columns from `left` on, and writes it.
  const auto transpose = [&](int64_t first, int64_t left) {
    const int64_t height = std::min(tile_rows, rows - first);
    const int64_t width = std::min(tile_columns, columns - left);
    for (int64_t j = 0; j < width; ++j) {
      const int64_t column = fortran_column(left + j, row_shape);
      const std::span<std::byte> part = std::span(run).first(static_cast<size_t>(height * element));
      array.file->read_at(array.data_offset + (column * rows + first) * element, part);
      for (int64_t i = 0; i < height; ++i) {
        std::memcpy(tile.data() + (i * width + j) * element, run.data() + i * element,
                    static_cast<size_t>(element));
      }
    }
    const int64_t together = width == columns ? height : 1;  // rows that lie one after another
    const auto bytes = static_cast<size_t>(together * width * element);
    for (int64_t i = 0; i < height; i += together) {
      file->write_at(((first + i) * columns + left) * element,
                     std::span(tile).subspan(static_cast<size_t>(i * width * element), bytes));
    }
  };
  for (int64_t first = 0; first < rows; first += tile_rows) {
    for (int64_t left = 0; left < columns; left += tile_columns) transpose(first, left);
  }
  ArrayPlace result = array;
  result.fortran_order = false;
  result.data_offset = 0;
  result.file = std::make_shared<const codec::FileReader>(
      std::move(file), 0, rows * columns * element, array.file->name());
  return result;
}

std::unique_ptr<RowSource> make_array_rows(const ArrayPlace& array) {
  check_shape(array);
  PLIMSOLL_CHECK(!array.fortran_order, "an array that is not in C order");
  return std::make_unique<ArrayRows>(array);
}

}  // namespace plimsoll::data
