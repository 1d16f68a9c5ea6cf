#include "state.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "data/rows/row_source.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// Rows of another source in an order of their own.
class OrderedRows final : public data::RowSource {
 public:
  OrderedRows(std::unique_ptr<data::RowSource> rows, Array order)
      : rows_(std::move(rows)), order_(std::move(order)) {}

  int64_t row_count() const override { return static_cast<int64_t>(order_.shape(0)); }
  const std::vector<int64_t>& row_shape() const override { return rows_->row_shape(); }
  DType stored_dtype() const override { return rows_->stored_dtype(); }
  const std::string& origin() const override { return rows_->origin(); }
  std::string name_of(int64_t row) const override { return rows_->name_of(position(row)); }
  Bytes resident_bytes() const override { return rows_->resident_bytes(); }
  bool reads_together() const override { return rows_->reads_together(); }
  bool can_read_as(DType dtype) const override { return rows_->can_read_as(dtype); }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    int64_t row_bytes = element_bytes(dtype).count();
    for (const int64_t extent : row_shape()) row_bytes *= extent;
    auto* out = static_cast<std::byte*>(destination);
    for (int64_t i = 0; i < count;) {
      int64_t together = 1;
      while (i + together < count &&
             position(first + i + together) == position(first + i) + together) {
        ++together;
      }
      rows_->read(position(first + i), together, dtype, out + i * row_bytes);
      i += together;
    }
  }

 private:
  int64_t position(int64_t row) const { return static_cast<const int64_t*>(order_.data())[row]; }

  std::unique_ptr<data::RowSource> rows_;
  Array order_;
};

// The rows keep the array alive: its reference is given back with the interpreter's lock.
class ArrayRows final : public data::RowSource {
 public:
  ArrayRows(Array array, const std::string& origin) : array_(new Array(std::move(array))) {
    if (array_->ndim() == 0) {
      throw Error(ErrorKind::kData, "[" + origin +
                                        "] expected an array of samples, received a "
                                        "single number.");
    }
    std::vector<int64_t> shape;
    for (size_t i = 1; i < array_->ndim(); ++i) {
      shape.push_back(static_cast<int64_t>(array_->shape(i)));
    }
    rows_ = data::rows_in_memory(array_->data(), dtype_of(*array_, origin),
                                 static_cast<int64_t>(array_->shape(0)), std::move(shape), origin);
  }
  ~ArrayRows() override {
    const nb::gil_scoped_acquire lock;
    delete array_;
  }
  ArrayRows(const ArrayRows&) = delete;
  ArrayRows& operator=(const ArrayRows&) = delete;

  int64_t row_count() const override { return rows_->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return rows_->row_shape(); }
  DType stored_dtype() const override { return rows_->stored_dtype(); }
  const std::string& origin() const override { return rows_->origin(); }
  Bytes resident_bytes() const override { return rows_->resident_bytes(); }
  bool reads_together() const override { return rows_->reads_together(); }
  bool can_read_as(DType dtype) const override { return rows_->can_read_as(dtype); }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    rows_->read(first, count, dtype, destination);
  }

 private:
  Array* array_;
  std::unique_ptr<data::RowSource> rows_;
};

void check_order(const Array& order, int64_t rows) {
  const auto* positions = static_cast<const int64_t*>(order.data());
  for (size_t i = 0; i < order.shape(0); ++i) {
    if (positions[i] >= 0 && positions[i] < rows) continue;
    throw Error(ErrorKind::kData,
                fmt::format("[order] expected positions of the {} samples, received {}.", rows,
                            positions[i]));
  }
}

}  // namespace

DType dtype_of(const Array& array, const std::string& origin) {
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<float>()) return DType::kFloat32;
  if (type == nb::dtype<double>()) return DType::kFloat64;
  if (type == nb::dtype<int32_t>()) return DType::kInt32;
  if (type == nb::dtype<int64_t>()) return DType::kInt64;
  if (type == nb::dtype<int8_t>()) return DType::kInt8;
  if (type == nb::dtype<uint8_t>()) return DType::kUInt8;
  if (type == nb::dtype<bool>()) return DType::kBool;
  throw Error(ErrorKind::kData, fmt::format("[{}] expected float32, float64, int8, uint8, int32 or "
                                            "int64, received another type of {} bits.",
                                            origin, type.bits));
}

PythonTensors::PythonTensors(std::vector<TensorInfo> infos, nb::object read)
    : infos_(std::move(infos)), read_(std::move(read)) {}

PythonTensors::~PythonTensors() {
  const nb::gil_scoped_acquire lock;
  held_.reset();
  read_.reset();
}

