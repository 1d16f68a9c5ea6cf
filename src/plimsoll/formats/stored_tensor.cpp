#include "formats/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::formats {
namespace {

using Shape = std::vector<int64_t>;

[[noreturn]] void refuse(const codec::Hdf5Reader& file, const TensorInfo& info,
                         const std::string& expected, const std::string& received,
                         const std::string& next_step = "") {
  throw Error(ErrorKind::kModel, file.name() + ": [" + info.name + "] expected " + expected +
                                     ", received " + received + "." +
                                     (next_step.empty() ? "" : " " + next_step));
}

int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Shape moved(const Shape& stored, const std::vector<int>& axes) {
  if (axes.empty()) return stored;
  Shape shape;
  for (const int axis : axes) shape.push_back(stored[static_cast<size_t>(axis)]);
  return shape;
}

bool is_whole(const StoredTensor& tensor) {
  return tensor.pieces.size() == 1 && tensor.pieces[0].axes.empty() &&
         tensor.pieces[0].flips.empty() && tensor.pieces[0].scales.empty();
}

// Elements of a piece in the tensor's order, at `destination` with `row` bytes from row to row.
class PieceCopy {
 public:
  PieceCopy(const Shape& stored, const StoredPiece& piece, size_t element_bytes)
      : element_bytes_(element_bytes), shape_(moved(stored, piece.axes)) {
    Shape steps(stored.size(), 1);
    for (size_t i = stored.size(); i-- > 1;) steps[i - 1] = steps[i] * stored[i];
    for (size_t i = 0; i < shape_.size(); ++i) {
      const size_t axis = piece.axes.empty() ? i : static_cast<size_t>(piece.axes[i]);
      steps_.push_back(steps[axis]);
    }
    for (const int flip : piece.flips) {
      const auto axis = static_cast<size_t>(flip);
      begin_ += steps_[axis] * (shape_[axis] - 1);
      steps_[axis] = -steps_[axis];
    }
  }

  int64_t columns() const { return shape_.empty() ? 1 : shape_.back(); }

  void copy(std::span<const std::byte> stored, std::byte* destination, size_t row_bytes) const {
    const int64_t rows = count_of(shape_) / std::max<int64_t>(columns(), 1);
    Shape index(shape_.empty() ? 0 : shape_.size() - 1, 0);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t at = begin_;
      for (size_t i = 0; i < index.size(); ++i) at += index[i] * steps_[i];
      for (int64_t column = 0; column < columns(); ++column) {
        const int64_t from = at + (shape_.empty() ? 0 : column * steps_.back());
        std::memcpy(destination + static_cast<size_t>(row) * row_bytes +
                        static_cast<size_t>(column) * element_bytes_,
                    stored.data() + static_cast<size_t>(from) * element_bytes_, element_bytes_);
      }
      for (size_t i = index.size(); i-- > 0;) {
        if (++index[i] < shape_[i]) break;
        index[i] = 0;
      }
    }
  }

 private:
  size_t element_bytes_;
  Shape shape_;
  Shape steps_;
  int64_t begin_ = 0;
};

// `floats` are in the file's order, whose last axis is the tensor's.
void multiply(std::span<std::byte> floats, const Shape& shape, std::span<const float> scales) {
  const auto columns = static_cast<size_t>(shape.empty() ? 1 : shape.back());
  const size_t block = std::max<size_t>(columns / scales.size(), 1);
  for (size_t i = 0; i * sizeof(float) < floats.size(); ++i) {
    float value = 0;
    std::memcpy(&value, floats.data() + i * sizeof(float), sizeof value);
    value *= scales[std::min(i % columns / block, scales.size() - 1)];
    std::memcpy(floats.data() + i * sizeof(float), &value, sizeof value);
  }
}

