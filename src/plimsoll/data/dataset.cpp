#include "data/dataset.h"

#include <initializer_list>
#include <optional>
#include <utility>

#include "base/error.h"
#include "codec/npy.h"
#include "codec/zip_reader.h"
#include "data/csv_rows.h"
#include "data/csv_schema.h"

namespace plimsoll::data {
namespace {

std::vector<const RowSource*> all_sources(const Dataset& dataset) {
  std::vector<const RowSource*> sources;
  for (const auto* group : {&dataset.features, &dataset.targets, &dataset.weights}) {
    for (const std::shared_ptr<RowSource>& source : *group) sources.push_back(source.get());
  }
  return sources;
}

// Names of the arrays in an .npz.
struct NpzNames {
  std::string features;
  std::string targets;
  std::string weights;
};

bool holds(const codec::ZipReader& archive, const std::string& name) {
  return archive.find(name + ".npy") != nullptr;
}

NpzNames find_names(const codec::ZipReader& archive) {
  static const std::initializer_list<std::pair<const char*, const char*>> kSpellings = {
      {"x", "y"}, {"x_train", "y_train"}, {"x_test", "y_test"}, {"arr_0", "arr_1"}};
  NpzNames names;
  for (const auto& [features, targets] : kSpellings) {
    if (!holds(archive, features)) continue;
    names.features = features;
    if (holds(archive, targets)) names.targets = targets;
    break;
  }
  if (names.features.empty()) {
    std::string known;
    for (const codec::ZipEntry& entry : archive.entries()) {
      known += (known.empty() ? "" : ", ") + entry.name;
    }
    throw Error(ErrorKind::kData, archive.name() +
                                      ": expected arrays x and y (or x_train and y_train), "
                                      "received an archive of " +
                                      (known.empty() ? "nothing" : known) +
                                      ". Save them with np.savez(path, x=…, y=…).");
  }
  if (holds(archive, "sample_weight")) names.weights = "sample_weight";
  return names;
}

bool is_csv(const std::string& path) {
  std::string_view name = path;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

std::shared_ptr<const codec::FileReader> open_text(const std::string& path,
                                                   const std::string& spill_directory) {
  return without_gzip(codec::open_reader(path), spill_directory);
}

void open_table(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  const auto file = open_text(options.data, options.spill_directory);
  const bool known = like != nullptr && like->csv != nullptr;
  dataset.csv = known ? like->csv : std::make_shared<const CsvSchema>(infer_csv(file, options));
  CsvSources sources = open_csv(file, dataset.csv, known, options);
  dataset.form = "CSV";
  dataset.file_bytes = Bytes(file->size());
  dataset.features.push_back(std::move(sources.features));
  if (sources.labels) dataset.targets.push_back(std::move(sources.labels));
}

void open_arrays(const DatasetOptions& options, Dataset& dataset) {
  const std::string& spill = options.spill_directory;
  const auto file = codec::open_reader(options.data);
  dataset.file_bytes = Bytes(file->size());
  if (!codec::looks_like_zip(*file)) {
    dataset.form = codec::looks_like_npy(*file) ? "NumPy" : "IDX";
    dataset.features.push_back(open_rows(options.data, spill));
    return;
  }
  dataset.form = "NumPy archive";
  const NpzNames names = find_names(codec::ZipReader(file, ErrorKind::kData));
  dataset.features.push_back(open_npz_member(options.data, names.features, spill));
  if (!names.targets.empty() && options.labels.empty()) {
    dataset.targets.push_back(open_npz_member(options.data, names.targets, spill));
  }
  if (!names.weights.empty() && options.weights.empty()) {
    dataset.weights.push_back(open_npz_member(options.data, names.weights, spill));
  }
}

// Labels or weights in a file of their own: an array, or the columns of a table as numbers.
std::unique_ptr<RowSource> open_column(const std::string& path,
                                       const std::string& spill_directory) {
  if (!is_csv(path)) return open_rows(path, spill_directory);
  DatasetOptions options;
  options.labels = path;  // none of the columns is the label of another
  options.categories = "index";
  options.spill_directory = spill_directory;
  const auto file = open_text(path, spill_directory);
  auto schema = std::make_shared<const CsvSchema>(infer_csv(file, options));
  return open_csv(file, std::move(schema), false, options).features;
}

}  // namespace

int64_t Dataset::row_count() const {
  const std::vector<const RowSource*> sources = all_sources(*this);
  return sources.empty() ? 0 : sources.front()->row_count();
}

Bytes Dataset::resident_bytes() const {
  Bytes total;
  for (const RowSource* source : all_sources(*this)) total += source->resident_bytes();
  return total;
}

void Dataset::check_rows() const {
  const std::vector<const RowSource*> sources = all_sources(*this);
  for (const RowSource* source : sources) {
    const RowSource& first = *sources.front();
    if (source->row_count() == first.row_count()) continue;
    throw Error(ErrorKind::kData,
                source->origin() + ": expected " + std::to_string(first.row_count()) +
                    " rows as in " + first.origin() + ", received " +
                    std::to_string(source->row_count()) + ". Features and labels must match.");
  }
}

Dataset open_dataset(const DatasetOptions& options, const Dataset* like) {
  Dataset dataset;
  if (is_csv(options.data)) {
    open_table(options, like, dataset);
  } else {
    open_arrays(options, dataset);
  }
  const std::string& spill = options.spill_directory;
  if (!options.labels.empty()) {
    dataset.targets.clear();
    dataset.targets.push_back(open_column(options.labels, spill));
  }
  if (!options.weights.empty()) {
    dataset.weights.clear();
    dataset.weights.push_back(open_column(options.weights, spill));
  }
  dataset.check_rows();
  return dataset;
}

Dataset open_dataset(const std::string& data, const std::string& labels, const std::string& weights,
                     const std::string& spill_directory) {
  DatasetOptions options;
  options.data = data;
  options.labels = labels;
  options.weights = weights;
  options.spill_directory = spill_directory;
  return open_dataset(options);
}

}  // namespace plimsoll::data
