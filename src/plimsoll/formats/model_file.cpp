#include "formats/model_file.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/suggest.h"
#include "codec/byte_reader.h"
#include "codec/hdf5_reader.h"
#include "codec/zip_reader.h"
#include "formats/json_text.h"
#include "formats/keras_archive.h"
#include "formats/keras_compile.h"
#include "formats/keras_json.h"

namespace plimsoll::formats {
namespace {

constexpr std::array<std::string_view, 2> kEndings = {".keras", ".json"};
constexpr int kJsonIndent = 2;
constexpr int64_t kHeadBytes = 64;

[[noreturn]] void refuse(const std::string& path, const std::string& received,
                         const std::string& next_step) {
  throw Error(ErrorKind::kModel, path + ": expected a .keras file or a Keras model in JSON, " +
                                     "received " + received + ". " + next_step);
}

// Python that turns what `load` opens into a .keras file.
std::string conversion(const std::string& load) {
  return "Convert it with Keras: import keras; " + load + "; model.save('model.keras')";
}

[[noreturn]] void refuse_folder(const std::string& path) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::path(path) / "saved_model.pb")) {
    refuse(path, "a TensorFlow SavedModel folder",
           conversion("model = …  # build it again as in the training script") +
               ", after model.set_weights([v.numpy() for v in tf.saved_model.load('" + path +
               "').variables]).");
  }
  if (fs::exists(fs::path(path) / "checkpoint")) {
    refuse(path, "a folder of TensorFlow checkpoints",
           conversion("model = …  # build it again; model.load_weights(…)") + ".");
  }
  refuse(path, "a folder", "Name the model file in it.");
}

[[noreturn]] void refuse_hdf5(const std::shared_ptr<const codec::FileReader>& file) {
  const codec::Hdf5Reader reader(file);
  if (reader.attribute("", "model_config")) {
    refuse(file->name(), "a whole model in HDF5",
           conversion("model = keras.saving.load_model('" + file->name() + "')") + ".");
  }
  refuse(file->name(), "an HDF5 file of weights without their model",
         conversion("model = …  # build it; model.load_weights('" + file->name() + "')") + ".");
}

std::string read_head(const codec::FileReader& file) {
  std::string head(static_cast<size_t>(std::min(file.size(), kHeadBytes)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  return head;
}

LoadedModel load_json(const codec::FileReader& file) {
  if (file.size() > kMaxJsonBytes) {
    refuse(file.name(), "JSON of " + to_string(Bytes(file.size())),
           "A model's structure takes at most " + to_string(Bytes(kMaxJsonBytes)) + ".");
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  const layers::Config json = parse_json(text, file.name());
  LoadedModel loaded{read_architecture(json, file.name()), std::nullopt, nullptr};
  if (const layers::Config* compile = json.find("compile_config")) {
    loaded.compile = read_compile(*compile, loaded.model, file.name());
  }
  return loaded;
}

bool has_ending(const std::string& path, std::string_view ending) {
  return path.size() > ending.size() && path.ends_with(ending);
}

// Some of another source's tensors.
class WeightsAlone final : public TensorSource {
 public:
  explicit WeightsAlone(std::unique_ptr<TensorSource> whole) : whole_(std::move(whole)) {
    for (size_t i = 0; i < whole_->tensors().size(); ++i) {
      if (whole_->tensors()[i].name.starts_with("optimizer/")) continue;
      infos_.push_back(whole_->tensors()[i]);
      positions_.push_back(i);
    }
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    whole_->read(positions_[index], byte_begin, destination);
  }

 private:
  std::unique_ptr<TensorSource> whole_;
  std::vector<TensorInfo> infos_;
  std::vector<size_t> positions_;
};

}  // namespace

LoadedModel load_model(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse_folder(path);
  const std::shared_ptr<const codec::FileReader> file = codec::open_reader(path);
  if (codec::looks_like_zip(*file)) return load_keras_archive(file);
  if (codec::looks_like_hdf5(*file)) refuse_hdf5(file);
  const std::string head = read_head(*file);
  if (head.starts_with("version https://git-lfs.github.com/spec/")) {
    refuse(path, "a Git LFS pointer in place of the file", "Fetch the file itself: git lfs pull");
  }
  const size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start != std::string::npos &&
      std::string_view("{[\"").find(head[start]) != std::string_view::npos) {
    return load_json(*file);
  }
  refuse(path, file->size() == 0 ? "an empty file" : "something else",
         "Save the model with model.save('model.keras').");
}

std::unique_ptr<TensorSource> without_optimizer(std::unique_ptr<TensorSource> weights) {
  if (weights == nullptr) return nullptr;
  return std::make_unique<WeightsAlone>(std::move(weights));
}

void save_model(const std::string& path, const layers::Model& model,
                const layers::CompileOptions* compile, TensorSource& state) {
  check_output_name(path);
  if (has_ending(path, ".keras")) {
    save_keras_archive(path, model, compile, state);
  } else {
    write_text_file(path, print_json(write_architecture(model), kJsonIndent) + "\n");
  }
}

void check_output_name(const std::string& path) {
  for (const std::string_view ending : kEndings) {
    if (has_ending(path, ending)) return;
  }
  const std::string ending = std::filesystem::path(path).extension().string();
  throw Error(ErrorKind::kConfig,
              path + ": expected a name that ends in .keras or .json, received " +
                  (ending.empty() ? "no ending" : ending) + "." + did_you_mean(ending, kEndings));
}

}  // namespace plimsoll::formats
