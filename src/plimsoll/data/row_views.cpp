#include "data/row_views.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/csv.h"
#include "codec/number_format.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kPieceRows = 1024;

class PartRows final : public RowSource {
 public:
  PartRows(std::shared_ptr<RowSource> source, const Permutation& order, int64_t first,
           int64_t count, bool counts_source)
      : source_(std::move(source)),
        order_(order),
        first_(first),
        count_(count),
        counts_source_(counts_source),
        row_elements_(fixed_shape(source_->row_shape()).element_count(1)) {}

  int64_t row_count() const override { return count_; }
  const std::vector<int64_t>& row_shape() const override { return source_->row_shape(); }
  DType stored_dtype() const override { return source_->stored_dtype(); }
  const std::string& origin() const override { return source_->origin(); }
  std::string name_of(int64_t row) const override {
    return source_->name_of(order_.row_at(first_ + row));
  }
  Bytes resident_bytes() const override {
    return counts_source_ ? source_->resident_bytes() : Bytes(0);
  }
  Bytes stack_bytes() const override { return source_->stack_bytes(); }
  bool can_read_as(DType dtype) const override { return source_->can_read_as(dtype); }
  void expect_order(bool random) override {
    source_->expect_order(random || !order_.is_identity());
  }
  void read_ahead(int64_t first, int64_t count) override {
    if (order_.is_identity()) source_->read_ahead(first_ + first, count);
  }
  int64_t lookahead() const override { return source_->lookahead(); }
  void announce(std::span<const int64_t> rows) override {
    std::array<int64_t, kMostAhead> mapped;
    const size_t count = std::min(rows.size(), mapped.size());
    for (size_t i = 0; i < count; ++i) mapped[i] = order_.row_at(first_ + rows[i]);
    source_->announce(std::span(mapped).first(count));
  }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    if (order_.is_identity()) {
      source_->read(first_ + first, count, dtype, destination);
      return;
    }
    const int64_t row_bytes = row_elements_ * element_bytes(dtype).count();
    for (int64_t i = 0; i < count; ++i) {
      source_->read(order_.row_at(first_ + first + i), 1, dtype,
                    static_cast<std::byte*>(destination) + i * row_bytes);
    }
  }

 private:
  std::shared_ptr<RowSource> source_;
  Permutation order_;
  int64_t first_;
  int64_t count_;
  bool counts_source_;
  int64_t row_elements_;
};

// Numbers that are computed row by row, handed out in any floating-point type.
class ComputedRows : public RowSource {
 public:
  ComputedRows(int64_t count, std::string origin, std::vector<int64_t> row_shape = {})
      : count_(count), row_shape_(std::move(row_shape)), origin_(std::move(origin)) {}
  int64_t row_count() const override { return count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kFloat32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(static_cast<int64_t>(sizeof values_)); }
  bool can_read_as(DType dtype) const override {
    return dtype == DType::kFloat32 || dtype == DType::kFloat64;
  }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    const int64_t elements = fixed_shape(row_shape_).element_count(1);
    for (int64_t done = 0; done < count; done += kPieceRows) {
      const int64_t now = std::min(kPieceRows, count - done);
      compute(first + done, now, values_.data());
      for (int64_t i = 0; i < now; ++i, out += elements * element_bytes(dtype).count()) {
        spread(first + done + i, values_[static_cast<size_t>(i)], dtype, out);
      }
    }
  }

 protected:
  // One number as `count` elements of a row.
  static void repeat(double value, DType dtype, int64_t count, std::byte* out) {
    for (int64_t i = 0; i < count; ++i, out += element_bytes(dtype).count()) {
      codec::convert_numbers(codec::native_format(DType::kFloat64),
                             reinterpret_cast<const std::byte*>(&value), dtype, out, 1);
    }
  }

 private:
  // A number for each row.
  virtual void compute(int64_t first, int64_t count, double* values) = 0;
  // A row's elements of its number.
  virtual void spread(int64_t, double value, DType dtype, std::byte* out) {
    repeat(value, dtype, fixed_shape(row_shape_).element_count(1), out);
  }

  int64_t count_;
  std::vector<int64_t> row_shape_;
  std::string origin_;
  std::array<double, kPieceRows> values_;
};

class ConstantRows final : public ComputedRows {
 public:
  ConstantRows(double value, int64_t count, std::vector<int64_t> row_shape)
      : ComputedRows(count, "a constant", std::move(row_shape)), value_(value) {}

 private:
  void compute(int64_t, int64_t count, double* values) override {
    std::fill_n(values, count, value_);
  }
  double value_;
};

// The class numbers of rows, in pieces.
class ClassReader {
 public:
  explicit ClassReader(RowSource& labels)
      : labels_(labels),
        columns_(fixed_shape(labels.row_shape()).element_count(1)),
        rows_(std::max<int64_t>(1, kPieceRows / columns_)),
        row_(columns_ == 1 ? 0 : static_cast<size_t>(rows_ * columns_)) {}

  Bytes bytes() const { return Bytes(static_cast<int64_t>(row_.size() * sizeof(double))); }

  // One number a row as it is; of several the place of the first of the largest.
  void read(int64_t first, int64_t count, double* classes) {
    if (columns_ == 1) {
      labels_.read(first, count, DType::kFloat64, classes);
      return;
    }
    for (int64_t done = 0; done < count; done += rows_) {
      const int64_t now = std::min(rows_, count - done);
      labels_.read(first + done, now, DType::kFloat64, row_.data());
      for (int64_t i = 0; i < now; ++i) {
        const double* begin = row_.data() + i * columns_;
        classes[done + i] = static_cast<double>(std::max_element(begin, begin + columns_) - begin);
      }
    }
  }

