#include "data/lookup/looked_up_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/number_format.h"
#include "data/rows/array_rows.h"

namespace plimsoll::data {
namespace {

constexpr size_t kWritten = size_t{16} << 10;  // numbers at a time
constexpr size_t kPiece = size_t{4} << 10;     // tokens that are read at a time

using Encoding = InputLookup::Encoding;

bool is_ids(const InputLookup& lookup) { return lookup.encoding == Encoding::kIds; }

bool counts(const InputLookup& lookup) {
  return lookup.encoding == Encoding::kCount || lookup.encoding == Encoding::kTfIdf;
}

// Rows of several rows: one for each value of a sample.
bool is_apart(const InputLookup& lookup) {
  return lookup.depth > 0 && lookup.output_shape.size() > 1;
}

// Marks one id in a row of `depth` numbers; one beyond it is no class.
void mark_id(const InputLookup& lookup, int64_t id, float* row) {
  if (id < 0 || id >= lookup.depth) return;
  if (counts(lookup)) {
    row[id] += 1;
  } else {
    row[id] = 1;
  }
}

// What words weigh, where they do.
void weigh(const InputLookup& lookup, float* row) {
  for (size_t i = 0; i < lookup.weights.size(); ++i) row[i] *= lookup.weights[i];
}

// Rows of counts, or of what occurs at all, of token numbers in a file.
class TokenCounts final : public RowSource {
 public:
  TokenCounts(std::shared_ptr<FieldIds> ids, std::shared_ptr<const File> tokens,
              std::shared_ptr<const File> ends, int64_t rows, std::string origin)
      : ids_(std::move(ids)),
        tokens_(std::move(tokens)),
        ends_(std::move(ends)),
        rows_(rows),
        shape_(ids_->lookup().output_shape),
        origin_(std::move(origin)) {}

  int64_t row_count() const override { return rows_; }
  const std::vector<int64_t>& row_shape() const override { return shape_; }
  DType stored_dtype() const override { return DType::kFloat32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(kPiece * sizeof(int32_t)); }
  bool can_read_as(DType dtype) const override { return dtype == DType::kFloat32; }
  bool reads_together() const override { return true; }
  void expect_order(bool random) override {
    tokens_->advise(random ? File::Access::kRandom : File::Access::kSequential);
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    PLIMSOLL_CHECK(dtype == DType::kFloat32, "counts are float32");
    auto* row = static_cast<float*>(destination);
    const int64_t width = fixed_shape(shape_).element_count(1);
    for (int64_t i = first; i < first + count; ++i, row += width) {
      std::fill_n(row, width, 0.0F);
      std::array<int64_t, 2> range{};  // the end of the sample before, and its own
      const auto bytes = std::as_writable_bytes(std::span(range));
      if (i == 0) {
        ends_->read_at(0, bytes.subspan(sizeof(int64_t)));
      } else {
        ends_->read_at((i - 1) * static_cast<int64_t>(sizeof(int64_t)), bytes);
      }
      count_tokens(range[0], range[1], row);
      weigh(ids_->lookup(), row);
    }
  }

 private:
  void count_tokens(int64_t begin, int64_t end, float* row) const {
    const int64_t step = is_apart(ids_->lookup()) ? ids_->lookup().depth : 0;
    std::array<int32_t, kPiece> piece;
    while (begin < end) {
      const auto now = std::min<int64_t>(end - begin, kPiece);
      const std::span<int32_t> part = std::span(piece).first(static_cast<size_t>(now));
      tokens_->read_at(begin * static_cast<int64_t>(sizeof(int32_t)), std::as_writable_bytes(part));
      for (const int32_t id : part) {
        mark_id(ids_->lookup(), id, row);
        row += step;
      }
      begin += now;
    }
  }

  std::shared_ptr<FieldIds> ids_;
  std::shared_ptr<const File> tokens_;
  std::shared_ptr<const File> ends_;
  int64_t rows_;
  std::vector<int64_t> shape_;
  std::string origin_;
};

// Whole numbers of another source, looked up as they are read.
class LookedUpRows final : public RowSource {
 public:
  LookedUpRows(std::shared_ptr<RowSource> source, std::shared_ptr<const FieldIds> ids)
      : source_(std::move(source)),
        ids_(std::move(ids)),
        shape_(ids_->lookup().output_shape),
        width_(fixed_shape(shape_).element_count(1)),
        values_(static_cast<size_t>(ids_->lookup().input_elements())) {}