class StoredSource final : public TensorSource {
 public:
  StoredSource(codec::Hdf5Reader file, std::vector<StoredTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {
    for (const StoredTensor& tensor : tensors_) infos_.push_back(tensor.info);
  }

  std::span<const TensorInfo> tensors() const override { return infos_; }

  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    const StoredTensor& tensor = tensors_[index];
    const auto element = static_cast<size_t>(element_bytes(tensor.info.dtype).count());
    PLIMSOLL_CHECK(
        static_cast<size_t>(byte_begin) % element == 0 && destination.size() % element == 0,
        tensor.info.name + ": expected whole elements");
    if (!is_whole(tensor)) {
      put_together(index);
      std::memcpy(destination.data(), whole_.data() + byte_begin, destination.size());
      return;
    }
    if (open_ == nullptr || open_index_ != index) {
      open_ = file_.open(tensor.pieces[0].path);
      open_index_ = index;
    }
    open_->read_as(tensor.info.dtype, byte_begin / static_cast<int64_t>(element),
                   static_cast<int64_t>(destination.size() / element), destination.data());
  }

 private:
  void put_together(size_t index) {
    if (whole_index_ == index && !whole_.empty()) return;
    const StoredTensor& tensor = tensors_[index];
    const auto element = static_cast<size_t>(element_bytes(tensor.info.dtype).count());
    whole_.assign(static_cast<size_t>(count_of(tensor.info.shape)) * element, std::byte{0});
    whole_index_ = index;
    const size_t row_bytes = tensor.info.shape.empty()
                                 ? element
                                 : static_cast<size_t>(tensor.info.shape.back()) * element;
    size_t column_bytes = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      const std::unique_ptr<codec::Hdf5Dataset> dataset = file_.open(piece.path);
      std::vector<std::byte> stored(static_cast<size_t>(dataset->info().element_count) * element);
      dataset->read_as(tensor.info.dtype, 0, dataset->info().element_count, stored.data());
      if (!piece.scales.empty()) {
        multiply(stored, moved(dataset->info().shape, piece.axes), piece.scales);
      }
      const PieceCopy copy(dataset->info().shape, piece, element);
      copy.copy(stored, whole_.data() + column_bytes, row_bytes);
      column_bytes += static_cast<size_t>(copy.columns()) * element;
    }
  }

  codec::Hdf5Reader file_;
  std::vector<StoredTensor> tensors_;
  std::vector<TensorInfo> infos_;
  std::unique_ptr<codec::Hdf5Dataset> open_;  // the last one
  size_t open_index_ = 0;
  std::vector<std::byte> whole_;  // the last tensor that was put together
  size_t whole_index_ = 0;
};

}  // namespace

void check_stored(const codec::Hdf5Reader& file, const StoredTensor& tensor) {
  const TensorInfo& info = tensor.info;
  Shape joined;
  for (const StoredPiece& piece : tensor.pieces) {
    if (!file.is_dataset(piece.path)) refuse(file, info, "a dataset " + piece.path, "none");
    const codec::Hdf5DatasetInfo stored = file.open(piece.path)->info();
    if (stored.type.type_class != codec::Hdf5Type::Class::kNumber) {
      refuse(file, info, "numbers", "text or other values");
    }
    if (!piece.axes.empty() && piece.axes.size() != stored.shape.size()) {
      refuse(file, info, fmt::format("{} axes", piece.axes.size()),
             to_string(fixed_shape(stored.shape)), "The weights belong to another model.");
    }
    const Shape shape = moved(stored.shape, piece.axes);
    if (joined.empty() || shape.empty()) {
      joined = shape;
      continue;
    }
    const bool fits =
        shape.size() == joined.size() && std::equal(shape.begin(), shape.end() - 1, joined.begin());
    if (!fits) refuse(file, info, "parts of one shape", to_string(fixed_shape(stored.shape)));
    joined.back() += shape.back();
  }
  if (joined != info.shape) {
    refuse(file, info, fmt::format("the shape {}", to_string(fixed_shape(info.shape))),
           to_string(fixed_shape(joined)), "The weights belong to another model.");
  }
}

std::unique_ptr<TensorSource> make_stored_source(codec::Hdf5Reader file,
                                                 std::vector<StoredTensor> tensors) {
  return std::make_unique<StoredSource>(std::move(file), std::move(tensors));
}

}  // namespace plimsoll::formats
