#include "data/rows/joined_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"

namespace plimsoll::data {
namespace {

constexpr size_t kMostOpen = 16;

class JoinedRows final : public RowSource {
 public:
  JoinedRows(std::string origin, size_t count,
             std::function<std::unique_ptr<RowSource>(size_t)> open, Bytes beside)
      : origin_(std::move(origin)), open_(std::move(open)), beside_(beside) {
    begins_.reserve(count + 1);
    begins_.push_back(0);
    for (size_t i = 0; i < count; ++i) measure(*open_(i));
  }

  int64_t row_count() const override { return begins_.back(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return stored_; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override {
    const size_t chunks = begins_.size() - 1;
    return beside_ + largest_ * static_cast<int64_t>(std::min(chunks, kMostOpen)) +
           Bytes(static_cast<int64_t>(begins_.size() * sizeof(int64_t)));
  }
  Bytes stack_bytes() const override { return stacks_; }
  Bytes opened_bytes() const override { return beside_; }
  bool can_read_as(DType dtype) const override { return chunk(0).can_read_as(dtype); }
  void expect_order(bool random) override {
    random_ = random;
    opened_.clear();
  }

  void read_ahead(int64_t first, int64_t count) override {
    while (count > 0) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), first);
      const auto index = static_cast<size_t>(after - begins_.begin()) - 1;
      const int64_t now = std::min(count, *after - first);
      chunk(index).read_ahead(first - begins_[index], now);
      first += now;
      count -= now;
    }
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    while (count > 0) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), first);
      const auto index = static_cast<size_t>(after - begins_.begin()) - 1;
      const int64_t now = std::min(count, *after - first);
      chunk(index).read(first - begins_[index], now, dtype, out);
      out += now * row_elements_ * element_bytes(dtype).count();
      first += now;
      count -= now;
    }
  }

 private:
  struct Opened {
    size_t index = 0;
    std::unique_ptr<RowSource> rows;
  };

  void measure(const RowSource& rows) {
    if (begins_.size() == 1) {
      row_shape_ = rows.row_shape();
      row_elements_ = fixed_shape(row_shape_).element_count(1);
      stored_ = rows.stored_dtype();
    } else if (rows.row_shape() != row_shape_ || rows.stored_dtype() != stored_) {
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: expected rows of {} {} as in the chunk before, received {} {}.",
                      rows.origin(), to_string(fixed_shape(row_shape_)), to_string(stored_),
                      to_string(fixed_shape(rows.row_shape())), to_string(rows.stored_dtype())));
    }
    begins_.push_back(begins_.back() + rows.row_count());
    largest_ = max(largest_, rows.resident_bytes());
    stacks_ = max(stacks_, rows.stack_bytes());
  }

  RowSource& chunk(size_t index) const {
    const auto found = std::find_if(opened_.begin(), opened_.end(),
                                    [&](const Opened& one) { return one.index == index; });
    if (found != opened_.end()) {
      std::rotate(opened_.begin(), found, found + 1);  // the newest stands in front
      return *opened_.front().rows;
    }
    if (opened_.size() == kMostOpen) opened_.pop_back();
    std::unique_ptr<RowSource> rows = open_(index);
    const int64_t expected = begins_[index + 1] - begins_[index];
    if (rows->row_count() != expected || rows->row_shape() != row_shape_) {
      throw Error(ErrorKind::kData,
                  fmt::format("{}: expected {} rows as when the run began, received another file.",
                              rows->origin(), expected));
    }
    rows->expect_order(random_);
    opened_.insert(opened_.begin(), Opened{index, std::move(rows)});
    return *opened_.front().rows;
  }

  std::string origin_;
  std::function<std::unique_ptr<RowSource>(size_t)> open_;
  std::vector<int64_t> begins_;  // first row of each chunk, and the end
  std::vector<int64_t> row_shape_;
  int64_t row_elements_ = 1;
  DType stored_ = DType::kFloat32;
  Bytes beside_;
  Bytes largest_;
  Bytes stacks_;
  bool random_ = false;
  mutable std::vector<Opened> opened_;
};

}  // namespace

std::unique_ptr<RowSource> join_rows(std::string origin, size_t count,
                                     std::function<std::unique_ptr<RowSource>(size_t)> open,
                                     Bytes beside) {
  PLIMSOLL_CHECK(count > 0, "chunks of nothing");
  return std::make_unique<JoinedRows>(std::move(origin), count, std::move(open), beside);
}

}  // namespace plimsoll::data
