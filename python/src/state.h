#pragma once

// Arrays of a Python program as the engine's tensors and rows, and the other way round.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/tensor_io.h"
#include "data/dataset.h"
#include "data/dataset_stages.h"

namespace plimsoll::python {

// Any C-contiguous array of NumPy's.
using Array =
    nanobind::ndarray<nanobind::numpy, nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// The element type of an array. Throws kData naming `origin` where the engine has none like it.
DType dtype_of(const Array& array, const std::string& origin);

// Tensors that a Python function hands out one by one: `read(index)` gives an array of the tensor's
// shape and type. At most one of them is held. Called without the interpreter's lock.
class PythonTensors final : public TensorSource {
 public:
  PythonTensors(std::vector<TensorInfo> infos, nanobind::object read);
  ~PythonTensors() override;
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override;

 private:
  std::vector<TensorInfo> infos_;
  nanobind::object read_;
  std::optional<Array> held_;
  size_t held_index_ = 0;
};

// Tensors that lie in the buffers of Python objects, which are borrowed for as long as this lives.
// Made and destroyed with the interpreter's lock; read without it.
class BorrowedTensors final : public TensorSource {
 public:
  // As many objects as infos, or fewer; None: that tensor is not among these. Throws kModel naming
  // a tensor whose buffer has another size, and Python's own error where an object has no
  // contiguous buffer.
  BorrowedTensors(std::span<const TensorInfo> infos, const nanobind::list& objects);
  ~BorrowedTensors() override;
  BorrowedTensors(const BorrowedTensors&) = delete;
  BorrowedTensors& operator=(const BorrowedTensors&) = delete;
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override;
  std::span<const std::byte> in_memory(size_t index) const override;

 private:
  void release() noexcept;

  std::vector<TensorInfo> some_;  // where not all are among them
  std::span<const TensorInfo> infos_;
  std::vector<Py_buffer> buffers_;
};

// Variables of a model in a file (or memory that has a descriptor), one after the other: where
// each begins, and where the last one ends.
std::vector<int64_t> offsets_in_file(std::span<const TensorInfo> infos);

// Such a file's, from byte `begin` on; read in pieces, when they are asked for.
class FileTensors final : public TensorSource {
 public:
  FileTensors(std::vector<TensorInfo> infos, const std::string& path, int64_t begin);
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override;

 private:
  std::vector<TensorInfo> infos_;
  std::vector<int64_t> offsets_;
  int64_t begin_;
  File file_;
};

// Writes what `state` has of `infos` to such a file; returns which it has.
std::vector<size_t> write_tensors(TensorSource& state, std::span<const TensorInfo> infos,
                                  const std::string& path, int64_t begin);

// The arrays of one data set, used in place; they are kept alive by it.
struct Arrays {
  std::vector<Array> x;
  std::vector<Array> y;
  std::vector<Array> weights;
};

// `order`: rows by their positions, as int64; none: as they lie. Throws kData where numbers of rows
// differ or a position is not a row.
std::shared_ptr<data::Dataset> dataset_of(const Arrays& arrays, const std::optional<Array>& order);

// Tells a request the shapes that the rows of weights and labels have.
template <typename Request>
void describe_rows(const data::Dataset& dataset, Request& request) {
  request.weight_shapes = data::weight_shapes(dataset);
  request.target_shapes = data::target_shapes(dataset);
}

}  // namespace plimsoll::python
