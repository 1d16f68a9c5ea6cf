#include "formats/keras/keras_archive.h"

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/input_lookup.h"
#include "base/spill_folder.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_writer.h"
#include "codec/zip_reader.h"
#include "codec/zip_writer.h"
#include "formats/json_text.h"
#include "formats/keras/keras_compile.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_version.h"
#include "formats/keras/keras_weights.h"
#include "formats/self_test_file.h"
#include "formats/tensor_copy.h"
#include "layers/training/batch_norm_groups.h"

namespace plimsoll::formats {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kMetadata = "metadata.json";
constexpr std::string_view kWeights = "model.weights.h5";
// A vocabulary of the largest size that is read, and the ends of its lines.
constexpr int64_t kMaxAssetBytes = InputLookup::kMostWordBytes + InputLookup::kMostWords * 2;

constexpr std::array<std::string_view, 5> kCodeEndings = {".pkl", ".pickle", ".py", ".pyc", ".npz"};

[[noreturn]] void refuse(const std::string& file, const std::string& expected,
                         const std::string& received, std::string_view next_step) {
  throw Error(ErrorKind::kModel, file + ": expected " + expected + ", received " + received + ". " +
                                     std::string(next_step));
}

// The two members that every archive has are there, and nothing in it could be run.
void check_members(const codec::ZipReader& zip) {
  for (const codec::ZipEntry& entry : zip.entries()) {
    for (const std::string_view ending : kCodeEndings) {
      if (!entry.name.ends_with(ending)) continue;
      refuse(zip.name(), "configuration and weights only", "the member " + entry.name,
             "It may run code when it is loaded: save the model again with model.save().");
    }
  }
  if (zip.find(kConfig) == nullptr) {
    refuse(zip.name(), "a .keras archive with config.json", "a zip without it",
           "Save the model with model.save(\"model.keras\").");
  }
  if (zip.find(kWeights) == nullptr) {
    refuse(zip.name(), "a .keras archive with model.weights.h5", "a zip without it",
           "Save the model with model.save(\"model.keras\"), without sharding.");
  }
}

// The most that a weights file of this model may take: each weight with three optimizer slots, all
// in float64, and room for the names.
int64_t most_weight_bytes(const layers::Model& model) {
  constexpr int64_t kBytesPerWeight = 4 * 8;
  constexpr int64_t kBytesPerLayer = int64_t{64} << 10;
  constexpr int64_t kRoom = int64_t{4} << 20;
  return model.parameters().total() * kBytesPerWeight +
         static_cast<int64_t>(model.layer_count()) * kBytesPerLayer + kRoom;
}

// The weights in place, or inflated beside the system's other temporary files.
std::shared_ptr<const codec::ByteReader> open_weights_member(const codec::ZipReader& zip,
                                                             const layers::Model& model) {
  const codec::ZipEntry& entry = *zip.find(kWeights);
  if (!entry.deflated) return zip.open(entry, "");
  if (entry.bytes > most_weight_bytes(model)) {
    refuse(zip.name() + "/" + entry.name,
           fmt::format("at most {} for this model", to_string(Bytes(most_weight_bytes(model)))),
           to_string(Bytes(entry.bytes)), "The weights belong to another model.");
  }
  return zip.open(entry, choose_spill_folder(""));
}

}  // namespace

namespace {

// Only stored in place: what is deflated was not written by Plimsoll.
std::unique_ptr<TensorSource> open_test_member(const codec::ZipReader& zip) {
  const codec::ZipEntry* entry = zip.find(kSelfTestMember);
  if (entry == nullptr || entry->deflated) return nullptr;
  return open_self_test(codec::Hdf5Reader(zip.open(*entry, "")), "");
}

void write_self_test(TensorSource& test, codec::ByteSink& sink) {
  codec::Hdf5Tree tree;
  add_self_test(tree, test, "");
  codec::Hdf5Writer writer(tree, sink);
  copy_tensors(test, all_tensors(test), writer);
  writer.finish();
}

}  // namespace

