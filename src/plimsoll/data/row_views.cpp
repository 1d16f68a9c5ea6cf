#include "data/row_views.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
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
  ComputedRows(int64_t count, std::string origin) : count_(count), origin_(std::move(origin)) {}
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
    for (int64_t done = 0; done < count; done += kPieceRows) {
      const int64_t now = std::min(kPieceRows, count - done);
      compute(first + done, now, values_.data());
      codec::convert_numbers(codec::native_format(DType::kFloat64),
                             reinterpret_cast<const std::byte*>(values_.data()), dtype,
                             out + done * element_bytes(dtype).count(), now);
    }
  }

 private:
  virtual void compute(int64_t first, int64_t count, double* values) = 0;

  int64_t count_;
  std::vector<int64_t> row_shape_;
  std::string origin_;
  std::array<double, kPieceRows> values_;
};

class ConstantRows final : public ComputedRows {
 public:
  ConstantRows(double value, int64_t count) : ComputedRows(count, "a constant"), value_(value) {}

 private:
  void compute(int64_t, int64_t count, double* values) override {
    std::fill_n(values, count, value_);
  }
  double value_;
};

class ClassWeightRows final : public ComputedRows {
 public:
  ClassWeightRows(std::shared_ptr<RowSource> labels, ClassWeights classes,
                  std::shared_ptr<RowSource> weights)
      : ComputedRows(labels->row_count(), labels->origin()),
        labels_(std::move(labels)),
        weights_(std::move(weights)),
        classes_(std::move(classes)) {}
  Bytes resident_bytes() const override {
    const Bytes own = ComputedRows::resident_bytes() + Bytes(static_cast<int64_t>(sizeof own_));
    return weights_ ? own + weights_->resident_bytes() : own;
  }

 private:
  void compute(int64_t first, int64_t count, double* values) override {
    labels_->read(first, count, DType::kFloat64, values);
    for (int64_t i = 0; i < count; ++i) {
      const auto found =
          std::isfinite(values[i]) ? classes_.find(std::llround(values[i])) : classes_.end();
      values[i] = found == classes_.end() ? 1.0 : found->second;
    }
    if (weights_ == nullptr) return;
    weights_->read(first, count, DType::kFloat64, own_.data());
    for (int64_t i = 0; i < count; ++i) values[i] *= own_[static_cast<size_t>(i)];
  }

  std::shared_ptr<RowSource> labels_;
  std::shared_ptr<RowSource> weights_;
  ClassWeights classes_;
  std::array<double, kPieceRows> own_;
};

void check_labels(const RowSource& labels) {
  const int64_t elements = fixed_shape(labels.row_shape()).element_count(1);
  if (elements == 1 && labels.can_read_as(DType::kFloat64)) return;
  throw Error(ErrorKind::kData, labels.origin() +
                                    ": expected one class number a sample for --class-weights, "
                                    "received labels of shape " +
                                    to_string(fixed_shape(labels.row_shape())) + ".");
}

}  // namespace

std::unique_ptr<RowSource> part_of(std::shared_ptr<RowSource> source, const Permutation& order,
                                   int64_t first, int64_t count, bool counts_source) {
  PLIMSOLL_CHECK(first >= 0 && count > 0 && first + count <= source->row_count(),
                 "a part beyond the rows");
  return std::make_unique<PartRows>(std::move(source), order, first, count, counts_source);
}

std::unique_ptr<RowSource> constant_rows(double value, int64_t row_count) {
  return std::make_unique<ConstantRows>(value, row_count);
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
  for (int64_t first = 0; first < labels.row_count(); first += kPieceRows) {
    const int64_t now = std::min(kPieceRows, labels.row_count() - first);
    labels.read(first, now, DType::kFloat64, values.data());
    for (int64_t i = 0; i < now; ++i) {
      const double value = values[static_cast<size_t>(i)];
      if (!(value >= 0 && value < 1e9 && value == std::floor(value)) ||
          counts.size() > kMaxClasses) {
        throw Error(ErrorKind::kData,
                    labels.origin() + ": row " + std::to_string(first + i) +
                        ": expected a class number for --class-weights balanced, received " +
                        std::to_string(value) + ".");
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