  int64_t row_count() const override { return source_->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return shape_; }
  DType stored_dtype() const override {
    return is_ids(ids_->lookup()) ? DType::kInt64 : DType::kFloat32;
  }
  const std::string& origin() const override { return source_->origin(); }
  std::string name_of(int64_t row) const override { return source_->name_of(row); }
  Bytes resident_bytes() const override { return source_->resident_bytes() + own_bytes(); }
  Bytes opened_bytes() const override { return source_->opened_bytes() + own_bytes(); }
  Bytes stack_bytes() const override { return source_->stack_bytes(); }
  bool can_read_as(DType dtype) const override { return dtype == stored_dtype(); }
  void expect_order(bool random) override { source_->expect_order(random); }
  Bytes wants_ahead(int64_t ranges, int64_t rows) const override {
    return source_->wants_ahead(ranges, rows);
  }
  void grant_ahead(Bytes bytes, int64_t ranges, int64_t rows) override {
    source_->grant_ahead(bytes, ranges, rows);
  }
  Bytes wants_kept() const override { return source_->wants_kept(); }
  void keep(bool whole) override { source_->keep(whole); }
  void read_ahead(int64_t first, int64_t count) override { source_->read_ahead(first, count); }
  int64_t lookahead() const override { return source_->lookahead(); }
  void announce(std::span<const int64_t> rows) override { source_->announce(rows); }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    PLIMSOLL_CHECK(dtype == stored_dtype(), "looked up numbers are of one type");
    const InputLookup& lookup = ids_->lookup();
    for (int64_t i = 0; i < count; ++i) {
      if (is_ids(lookup)) {
        read_row(first + i, [&](size_t at, int64_t id) {
          (static_cast<int64_t*>(destination) + i * width_)[at] = id;
        });
        continue;
      }
      float* row = static_cast<float*>(destination) + i * width_;
      std::fill_n(row, width_, 0.0F);
      const int64_t step = is_apart(lookup) ? lookup.depth : 0;
      read_row(first + i, [&](size_t at, int64_t id) {
        mark_id(lookup, id, row + static_cast<int64_t>(at) * step);
      });
      weigh(lookup, row);
    }
  }

 private:
  // Floating point comes as such, and is cut as Keras's cast cuts it.
  template <typename Take>
  void read_row(int64_t row, const Take& take) {
    if (!ids_->lookup().takes_fractions) {
      source_->read(row, 1, DType::kInt64, values_.data());
      for (size_t at = 0; at < values_.size(); ++at) {
        take(at, known(row, ids_->of_integer(values_[at]), values_[at]));
      }
      return;
    }
    auto* const numbers = reinterpret_cast<float*>(values_.data());
    source_->read(row, 1, DType::kFloat32, numbers);
    for (size_t at = 0; at < values_.size(); ++at) {
      if (!FieldIds::holds(numbers[at])) {
        refuse(row, "a number that an integer of 64 bits can hold", fmt::format("{}", numbers[at]));
      }
      take(at, known(row, ids_->of_number(numbers[at]), static_cast<int64_t>(numbers[at])));
    }
  }

  int64_t known(int64_t row, int64_t id, int64_t value) const {
    if (id != FieldIds::kUnknown) return id;
    refuse(row, fmt::format("one of the integers of layer {}", ids_->lookup().layer),
           std::to_string(value));
  }
  [[noreturn]] void refuse(int64_t row, const std::string& expected,
                           const std::string& received) const {
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected {}, received {}.", name_of(row), expected, received));
  }
  Bytes own_bytes() const {
    return Bytes(ids_->held_bytes() + static_cast<int64_t>(values_.size() * sizeof(int64_t)));
  }

  std::shared_ptr<RowSource> source_;
  std::shared_ptr<const FieldIds> ids_;
  std::vector<int64_t> shape_;
  int64_t width_;
  std::vector<int64_t> values_;
};

}  // namespace

