#include "bench/random_data.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll::bench {
namespace {

using layers::ProgramInput;

constexpr int64_t kPoolBytes = 8 << 20;  // of one input

// The same few rows over and over.
class CycledRows : public data::RowSource {
 public:
  CycledRows(std::vector<std::byte> pool, DType dtype, int64_t pool_rows, int64_t row_count,
             std::vector<int64_t> row_shape)
      : pool_(std::move(pool)),
        pool_rows_(pool_rows),
        row_count_(row_count),
        rows_(data::rows_in_memory(pool_.data(), dtype, pool_rows, std::move(row_shape),
                                   "random numbers")) {}

  int64_t row_count() const override { return row_count_; }
  const std::vector<int64_t>& row_shape() const override { return rows_->row_shape(); }
  DType stored_dtype() const override { return rows_->stored_dtype(); }
  const std::string& origin() const override { return rows_->origin(); }
  Bytes resident_bytes() const override {
    return rows_->resident_bytes() + Bytes(static_cast<int64_t>(pool_.size()));
  }
  bool reads_together() const override { return rows_->reads_together(); }
  bool can_read_as(DType dtype) const override { return rows_->can_read_as(dtype); }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    int64_t row_bytes = element_bytes(dtype).count();
    for (const int64_t extent : row_shape()) row_bytes *= extent;
    auto* to = static_cast<std::byte*>(destination);
    while (count > 0) {
      const int64_t begin = first % pool_rows_;
      const int64_t part = std::min(count, pool_rows_ - begin);
      rows_->read(begin, part, dtype, to);
      to += part * row_bytes;
      first += part;
      count -= part;
    }
  }

 private:
  std::vector<std::byte> pool_;
  int64_t pool_rows_;
  int64_t row_count_;
  std::unique_ptr<data::RowSource> rows_;
};

// One random number of an input.
struct Draw {
  int64_t classes = 0;  // below so many; 0: any real number
  template <typename Number>
  Number as(uint32_t word) const {
    if (classes > 0) return static_cast<Number>(word % static_cast<uint64_t>(classes));
    return static_cast<Number>(uniform_from(word));
  }
};

template <typename Number>
void fill(std::vector<std::byte>& bytes, const Draw& draw, uint32_t stream) {
  const size_t count = bytes.size() / sizeof(Number);
  for (size_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint32_t>(i / 4);
    const PhiloxBlock words = philox4x32({index, 0, stream, 0}, {7, 0});
    const Number number = draw.as<Number>(words[i % 4]);
    std::memcpy(bytes.data() + i * sizeof(Number), &number, sizeof(Number));
  }
}

Draw draw_for(const ProgramInput& input) {
  if (input.role == layers::InputRole::kTarget) {
    return {input.class_count > 0 ? input.class_count : 2};
  }
  Draw draw;
  for (const layers::IndexBound& bound : input.bounds) {
    draw.classes = draw.classes > 0 ? std::min(draw.classes, bound.row_count) : bound.row_count;
  }
  return draw;
}

bool is_real(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

std::shared_ptr<data::RowSource> random_rows(const ProgramInput& input, DType stored,
                                             int64_t row_count, uint32_t stream) {
  const Draw draw = draw_for(input);
  const bool features = input.role == layers::InputRole::kFeatures;
  const DType dtype = features && is_real(input.dtype) && draw.classes == 0 ? stored : input.dtype;
  std::vector<int64_t> shape = input.shape.at(1);
  shape.erase(shape.begin());
  const int64_t elements = input.shape.elements_per_sample();
  const int64_t row_bytes = std::max<int64_t>(elements * element_bytes(dtype).count(), 1);
  const int64_t pool_rows = std::clamp<int64_t>(kPoolBytes / row_bytes, 1, row_count);
  std::vector<std::byte> pool(static_cast<size_t>(pool_rows * row_bytes));
  switch (dtype) {
    case DType::kFloat32:
      fill<float>(pool, draw, stream);
      break;
    case DType::kFloat64:
      fill<double>(pool, draw, stream);
      break;
    case DType::kInt32:
      fill<int32_t>(pool, draw, stream);
      break;
    case DType::kInt64:
      fill<int64_t>(pool, draw, stream);
      break;
    default:
      throw Error(ErrorKind::kConfig, "bench: no random data for input " + input.name +
                                          " of its type. Name a file with --data.");
  }
  return std::make_shared<CycledRows>(std::move(pool), dtype, pool_rows, row_count,
                                      std::move(shape));
}

}  // namespace

data::Dataset make_random_data(const std::vector<ProgramInput>& inputs, DType stored,
                               int64_t row_count) {
  data::Dataset dataset;
  uint32_t stream = 0;
  for (const ProgramInput& input : inputs) {
    std::shared_ptr<data::RowSource> rows = random_rows(input, stored, row_count, stream++);
    if (input.role == layers::InputRole::kFeatures) dataset.features.push_back(std::move(rows));
    if (input.role == layers::InputRole::kTarget) dataset.targets.push_back(std::move(rows));
  }
  dataset.form = "random numbers";
  return dataset;
}

}  // namespace plimsoll::bench