void PythonTensors::read(size_t index, int64_t byte_begin, std::span<std::byte> destination) {
  const nb::gil_scoped_acquire lock;
  if (!held_ || held_index_ != index) {
    held_.reset();
    held_ = nb::cast<Array>(read_(index));
    held_index_ = index;
  }
  const auto end = static_cast<size_t>(byte_begin) + destination.size();
  if (end > held_->nbytes()) {
    throw Error(ErrorKind::kModel, fmt::format("[{}] expected {} bytes or more, received {}.",
                                               infos_[index].name, end, held_->nbytes()));
  }
  std::memcpy(destination.data(), static_cast<const std::byte*>(held_->data()) + byte_begin,
              destination.size());
  if (end == held_->nbytes()) held_.reset();
}

BorrowedTensors::BorrowedTensors(std::span<const TensorInfo> infos, const nb::list& objects)
    : infos_(infos.first(std::min(infos.size(), objects.size()))) {
  std::vector<size_t> given;
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (!objects[i].is_none()) given.push_back(i);
  }
  if (given.size() < infos_.size()) {
    for (const size_t i : given) some_.push_back(infos_[i]);
    infos_ = some_;
  }
  buffers_.reserve(given.size());
  try {
    for (size_t i = 0; i < infos_.size(); ++i) {
      Py_buffer buffer;
      if (PyObject_GetBuffer(objects[given[i]].ptr(), &buffer, PyBUF_SIMPLE) != 0) {
        throw nb::python_error();
      }
      buffers_.push_back(buffer);
      const Bytes expected = tensor_bytes(infos_[i].dtype, fixed_shape(infos_[i].shape), 1);
      if (buffer.len != expected.count()) {
        throw Error(ErrorKind::kModel, fmt::format("[{}] expected {} bytes, received {}.",
                                                   infos_[i].name, expected.count(), buffer.len));
      }
    }
  } catch (...) {
    release();
    throw;
  }
}

BorrowedTensors::~BorrowedTensors() { release(); }

void BorrowedTensors::release() noexcept {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  buffers_.clear();
}

std::span<const std::byte> BorrowedTensors::in_memory(size_t index) const {
  return {static_cast<const std::byte*>(buffers_[index].buf),
          static_cast<size_t>(buffers_[index].len)};
}

void BorrowedTensors::read(size_t index, int64_t byte_begin, std::span<std::byte> destination) {
  std::memcpy(destination.data(), in_memory(index).data() + byte_begin, destination.size());
}

std::vector<int64_t> offsets_in_file(std::span<const TensorInfo> infos) {
  constexpr int64_t kAlignment = 64;
  std::vector<int64_t> offsets = {0};
  for (const TensorInfo& info : infos) {
    const Bytes bytes = tensor_bytes(info.dtype, fixed_shape(info.shape), 1);
    offsets.push_back(offsets.back() + round_up(bytes, Bytes(kAlignment)).count());
  }
  return offsets;
}

FileTensors::FileTensors(std::vector<TensorInfo> infos, const std::string& path, int64_t begin)
    : infos_(std::move(infos)),
      offsets_(offsets_in_file(infos_)),
      begin_(begin),
      file_(File::open_read(path)) {}

void FileTensors::read(size_t index, int64_t byte_begin, std::span<std::byte> destination) {
  file_.read_at(begin_ + offsets_[index] + byte_begin, destination);
}

std::vector<size_t> write_tensors(TensorSource& state, std::span<const TensorInfo> infos,
                                  const std::string& path, int64_t begin) {
  File file = File::open_or_create(path);
  const std::vector<int64_t> offsets = offsets_in_file(infos);
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < state.tensors().size(); ++i) known[state.tensors()[i].name] = i;
  std::vector<std::byte> piece(Bytes(256_KiB).size());
  std::vector<size_t> written;
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto found = known.find(infos[i].name);
    if (found == known.end()) continue;
    const int64_t bytes = tensor_bytes(infos[i].dtype, fixed_shape(infos[i].shape), 1).count();
    for (int64_t at = 0; at < bytes; at += std::ssize(piece)) {
      const auto count = static_cast<size_t>(std::min<int64_t>(bytes - at, std::ssize(piece)));
      state.read(found->second, at, std::span(piece).first(count));
      file.write_at(begin + offsets[i] + at, std::span(piece).first(count));
    }
    written.push_back(i);
  }
  return written;
}

std::shared_ptr<data::Dataset> dataset_of(const Arrays& arrays, const std::optional<Array>& order) {
  auto dataset = std::make_shared<data::Dataset>();
  const auto add = [&](const std::vector<Array>& from, const std::string& what,
                       std::vector<std::shared_ptr<data::RowSource>>& to) {
    for (const Array& array : from) {
      const std::string origin = from.size() == 1 ? what : fmt::format("{} {}", what, to.size());
      auto rows = std::make_unique<ArrayRows>(array, origin);
      if (!order) {
        to.push_back(std::move(rows));
        continue;
      }
      check_order(*order, rows->row_count());
      to.push_back(std::make_shared<OrderedRows>(std::move(rows), *order));
    }
  };
  add(arrays.x, "x", dataset->features);
  add(arrays.y, "y", dataset->targets);
  add(arrays.weights, "sample_weight", dataset->weights);
  dataset->check_rows();
  return dataset;
}

}  // namespace plimsoll::python
