#include "data/dataset.h"

#include <initializer_list>
#include <optional>
#include <utility>

#include "base/error.h"
#include "codec/zip_reader.h"

namespace plimsoll::data {
namespace {

std::vector<const RowSource*> all_sources(const Dataset& dataset) {
  std::vector<const RowSource*> sources;
  for (const auto* group : {&dataset.features, &dataset.targets, &dataset.weights}) {
    for (const std::unique_ptr<RowSource>& source : *group) sources.push_back(source.get());
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

bool is_archive(const std::string& path) {
  return codec::looks_like_zip(*codec::open_reader(path));
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

Dataset open_dataset(const std::string& data, const std::string& labels, const std::string& weights,
                     const std::string& spill_directory) {
  Dataset dataset;
  NpzNames names;
  if (is_archive(data)) {
    names = find_names(codec::ZipReader(codec::open_reader(data), ErrorKind::kData));
    dataset.features.push_back(open_npz_member(data, names.features, spill_directory));
  } else {
    dataset.features.push_back(open_rows(data, spill_directory));
  }
  if (!labels.empty()) {
    dataset.targets.push_back(open_rows(labels, spill_directory));
  } else if (!names.targets.empty()) {
    dataset.targets.push_back(open_npz_member(data, names.targets, spill_directory));
  }
  if (!weights.empty()) {
    dataset.weights.push_back(open_rows(weights, spill_directory));
  } else if (!names.weights.empty()) {
    dataset.weights.push_back(open_npz_member(data, names.weights, spill_directory));
  }
  dataset.check_rows();
  return dataset;
}

}  // namespace plimsoll::data
