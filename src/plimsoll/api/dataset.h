#pragma once

// Samples for fit, evaluate and predict: features, and targets and sample weights where there are.
//
// Rows are read from files or from the caller's memory slice by slice, and converted on the way
// (uint8, float64 …); nothing is loaded as a whole. The first dimension of every array is the
// sample. A dataset is a small value; copies share their files.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

namespace data {
struct Dataset;
}

// An array in the caller's memory: dense, row-major, the sample first. It must outlive the dataset.
class ArrayView {
 public:
  ArrayView(const float* data, std::vector<int64_t> shape);
  ArrayView(const double* data, std::vector<int64_t> shape);
  ArrayView(const int32_t* data, std::vector<int64_t> shape);
  ArrayView(const int64_t* data, std::vector<int64_t> shape);
  ArrayView(const int8_t* data, std::vector<int64_t> shape);
  ArrayView(const uint8_t* data, std::vector<int64_t> shape);

 private:
  friend class Dataset;
  const void* data_;
  int dtype_;  // the program's own number of the type
  std::vector<int64_t> shape_;
};

class Dataset {
 public:
  // Files that the command line takes for --data, --labels and --sample-weights: .npz (x, y,
  // sample_weight), .npy, IDX, also with gzip. Throws kData or kIo naming the file, kData where
  // numbers of samples differ.
  static Dataset open(const std::string& data, const std::string& labels = "",
                      const std::string& sample_weights = "");
  static Dataset from_npy(const std::string& x, const std::string& y = "",
                          const std::string& sample_weights = "");
  static Dataset from_idx(const std::string& images, const std::string& labels = "");
  static Dataset from_npz(const std::string& path);
  // One .npy per input and output of a model with several.
  static Dataset from_npy_files(const std::vector<std::string>& x,
                                const std::vector<std::string>& y = {});

  // The caller's memory, used in place. Throws kData where numbers of samples differ.
  static Dataset from_arrays(const ArrayView& x);
  static Dataset from_arrays(const ArrayView& x, const ArrayView& y);
  static Dataset from_arrays(const std::vector<ArrayView>& x, const std::vector<ArrayView>& y,
                             const std::vector<ArrayView>& sample_weights = {});

  int64_t row_count() const;

 private:
  friend class Model;
  friend class Trainer;
  explicit Dataset(std::shared_ptr<data::Dataset> data) : data_(std::move(data)) {}
  std::shared_ptr<data::Dataset> data_;
};

}  // namespace plimsoll