 private:
  RowSource& labels_;
  int64_t columns_;
  int64_t rows_;
  std::vector<double> row_;
};

class ClassWeightRows final : public ComputedRows {
 public:
  ClassWeightRows(std::shared_ptr<RowSource> labels, ClassWeights classes,
                  std::shared_ptr<RowSource> weights)
      : ComputedRows(labels->row_count(), labels->origin(),
                     weights ? weights->row_shape() : std::vector<int64_t>()),
        labels_(std::move(labels)),
        reader_(*labels_),
        weights_(std::move(weights)),
        classes_(std::move(classes)),
        own_(weights_ ? static_cast<size_t>(fixed_shape(weights_->row_shape()).element_count(1))
                      : 0) {}
  Bytes resident_bytes() const override {
    const Bytes own = ComputedRows::resident_bytes() + reader_.bytes() +
                      Bytes(static_cast<int64_t>(own_.size() * sizeof(double)));
    return weights_ ? own + weights_->resident_bytes() : own;
  }
  Bytes stack_bytes() const override {
    return max(labels_->stack_bytes(), weights_ ? weights_->stack_bytes() : Bytes());
  }

 private:
  void compute(int64_t first, int64_t count, double* values) override {
    reader_.read(first, count, values);
    for (int64_t i = 0; i < count; ++i) {
      const bool number = std::isfinite(values[i]);
      const auto found =
          number ? classes_.find(static_cast<int64_t>(std::nearbyint(values[i]))) : classes_.end();
      values[i] = found == classes_.end() ? 1.0 : found->second;
    }
  }

  void spread(int64_t row, double value, DType dtype, std::byte* out) override {
    if (weights_ == nullptr) {
      repeat(value, dtype, 1, out);
      return;
    }
    weights_->read(row, 1, DType::kFloat64, own_.data());
    for (const double weight : own_) {
      repeat(value * weight, dtype, 1, out);
      out += element_bytes(dtype).count();
    }
  }

  std::shared_ptr<RowSource> labels_;
  ClassReader reader_;
  std::shared_ptr<RowSource> weights_;
  ClassWeights classes_;
  std::vector<double> own_;
};

void check_labels(const RowSource& labels) {
  std::vector<int64_t> shape = labels.row_shape();
  std::erase(shape, 1);
  if (shape.size() <= 1 && labels.can_read_as(DType::kFloat64)) return;
  throw Error(
      ErrorKind::kData,
      fmt::format(
          "{}: expected one class number or one row of classes a sample for --class-weights, "
          "received labels of shape {}. Weights for each step or pixel come by --sample-weights.",
          labels.origin(), to_string(fixed_shape(labels.row_shape()))));
}

}  // namespace

std::unique_ptr<RowSource> part_of(std::shared_ptr<RowSource> source, const Permutation& order,
                                   int64_t first, int64_t count, bool counts_source) {
  PLIMSOLL_CHECK(first >= 0 && count > 0 && first + count <= source->row_count(),
                 "a part beyond the rows");
  return std::make_unique<PartRows>(std::move(source), order, first, count, counts_source);
}

std::unique_ptr<RowSource> constant_rows(double value, int64_t row_count,
                                         std::vector<int64_t> row_shape) {
  return std::make_unique<ConstantRows>(value, row_count, std::move(row_shape));
}

ClassWeights parse_class_weights(std::string_view text) {
  const auto refuse = [&]() {
    throw Error(ErrorKind::kConfig,
                "--class-weights: expected balanced or pairs such as 0:1,1:3.5, received \"" +
                    std::string(text) + "\".");
  };
  ClassWeights weights;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    const size_t colon = std::min(pair.find(':'), pair.size());
    int64_t number = 0;
    double weight = 0;
    const auto read = std::from_chars(pair.data(), pair.data() + colon, number);
    if (colon == pair.size() || read.ec != std::errc() || read.ptr != pair.data() + colon ||
        number < 0 || !codec::parse_number(pair.substr(colon + 1), weight) || weight < 0 ||
        !weights.emplace(number, weight).second) {
      refuse();
    }
    begin = end + 1;
  }
  return weights;
}

ClassWeights balanced_class_weights(RowSource& labels) {
  constexpr size_t kMaxClasses = 65536;
  check_labels(labels);
  std::map<int64_t, int64_t> counts;
  std::array<double, kPieceRows> values;
  ClassReader reader(labels);
  for (int64_t first = 0; first < labels.row_count(); first += kPieceRows) {
    const int64_t now = std::min(kPieceRows, labels.row_count() - first);
    reader.read(first, now, values.data());
    for (int64_t i = 0; i < now; ++i) {
      const double value = values[static_cast<size_t>(i)];
      if (!(value >= 0 && value < 1e9 && value == std::floor(value)) ||
          counts.size() > kMaxClasses) {
        throw Error(
            ErrorKind::kData,
            fmt::format(
                "{}: row {}: expected a class number for --class-weights balanced, received {:f}.",
                labels.origin(), first + i, value));
      }
      ++counts[static_cast<int64_t>(value)];
    }
  }
  ClassWeights weights;
  const auto classes = static_cast<double>(counts.size());
  for (const auto& [number, count] : counts) {
    weights[number] =
        static_cast<double>(labels.row_count()) / (classes * static_cast<double>(count));
  }
  return weights;
}

std::unique_ptr<RowSource> weights_by_class(std::shared_ptr<RowSource> labels, ClassWeights classes,
                                            std::shared_ptr<RowSource> weights) {
  check_labels(*labels);
  return std::make_unique<ClassWeightRows>(std::move(labels), std::move(classes),
                                           std::move(weights));
}

}  // namespace plimsoll::data