TokenWriter::TokenWriter(std::shared_ptr<FieldIds> ids, const std::string& folder)
    : ids_(std::move(ids)), tokens_(std::make_shared<File>(File::unlinked(folder))) {
  buffer_.reserve(kWritten);
  if (is_ids(ids_->lookup())) return;
  ends_ = std::make_shared<File>(File::unlinked(folder));
  end_buffer_.reserve(kWritten);
}

void TokenWriter::put(int64_t id) {
  if (buffer_.size() == kWritten) flush();
  buffer_.push_back(static_cast<int32_t>(id));
  ++token_count_;
}

void TokenWriter::add(const std::vector<std::string_view>& strings,
                      const std::function<std::string()>& where) {
  const InputLookup& lookup = ids_->lookup();
  ++rows_;
  if (lookup.kind != InputLookup::Kind::kText) {
    for (const std::string_view string : strings) put(known(string, where));
  } else if (is_ids(lookup)) {
    const int64_t end = token_count_ + lookup.length;
    ids_->of_tokens(strings, lookup.length, [&](int64_t id) { put(id); });
    while (token_count_ < end) put(0);
  } else {
    ids_->of_tokens(strings, std::numeric_limits<int64_t>::max(), [&](int64_t id) {
      if (id >= 0) put(id);
    });
  }
  peak_ = std::max(peak_, held_bytes());
  if (is_ids(lookup)) return;
  if (end_buffer_.size() == kWritten) flush();
  end_buffer_.push_back(token_count_);
}

int64_t TokenWriter::known(std::string_view word, const std::function<std::string()>& where) const {
  const int64_t id = ids_->of_text(word);
  if (id != FieldIds::kUnknown) return id;
  constexpr size_t kShown = 80;
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected one of the {} words of layer {}, which has no number for "
                          "others (num_oov_indices=0), received \"{}\".",
                          where(), ids_->lookup().words.size(), ids_->lookup().layer,
                          word.substr(0, kShown)));
}

void TokenWriter::flush() {
  const auto write = [](File& file, int64_t& written, auto& buffer) {
    const auto bytes = std::as_bytes(std::span(buffer));
    file.write_at(written, bytes);
    written += static_cast<int64_t>(bytes.size());
    buffer.clear();
  };
  write(*tokens_, written_, buffer_);
  if (ends_ != nullptr) write(*ends_, ends_written_, end_buffer_);
}

int64_t TokenWriter::held_bytes() const {
  return static_cast<int64_t>(buffer_.capacity() * sizeof(int32_t) +
                              end_buffer_.capacity() * sizeof(int64_t)) +
         ids_->buffer_bytes();
}

std::unique_ptr<RowSource> TokenWriter::finish(const std::string& origin) {
  flush();
  buffer_ = std::vector<int32_t>();
  end_buffer_ = std::vector<int64_t>();
  ids_->free_buffers();
  if (ends_ != nullptr) {
    return std::make_unique<TokenCounts>(ids_, tokens_, ends_, rows_, origin);
  }
  ArrayPlace place;
  place.file = std::make_shared<const codec::FileReader>(std::move(tokens_), 0, written_, origin);
  place.format = codec::native_format(DType::kInt32);
  place.shape = ids_->lookup().output_shape;
  place.shape.insert(place.shape.begin(), rows_);
  return make_array_rows(place);
}

std::unique_ptr<RowSource> look_up_rows(std::shared_ptr<RowSource> source,
                                        std::shared_ptr<const FieldIds> ids) {
  const InputLookup& lookup = ids->lookup();
  const int64_t given = fixed_shape(source->row_shape()).element_count(1);
  if (given != lookup.input_elements()) {
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected samples of {} values, as layer {} takes them, received {}.",
                    source->origin(), lookup.input_elements(), lookup.layer, given));
  }
  const DType taken = lookup.takes_fractions ? DType::kFloat32 : DType::kInt64;
  if (!source->can_read_as(taken)) {
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected {}, as layer {} takes them, received {}.", source->origin(),
                    to_string(taken), lookup.layer, to_string(source->stored_dtype())));
  }
  return std::make_unique<LookedUpRows>(std::move(source), std::move(ids));
}

}  // namespace plimsoll::data