namespace {

// Numbers of the file of weights; none where that is deflated, which only the model can bound.
std::optional<std::vector<float>> read_numbers(const codec::ZipReader& zip,
                                               const std::string& path) {
  const codec::ZipEntry& entry = *zip.find(kWeights);
  if (entry.deflated) return std::nullopt;
  const auto file = zip.open(entry, "");
  if (!codec::looks_like_hdf5(*file)) return std::nullopt;
  const codec::Hdf5Reader reader(file);
  if (!reader.is_dataset(path)) return std::nullopt;
  const std::unique_ptr<codec::Hdf5Dataset> numbers = reader.open(path);
  const int64_t count = numbers->info().element_count;
  if (numbers->info().type.type_class != codec::Hdf5Type::Class::kNumber ||
      count > InputLookup::kMostDepth) {
    refuse(zip.name() + "/" + path, fmt::format("at most {} numbers", InputLookup::kMostDepth),
           fmt::format("{} of {}", count, numbers->info().type.described), "Save the model again.");
  }
  std::vector<float> values(static_cast<size_t>(count));
  numbers->read_as(DType::kFloat32, 0, count, values.data());
  return values;
}

Assets assets_of(const codec::ZipReader& zip) {
  Assets assets;
  assets.text = [&zip](const std::string& path) -> std::optional<std::string> {
    const codec::ZipEntry* entry = zip.find("assets/" + path);
    if (entry == nullptr) return std::nullopt;
    return zip.read_text(*entry, kMaxAssetBytes);
  };
  assets.numbers = [&zip](const std::string& path) { return read_numbers(zip, path); };
  return assets;
}

// Metadata of other writers may be anything: only what names our key is looked into.
void read_metadata(const codec::ZipReader& zip, LoadedModel& loaded) {
  const codec::ZipEntry* entry = zip.find(kMetadata);
  if (entry == nullptr) return;
  const std::string text = zip.read_text(*entry, kMaxJsonBytes);
  if (text.find(kBatchNormKey) == std::string::npos) return;
  const std::string origin = zip.name() + "/" + std::string(kMetadata);
  const layers::Config metadata = parse_json(text, origin);
  const layers::Config* found = metadata.find(kBatchNormKey);
  if (found == nullptr) return;
  set_batch_norm(found->is_string() ? found->as_string() : found->to_json(), origin,
                 loaded.compile);
}

}  // namespace

std::unique_ptr<TensorSource> open_archive_weights(
    std::shared_ptr<const codec::FileReader> file, const layers::Model& model,
    const std::optional<layers::CompileOptions>& compile) {
  const codec::ZipReader zip(std::move(file), ErrorKind::kModel);
  check_members(zip);
  return open_weights(open_weights_member(zip, model), model, compile);
}

layers::Config read_archive_config(std::shared_ptr<const codec::FileReader> file) {
  const codec::ZipReader zip(std::move(file), ErrorKind::kModel);
  check_members(zip);
  return parse_json(zip.read_text(*zip.find(kConfig), kMaxJsonBytes),
                    zip.name() + "/" + std::string(kConfig));
}

LoadedModel load_keras_archive(std::shared_ptr<const codec::FileReader> file,
                               const LoadOptions& options) {
  const codec::ZipReader zip(std::move(file), ErrorKind::kModel);
  check_members(zip);
  const std::string origin = zip.name() + "/" + std::string(kConfig);
  const layers::Config config =
      parse_json(zip.read_text(*zip.find(kConfig), kMaxJsonBytes), origin);
  const Assets assets = assets_of(zip);
  LoadedModel loaded{read_architecture(config, zip.name(), options.input_shapes, &assets),
                     std::nullopt, nullptr, nullptr};
  if (const layers::Config* compile = config.find("compile_config")) {
    loaded.compile = read_compile(*compile, loaded.model, zip.name());
  }
  read_metadata(zip, loaded);
  if (!options.weights.empty()) return loaded;
  const auto weights = open_weights_member(zip, loaded.model);
  if (!codec::looks_like_hdf5(*weights)) {
    refuse(weights->name(), "an HDF5 file", "something else", "Save the model again.");
  }
  loaded.weights = open_weights(weights, loaded.model, loaded.compile);
  loaded.self_test = open_test_member(zip);
  return loaded;
}

void save_keras_archive(const std::string& path, const layers::Model& model,
                        const layers::CompileOptions* compile, TensorSource& state,
                        TensorSource* self_test) {
  layers::Config config = write_architecture(model);
  if (compile != nullptr) config.set("compile_config", write_compile(*compile, model));
  layers::Config metadata;
  metadata.set("keras_version", std::string(kKerasVersion));
  if (compile != nullptr && compile->batch_norm_group > 0) {
    metadata.set(std::string(kBatchNormKey), layers::batch_norm_text(compile->batch_norm_group));
  }
  AtomicFile file(path);
  codec::ZipWriter zip(file.file());
  zip.add(kMetadata, print_json(metadata, 0));
  print_json(config, zip.begin(kConfig));
  config = {};
  write_weights(model, compile, state, zip.begin(kWeights));
  if (self_test != nullptr) write_self_test(*self_test, zip.begin(kSelfTestMember));
  zip.finish();
  file.commit();
}

}  // namespace plimsoll::formats
