#include "data/rows/window_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/shape.h"

namespace plimsoll::data {
namespace {

class WindowRows final : public RowSource {
 public:
  WindowRows(std::shared_ptr<RowSource> series, int64_t count, int64_t stride, int64_t offset,
             int64_t length, bool counts_series)
      : series_(std::move(series)),
        count_(count),
        stride_(stride),
        offset_(offset),
        length_(std::max<int64_t>(length, 1)),
        counts_series_(counts_series),
        row_shape_(series_->row_shape()) {
    row_elements_ = fixed_shape(row_shape_).element_count(1);
    if (length > 0) {
      // One number a row: the window is a list of them.
      if (row_elements_ == 1) row_shape_.clear();
      row_shape_.insert(row_shape_.begin(), length);
    }
  }

  int64_t row_count() const override { return count_; }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return series_->stored_dtype(); }
  const std::string& origin() const override { return series_->origin(); }
  Bytes resident_bytes() const override {
    return counts_series_ ? series_->resident_bytes() : Bytes(0);
  }
  Bytes stack_bytes() const override { return series_->stack_bytes(); }
  Bytes opened_bytes() const override {
    return counts_series_ ? series_->opened_bytes() : Bytes(0);
  }
  bool can_read_as(DType dtype) const override { return series_->can_read_as(dtype); }
  void expect_order(bool random) override { series_->expect_order(random); }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    const int64_t bytes = length_ * row_elements_ * element_bytes(dtype).count();
    for (int64_t i = 0; i < count; ++i) {
      series_->read((first + i) * stride_ + offset_, length_, dtype,
                    static_cast<std::byte*>(destination) + i * bytes);
    }
  }

 private:
  std::shared_ptr<RowSource> series_;
  int64_t count_;
  int64_t stride_;
  int64_t offset_;
  int64_t length_;
  bool counts_series_;
  std::vector<int64_t> row_shape_;
  int64_t row_elements_ = 1;
};

}  // namespace

int64_t window_count(const WindowPlan& plan, int64_t rows) {
  const int64_t starts = rows - plan.window - plan.horizon;
  return starts < 0 ? 0 : starts / plan.stride + 1;
}

std::unique_ptr<RowSource> window_rows(std::shared_ptr<RowSource> series, int64_t count,
                                       int64_t stride, int64_t offset, int64_t length,
                                       bool counts_series) {
  const int64_t last = (count - 1) * stride + offset + std::max<int64_t>(length, 1);
  PLIMSOLL_CHECK(count > 0 && offset >= 0 && last <= series->row_count(),
                 "windows beyond the series");
  return std::make_unique<WindowRows>(std::move(series), count, stride, offset, length,
                                      counts_series);
}

}  // namespace plimsoll::data
