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

namespace api {
struct DatasetAccess;
struct DatasetBox;
}  // namespace api

// Data by path and how they are read: what the command line takes, by the same names
// (docs/reference/data.md). What a kind of data does not have is ignored.
struct DataOptions {
  // A path: .npy, .npz, IDX, .csv, .txt, .h5, .tfrecord, also with gzip; a folder of chunks or of
  // images. Several inputs: "NAME=PATH" for each, or paths alone in the model's order.
  std::vector<std::string> data{};
  std::vector<std::string> labels{};  // where they are files of their own; by output
  std::string sample_weights{};       // one weight a sample, or one for each step or pixel
  std::vector<std::string> like{};    // data whose categories, classes and scale hold for these
  // Tables.
  std::string label_column{};         // name or number from 1
  std::string columns{};              // names or numbers, separated by commas; empty: all others
  std::string fill{};                 // for missing values: "mean", or a number
  std::string categories = "onehot";  // or "index"
  std::string header = "auto";        // or "yes", "no"
  bool standardize = false;           // numbers as (x − mean) / standard deviation
  // Texts and series.
  std::string text = "characters";  // or "words"
  int64_t vocabulary = 0;           // words that are kept; 0: 10,000
  int64_t window = 0;               // rows that make one sample
  int64_t stride = 0;               // rows from one window to the next
  int64_t horizon = 1;              // rows from a window's last to its target
  // Images.
  bool skip_damaged = false;  // leaves out what cannot be decoded
  std::string cache{};        // a folder that keeps decoded samples
  std::string cache_limit{};  // "20GiB"; empty: half of the free space
  std::string spill_dir{};    // folder for temporary files
};

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
  // All that the command line reads. Files are opened by the model that runs on them, since images,
  // texts and series take its shapes: what is wrong with them is thrown then (kConfig, kData, kIo).
  static Dataset open(const DataOptions& options);
  // Files that are opened at once: .npz (x, y, sample_weight), .npy, IDX, also with gzip. Throws
  // kData or kIo naming the file, kData where numbers of samples differ.
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

  // Opens files that no model has opened yet; throws kConfig where only a model can.
  int64_t row_count() const;

 private:
  friend struct api::DatasetAccess;
  explicit Dataset(std::shared_ptr<api::DatasetBox> box) : box_(std::move(box)) {}
  std::shared_ptr<api::DatasetBox> box_;
};

}  // namespace plimsoll
