#include "formats/model_file.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "codec/byte_reader.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/zip_reader.h"
#include "formats/json_text.h"
#include "formats/keras/keras_archive.h"
#include "formats/keras/keras_compile.h"
#include "formats/keras/keras_h5.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_weights.h"
#include "formats/model_document.h"

namespace plimsoll::formats {
namespace {

constexpr std::array<std::string_view, 5> kEndings = {".keras", ".weights.h5", ".h5", ".hdf5",
                                                      ".json"};
constexpr int kJsonIndent = 2;
constexpr int64_t kHeadBytes = 64;

[[noreturn]] void refuse(const std::string& path, const std::string& received,
                         const std::string& next_step) {
  throw Error(ErrorKind::kModel, path + ": expected a model of Keras (.keras, .h5 or JSON), " +
                                     "received " + received + ". " + next_step);
}

// Python that turns what `load` opens into a .keras file.
std::string conversion(const std::string& load) {
  return "Convert it with Keras: import keras; " + load + "; model.save('model.keras')";
}

[[noreturn]] void refuse_missing(const std::string& path) {
  const std::string near = did_you_mean_file(path);
  throw Error(ErrorKind::kIo,
              path + ": expected a model file of Keras, received: No such file or directory." +
                  near + " Python writes one: model.save(\"model.keras\")");
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

// The parts of a TensorFlow checkpoint stand side by side: name.index, name.data-00000-of-00001.
bool fs_has_index(const std::string& path) {
  std::error_code ignored;
  const size_t data = path.rfind(".data-");
  const std::string stem = data == std::string::npos ? path : path.substr(0, data);
  return path.ends_with(".index") || std::filesystem::exists(stem + ".index", ignored);
}

[[noreturn]] void refuse_checkpoint(const std::string& path) {
  refuse(path, "a part of a TensorFlow checkpoint",
         conversion("model = …  # build it again; model.load_weights('" +
                    path.substr(0, path.rfind('.')) + "')") +
             ". TensorFlow before 2.16 reads it.");
}

[[noreturn]] void refuse_weights_alone(const std::string& path) {
  refuse(path, "weights without their model",
         "Name the model's structure and give the weights beside it: model.json --weights " + path +
             ".");
}

std::string read_head(const codec::FileReader& file) {
  std::string head(static_cast<size_t>(std::min(file.size(), kHeadBytes)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  return head;
}

layers::Config read_json(const codec::FileReader& file) {
  if (file.size() > kMaxJsonBytes) {
    refuse(file.name(), fmt::format("JSON of {}", to_string(Bytes(file.size()))),
           fmt::format("A model's structure takes at most {}.", to_string(Bytes(kMaxJsonBytes))));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return parse_json(text, file.name());
}

LoadedModel load_json(const codec::FileReader& file, const LoadOptions& options) {
  const layers::Config json = read_json(file);
  LoadedModel loaded{read_architecture(json, file.name(), options.input_shapes), std::nullopt,
                     nullptr, nullptr};
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

namespace {

// What is no file of a model, by its first bytes; returns otherwise.
void refuse_foreign(const std::string& path, const codec::FileReader& file,
                    const std::string& head) {
  if (head.starts_with("version https://git-lfs.github.com/spec/")) {
    refuse(path, "a Git LFS pointer in place of the file", "Fetch the file itself: git lfs pull");
  }
  if (file.size() == 0) refuse(path, "an empty file", "Save the model with model.save(…) again.");
  if (head.starts_with("\x80") && head.size() > 1 && head[1] >= 2 && head[1] <= 5) {
    refuse(path, "a Python pickle",
           "It could run code when it is opened. " +
               conversion("model = …  # open it where you trust it") + ".");
  }
}

// The forms of a file that holds a model's structure; everything else is refused.
enum class ModelForm : uint8_t { kArchive, kHdf5, kJson };

ModelForm form_of(const std::string& path, const std::shared_ptr<const codec::FileReader>& file) {
  if (codec::looks_like_zip(*file)) return ModelForm::kArchive;
  if (codec::looks_like_hdf5(*file)) {
    if (is_whole_h5(codec::Hdf5Reader(file))) return ModelForm::kHdf5;
    refuse_weights_alone(path);
  }
  const std::string head = read_head(*file);
  refuse_foreign(path, *file, head);
  const size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start != std::string::npos &&
      std::string_view("{[\"").find(head[start]) != std::string_view::npos) {
    return ModelForm::kJson;
  }
  if (fs_has_index(path)) refuse_checkpoint(path);
  refuse(path, "something else", "Save the model with model.save('model.keras').");
}

std::shared_ptr<const codec::FileReader> open_model_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::directory) refuse_folder(path);
  if (type == std::filesystem::file_type::not_found) refuse_missing(path);
  return codec::open_reader(path);
}

LoadedModel load_structure(const std::string& path, const LoadOptions& options) {
  const std::shared_ptr<const codec::FileReader> file = open_model_file(path);
  switch (form_of(path, file)) {
    case ModelForm::kArchive:
      return load_keras_archive(file, options);
    case ModelForm::kHdf5:
      return load_keras_h5(file, options);
    case ModelForm::kJson:
      break;
  }
  return load_json(*file, options);
}

std::unique_ptr<TensorSource> open_weights_file(
    const std::string& path, const layers::Model& model,
    const std::optional<layers::CompileOptions>& compile) {
  const std::shared_ptr<const codec::FileReader> file = open_model_file(path);
  if (codec::looks_like_zip(*file)) return open_archive_weights(file, model, compile);
  if (codec::looks_like_hdf5(*file)) {
    codec::Hdf5Reader reader(file);
    if (is_h5_weights(reader)) return open_h5_weights(std::move(reader), model, compile);
    return open_weights(file, model, compile);
  }
  refuse_foreign(path, *file, read_head(*file));
  if (fs_has_index(path)) refuse_checkpoint(path);
  refuse(path, "no weights of Keras", "Save them with model.save_weights('model.weights.h5').");
}

}  // namespace

layers::Config read_document(const std::string& path) {
  const std::shared_ptr<const codec::FileReader> file = open_model_file(path);
  switch (form_of(path, file)) {
    case ModelForm::kArchive:
      return read_archive_config(file);
    case ModelForm::kHdf5:
      return read_h5_config(codec::Hdf5Reader(file));
    case ModelForm::kJson:
      break;
  }
  return read_json(*file);
}

LoadedModel load_model(const std::string& path, const LoadOptions& options) {
  LoadedModel loaded = load_structure(path, options);
  if (!options.weights.empty()) {
    loaded.weights = open_weights_file(options.weights, loaded.model, loaded.compile);
  }
  return loaded;
}

std::unique_ptr<TensorSource> without_optimizer(std::unique_ptr<TensorSource> weights) {
  if (weights == nullptr) return nullptr;
  return std::make_unique<WeightsAlone>(std::move(weights));
}

void save_model(const std::string& path, const layers::Model& model,
                const layers::CompileOptions* compile, TensorSource& state,
                TensorSource* self_test) {
  check_output_name(path);
  if (has_ending(path, ".keras")) {
    save_keras_archive(path, model, compile, state, self_test);
  } else if (has_ending(path, ".weights.h5")) {
    AtomicFile file(path);
    codec::FileSink sink(file);
    write_weights(model, compile, state, sink);
    file.commit();
  } else if (has_ending(path, ".h5") || has_ending(path, ".hdf5")) {
    save_keras_h5(path, model, compile, state, self_test);
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
              path + ": expected a name that ends in .keras, .h5, .weights.h5 or .json, received " +
                  (ending.empty() ? "no ending" : ending) + "." + did_you_mean(ending, kEndings));
}

}  // namespace plimsoll::formats
