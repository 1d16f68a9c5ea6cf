#include "api/dataset.h"

#include <span>

#include "api/spec_impl.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/format.h"
#include "data/dataset.h"

namespace plimsoll {
namespace {

std::unique_ptr<data::RowSource> rows_of(const void* data, DType dtype,
                                         const std::vector<int64_t>& shape,
                                         const std::string& origin) {
  if (shape.empty()) {
    throw Error(ErrorKind::kData, "[" + origin +
                                      "] expected an array of samples, received the "
                                      "shape (). The first dimension is the sample.");
  }
  for (const int64_t dim : shape) {
    if (dim < 0) {
      throw Error(ErrorKind::kData,
                  fmt::format("[{}] expected dimensions of 0 or more, received {}.", origin, dim));
    }
  }
  return data::rows_in_memory(data, dtype, shape.front(), {shape.begin() + 1, shape.end()}, origin);
}

}  // namespace

ArrayView::ArrayView(const float* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kFloat32)), shape_(std::move(shape)) {}
ArrayView::ArrayView(const double* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kFloat64)), shape_(std::move(shape)) {}
ArrayView::ArrayView(const int32_t* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kInt32)), shape_(std::move(shape)) {}
ArrayView::ArrayView(const int64_t* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kInt64)), shape_(std::move(shape)) {}
ArrayView::ArrayView(const int8_t* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kInt8)), shape_(std::move(shape)) {}
ArrayView::ArrayView(const uint8_t* data, std::vector<int64_t> shape)
    : data_(data), dtype_(static_cast<int>(DType::kUInt8)), shape_(std::move(shape)) {}

Dataset Dataset::open(const std::string& data, const std::string& labels,
                      const std::string& sample_weights) {
  return api::DatasetAccess::make(
      std::make_shared<data::Dataset>(data::open_dataset(data, labels, sample_weights, "")));
}

Dataset Dataset::open(const DataOptions& options) {
  auto box = std::make_shared<api::DatasetBox>();
  run::DataPaths& paths = box->request.paths;
  paths.data = options.data;
  paths.labels = options.labels;
  paths.like = options.like;
  paths.cache_limit = options.cache_limit;
  paths.data_option = "data";
  paths.labels_option = "labels";
  data::DatasetOptions& set = paths.set;
  set.weights = options.sample_weights;
  set.spill_directory = options.spill_dir;
  set.label_column = options.label_column;
  set.columns = options.columns;
  set.fill = options.fill;
  set.categories = options.categories;
  set.header = options.header;
  set.standardize = options.standardize;
  set.text = options.text;
  set.vocabulary = options.vocabulary;
  set.window = options.window;
  set.stride = options.stride;
  set.horizon = options.horizon;
  set.skip_damaged = options.skip_damaged;
  set.cache = options.cache;
  if (paths.data.empty()) {
    throw Error(ErrorKind::kConfig, "data: expected a path, received none.");
  }
  return Dataset(std::move(box));
}

Dataset Dataset::from_npy(const std::string& x, const std::string& y,
                          const std::string& sample_weights) {
  return open(x, y, sample_weights);
}
Dataset Dataset::from_idx(const std::string& images, const std::string& labels) {
  return open(images, labels);
}
Dataset Dataset::from_npz(const std::string& path) { return open(path); }

Dataset Dataset::from_npy_files(const std::vector<std::string>& x,
                                const std::vector<std::string>& y) {
  auto dataset = std::make_shared<data::Dataset>();
  for (const std::string& path : x) dataset->features.push_back(data::open_rows(path, ""));
  for (const std::string& path : y) dataset->targets.push_back(data::open_rows(path, ""));
  dataset->check_rows();
  return api::DatasetAccess::make(std::move(dataset));
}

Dataset Dataset::from_arrays(const ArrayView& x) {
  return from_arrays(std::vector<ArrayView>{x}, {});
}
Dataset Dataset::from_arrays(const ArrayView& x, const ArrayView& y) {
  return from_arrays(std::vector<ArrayView>{x}, std::vector<ArrayView>{y});
}

Dataset Dataset::from_arrays(const std::vector<ArrayView>& x, const std::vector<ArrayView>& y,
                             const std::vector<ArrayView>& sample_weights) {
  auto dataset = std::make_shared<data::Dataset>();
  const auto add = [](const std::vector<ArrayView>& views, const std::string& origin,
                      std::vector<std::shared_ptr<data::RowSource>>& sources) {
    for (const ArrayView& view : views) {
      const std::string name =
          views.size() == 1 ? origin : fmt::format("{} {}", origin, sources.size());
      sources.push_back(rows_of(view.data_, static_cast<DType>(view.dtype_), view.shape_, name));
    }
  };
  add(x, "x", dataset->features);
  add(y, "y", dataset->targets);
  add(sample_weights, "sample weights", dataset->weights);
  dataset->check_rows();
  return api::DatasetAccess::make(std::move(dataset));
}

int64_t Dataset::row_count() const {
  if (box_->request.opened == nullptr) {
    const run::DataPaths& paths = box_->request.paths;
    if (paths.data.size() > 1 || paths.labels.size() > 1) {
      throw Error(ErrorKind::kConfig, fmt::format("row_count: expected data of one path, or of a "
                                                  "model that has run on them, received {} paths.",
                                                  paths.data.size()));
    }
    data::DatasetOptions set = paths.set;
    set.data = paths.data.front();
    if (!paths.labels.empty()) set.labels = paths.labels.front();
    return data::open_dataset(set).row_count();
  }
  return box_->request.opened->row_count();
}

}  // namespace plimsoll
