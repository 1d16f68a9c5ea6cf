#include "data/open_forms.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/npy.h"
#include "codec/tf_record.h"
#include "codec/utf16.h"
#include "codec/zip_reader.h"
#include "data/csv/csv_rows.h"
#include "data/csv/csv_schema.h"
#include "data/hdf5/hdf5_frame.h"
#include "data/hdf5/hdf5_rows.h"
#include "data/image/image_rows.h"
#include "data/lookup/string_rows.h"
#include "data/record/record_files.h"
#include "data/record/record_rows.h"
#include "data/rows/class_rows.h"
#include "data/rows/folder_entries.h"
#include "data/rows/joined_rows.h"
#include "data/rows/named_arrays.h"
#include "data/rows/window_rows.h"
#include "data/standard_input.h"
#include "data/text/text_tokens.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

ArrayNames names_in(const codec::ZipReader& archive, const DatasetOptions& options) {
  const HoldsArray holds = [&](const std::string& name) {
    return archive.find(name + ".npy") != nullptr;
  };
  ArrayNames names = find_named(options, archive.name(), holds);
  add_usual_names(options, holds, names);
  if (!names.features.empty()) return names;
  std::vector<std::string> known;
  for (const codec::ZipEntry& entry : archive.entries()) known.push_back(entry.name);
  const bool one = options.inputs.size() < 2;
  throw Error(ErrorKind::kData, archive.name() + ": expected " + expected_arrays(options) +
                                    ", received an archive of " +
                                    (known.empty() ? "nothing" : list_names(known)) +
                                    (one ? ". Save them with np.savez(path, x=…, y=…)."
                                         : ". Save them under these names with np.savez."));
}

// The name's ending, that of compression aside.
bool has_ending(const std::string& path, std::initializer_list<std::string_view> endings) {
  std::string_view name = path;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_csv(const std::string& path) { return has_ending(path, {".csv", ".tsv", ".data"}); }

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Gives bytes, or text in UTF-8 whatever it is stored as.
std::shared_ptr<const codec::FileReader> open_text(const std::string& path,
                                                   const std::string& spill_directory) {
  const auto file = without_gzip(codec::open_reader(path), spill_directory);
  if (!codec::has_utf16_mark(*file)) return file;
  return codec::utf16_to_file(*file, choose_spill_folder(spill_directory));
}

// What options name a file of its own for is not taken from the archive.
// `take_strings` takes the features of a model's input of that number where they are strings.
template <typename Open, typename TakeStrings>
void take_arrays(const DatasetOptions& options, const ArrayNames& names, Dataset& dataset,
                 const Open& open, const TakeStrings& take_strings) {
  for (const std::string& name : names.features) {
    if (take_strings(dataset.features.size(), name)) continue;
    dataset.features.push_back(open(name));
  }
  if (!has_own_labels(options)) {
    for (const std::string& name : names.targets) dataset.targets.push_back(open(name));
  }
  if (!names.weights.empty() && options.weights.empty()) {
    dataset.weights.push_back(open(names.weights));
  }
}

constexpr auto kNoStrings = [](size_t, const std::string&) { return false; };

// The lookup of an input that takes strings; null: it takes numbers.
std::shared_ptr<const InputLookup> strings_of(const DatasetOptions& options, size_t input) {
  const auto lookup = input < options.inputs.size() ? options.inputs[input].lookup : nullptr;
  return lookup != nullptr && lookup->takes_text ? lookup : nullptr;
}

// Rows of an input that was strings. They are numbers by now; the vocabulary is counted here.
void add_looked_up(LookedUpStrings strings, const FieldIds& ids, Dataset& dataset) {
  dataset.note_opening(strings.opening_peak + Bytes(ids.held_bytes()));
  dataset.tables += Bytes(ids.held_bytes());
  dataset.were_strings.resize(dataset.features.size());
  dataset.were_strings.push_back(true);
  dataset.features.push_back(std::move(strings.rows));
}

// False where the model takes no strings, or the array has none.
bool take_strings(const DatasetOptions& options, const codec::FileReader& file, Dataset& dataset) {
  const auto lookup = strings_of(options, dataset.features.size());
  if (lookup == nullptr || !codec::looks_like_npy(file)) return false;
  const std::optional<codec::NpyStrings> array = codec::read_npy_strings(file);
  if (!array) return false;
  const auto ids = std::make_shared<FieldIds>(lookup);
  add_looked_up(look_up_strings(file, *array, ids, options.spill_directory), *ids, dataset);
  return true;
}

bool take_strings(const DatasetOptions& options, const codec::Hdf5Reader& reader,
                  const std::string& name, Dataset& dataset) {
  const auto lookup = strings_of(options, dataset.features.size());
  const auto is_string = [&] { return reader.type(name).is_string(); };
  if (lookup == nullptr || !reader.is_dataset(name) || !as_data(is_string)) return false;
  const auto ids = std::make_shared<FieldIds>(lookup);
  LookedUpStrings strings = as_data([&] {
    const auto stored = reader.open(name, options.spill_directory);
    return look_up_strings(*stored, reader.name() + "/" + name, ids, options.spill_directory);
  });
  add_looked_up(std::move(strings), *ids, dataset);
  return true;
}

void take_notes(const std::vector<std::string>& notes, Dataset& dataset) {
  dataset.notes.insert(dataset.notes.end(), notes.begin(), notes.end());
}

void open_table(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  const auto file = open_text(options.data, options.spill_directory);
  const bool known = like != nullptr && like->csv != nullptr;
  dataset.csv = known ? like->csv : std::make_shared<const CsvSchema>(infer_csv(file, options));
  CsvSources sources = open_csv(file, dataset.csv, known, options);
  if (!known) take_notes(dataset.csv->notes, dataset);
  // A known schema is held by the data set that it is of.
  dataset.opening_peak =
      known ? sources.opening_peak
            : max(dataset.csv->opening_peak, dataset.csv->resident_bytes() + sources.opening_peak);
  take_notes(sources.notes, dataset);
  if (!sources.counts_schema) dataset.tables = dataset.csv->resident_bytes();
  dataset.form = "CSV";
  dataset.file_bytes = Bytes(file->size());
  for (auto& rows : sources.features) dataset.features.push_back(std::move(rows));
  if (sources.labels) dataset.targets.push_back(std::move(sources.labels));
}

// The files of chunks in a folder, by name.
std::vector<std::string> chunks_in(const std::string& folder) {
  std::vector<std::string> paths;
  const std::error_code failed = visit_entries(folder, [&](const fs::directory_entry& entry) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".npy" || ending == ".npz") paths.push_back(entry.path().string());
    return true;
  });
  if (failed) throw_io(folder, "list the folder", failed.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Whether labels are images. (An input's own path stands for its labels where it has none.)
bool has_masks(const DatasetOptions& options) {
  if (!options.labels.empty())
    return options.labels != options.data && is_mask_folder(options.labels);
  return !options.outputs.empty() && is_mask_folder(options.outputs.front().path);
}

// Class folders where any holds samples, unless labels are named: those are of all samples. What
// lies beside class folders is no sample.
SampleFolder::Layout layout_of(const DatasetOptions& options, SampleFolder::Kind kind,
                               std::vector<std::string>& notes) {
  const SampleFolder::Loose loose = SampleFolder::find_loose(options.data, kind);
  if (loose.count == 0) return SampleFolder::Layout::kClasses;
  if (has_own_labels(options) || !SampleFolder::has_class_files(options.data, kind)) {
    return SampleFolder::Layout::kFlat;
  }
  const char* what = kind == SampleFolder::Kind::kTexts ? "text" : "image";
  notes.push_back(options.data + ": left out " +
                  (loose.count == 1 ? fmt::format("1 {} that lies", what)
                                    : fmt::format("{} {}s that lie", loose.count, what)) +
                  " beside the class folders (" + loose.first +
                  (loose.count == 1 ? ")." : " and others)."));
  return SampleFolder::Layout::kClasses;
}

void open_image_folder(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  dataset.form = "images";
  if (has_masks(options)) {  // rows are made once it is known which masks are sound
    dataset.images = std::make_shared<SampleFolder>(options.data, SampleFolder::Layout::kFlat);
    dataset.file_bytes = Bytes(dataset.images->file_bytes());
    return;
  }
  const bool known = like != nullptr && like->classes != nullptr;
  const SampleFolder::Layout layout =
      layout_of(options, SampleFolder::Kind::kImages, dataset.notes);
  ImageSources sources =
      open_images(options.data, known ? like->classes.get() : nullptr, options, layout);
  dataset.file_bytes = Bytes(sources.folder->file_bytes());
  dataset.skipped = sources.skipped;
  take_notes(sources.notes, dataset);
  dataset.features.push_back(std::move(sources.images));
  if (layout == SampleFolder::Layout::kFlat) {
    dataset.images = sources.folder;
    return;
  }
  dataset.sorted_by_class = true;
  dataset.classes = std::make_shared<const std::vector<std::string>>(sources.folder->classes());
  dataset.targets.push_back(std::move(sources.labels));
}

// Files of one text each, which the model looks up.
void open_text_folder(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  using Layout = SampleFolder::Layout;
  constexpr auto kTexts = SampleFolder::Kind::kTexts;
  dataset.form = "texts";
  const bool known = like != nullptr && like->classes != nullptr;
  const Layout layout = layout_of(options, kTexts, dataset.notes);
  const auto folder = std::make_shared<const SampleFolder>(
      options.data, layout, known ? like->classes.get() : nullptr, kTexts);
  check_classes(options, "class folders", folder->filled_classes());
  dataset.file_bytes = Bytes(folder->file_bytes());
  const auto ids = std::make_shared<FieldIds>(strings_of(options, 0));
  LookedUpStrings strings = look_up_files(*folder, ids, options.spill_directory);
  strings.opening_peak += folder->resident_bytes();
  add_looked_up(std::move(strings), *ids, dataset);
  if (layout == Layout::kFlat) return;
  dataset.tables += folder->resident_bytes();
  dataset.sorted_by_class = true;
  dataset.classes = std::make_shared<const std::vector<std::string>>(folder->classes());
  dataset.targets.push_back(class_rows(folder, options));
}

Bytes size_of(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  for (const std::string& path : paths) bytes += codec::open_reader(path)->size();
  return Bytes(bytes);
}

using Paths = std::shared_ptr<const std::vector<std::string>>;

std::unique_ptr<RowSource> join_files(const std::string& folder, const Paths& paths,
                                      const std::string& member, const std::string& spill) {
  int64_t bytes = 0;
  constexpr int64_t kBlockBytes = 32;  // of a string and its block on the heap, beside its text
  for (const std::string& path : *paths) {
    bytes += static_cast<int64_t>(sizeof(std::string) + path.capacity()) + kBlockBytes;
  }
  const auto open = [paths, member, spill](size_t i) {
    const std::string& path = (*paths)[i];
    return member.empty() ? open_rows(path, spill) : open_npz_member(path, member, spill);
  };
  return join_rows(folder, paths->size(), open, Bytes(bytes));
}

// A folder of .npy files, or of .npz files that hold x and y each.
void open_chunks(const DatasetOptions& options, std::vector<std::string> paths, Dataset& dataset) {
  const std::string& spill = options.spill_directory;
  dataset.form = fmt::format("{} chunks", paths.size());
  dataset.file_bytes = size_of(paths);
  const bool archives = paths.front().ends_with(".npz");
  for (const std::string& path : paths) {
    if (path.ends_with(".npz") == archives) continue;
    throw Error(ErrorKind::kData, options.data +
                                      ": expected chunks of one kind, received .npy and "
                                      ".npz files. Give each kind its own folder.");
  }
  const auto shared = std::make_shared<const std::vector<std::string>>(std::move(paths));
  if (!archives) {
    dataset.features.push_back(join_files(options.data, shared, "", spill));
    return;
  }
  const ArrayNames names =
      names_in(codec::ZipReader(codec::open_reader(shared->front()), ErrorKind::kData), options);
  const auto open = [&](const std::string& name) {
    return join_files(options.data, shared, name, spill);
  };
  take_arrays(options, names, dataset, open, kNoStrings);
}

void open_archive(const DatasetOptions& options,
                  const std::shared_ptr<const codec::FileReader>& file, Dataset& dataset) {
  const std::string& spill = options.spill_directory;
  dataset.form = "NumPy archive";
  const codec::ZipReader archive(file, ErrorKind::kData);
  dataset.opening_peak = archive.held_bytes();
  const auto open = [&](const std::string& name) { return open_npz_member(archive, name, spill); };
  const auto strings = [&](size_t input, const std::string& name) {
    const codec::ZipEntry* entry = archive.find(name + ".npy");
    if (entry == nullptr || strings_of(options, input) == nullptr) return false;
    const std::string folder = entry->deflated ? choose_spill_folder(spill) : spill;
    return take_strings(options, *archive.open(*entry, folder), dataset);
  };
  take_arrays(options, names_in(archive, options), dataset, open, strings);
}

void open_input(const DatasetOptions& options, Dataset& dataset) {
  const auto file = spool_input(0, choose_spill_folder(options.spill_directory), options.ranks);
  dataset.file_bytes = Bytes(file->size());
  if (codec::looks_like_zip(*file)) {
    open_archive(options, file, dataset);
  } else {
    StreamSources sources = open_stream(file, options.labels.empty());
    dataset.features.push_back(std::move(sources.features));
    if (sources.labels) dataset.targets.push_back(std::move(sources.labels));
  }
  dataset.form = "standard input";
}

void open_hdf5(const DatasetOptions& options, const std::shared_ptr<const codec::FileReader>& file,
               Dataset& dataset) {
  const codec::Hdf5Reader reader(file);
  const HoldsArray holds = [&](const std::string& name) { return reader.is_dataset(name); };
  dataset.form = "HDF5";
  ArrayNames names = find_named(options, options.data, holds);
  if (!options.columns.empty()) names.features = {options.columns};
  if (!options.label_column.empty()) names.targets = {options.label_column};
  add_usual_names(options, holds, names);
  if (names.features.empty() || !holds(names.features.front())) {
    std::optional<FrameSources> sources = open_hdf5_columns(reader, options);
    const auto frame = sources ? std::nullopt : find_hdf5_frame(reader);
    if (frame) sources = open_hdf5_frame(reader, *frame, options);
    if (sources) {
      dataset.form = sources->form;
      dataset.opening_peak = sources->opening_peak;
      take_notes(sources->notes, dataset);
      dataset.features.push_back(std::move(sources->features));
      if (sources->labels) dataset.targets.push_back(std::move(sources->labels));
      return;
    }
  }
  if (names.features.empty()) {
    const std::string known = list_names(reader.list_datasets(""));
    const bool one = options.inputs.size() < 2;
    throw Error(ErrorKind::kData,
                options.data + ": expected " +
                    (one ? "datasets x and y" : expected_arrays(options)) + ", received " + known +
                    (one ? ". Name them with --columns and --label-column." : "."));
  }
  const auto open = [&](const std::string& name) {
    return open_hdf5_rows(reader, name, options.spill_directory);
  };
  const auto strings = [&](size_t, const std::string& name) {
    return take_strings(options, reader, name, dataset);
  };
  take_arrays(options, names, dataset, open, strings);
}

void open_text_file(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  const auto file = open_text(options.data, options.spill_directory);
  if (options.text != "characters" && options.text != "words") {
    throw Error(ErrorKind::kConfig,
                "--text: expected characters or words, received \"" + options.text + "\".");
  }
  const bool known = like != nullptr && like->vocabulary != nullptr;
  dataset.vocabulary =
      known ? like->vocabulary
            : std::make_shared<const Vocabulary>(find_vocabulary(
                  file, options.text == "words", options.vocabulary, options.spill_directory));
  dataset.opening_peak = dataset.vocabulary->opening_peak;
  dataset.form = fmt::format("{} ({} different)", options.text, dataset.vocabulary->tokens.size());
  dataset.file_bytes = Bytes(file->size());
  dataset.features.push_back(
      make_array_rows(tokenize(file, *dataset.vocabulary, options.spill_directory)));
}

void open_records_files(const DatasetOptions& options, const std::vector<std::string>& paths,
                        Dataset& dataset) {
  std::vector<RecordFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    files.emplace_back([&options, &dataset, path] {
      auto file = without_gzip(codec::open_reader(path), options.spill_directory);
      dataset.file_bytes += Bytes(file->size());
      return file;
    });
  }
  dataset.form = paths.size() == 1 ? "TFRecord" : fmt::format("{} TFRecord files", paths.size());
  if (paths.size() == 1) {
    const std::string note = note_of_shard(paths.front());
    if (!note.empty()) dataset.notes.push_back(note);
  }
  RecordSources sources = open_records(files, options);
  dataset.opening_peak = sources.opening_peak;
  take_notes(sources.notes, dataset);
  dataset.tables += sources.tables;
  dataset.were_strings = std::move(sources.were_strings);
  dataset.features = std::move(sources.features);
  dataset.targets = std::move(sources.labels);
}

void open_file(const DatasetOptions& options, Dataset& dataset) {
  const auto file = codec::open_reader(options.data);
  dataset.file_bytes = Bytes(file->size());
  if (codec::looks_like_zip(*file)) return open_archive(options, file, dataset);
  if (codec::looks_like_hdf5(*file)) return open_hdf5(options, file, dataset);
  if (codec::looks_like_tf_record(*file)) {
    dataset.file_bytes = Bytes();
    return open_records_files(options, {options.data}, dataset);
  }
  dataset.form = codec::looks_like_npy(*file) ? "NumPy" : "IDX";
  if (take_strings(options, *file, dataset)) return;
  dataset.features.push_back(open_rows(options.data, options.spill_directory));
}

}  // namespace

void open_form(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  if (options.data == "-") return open_input(options, dataset);
  if (is_folder(options.data)) {
    std::vector<std::string> chunks = chunks_in(options.data);
    if (!chunks.empty()) return open_chunks(options, std::move(chunks), dataset);
    const std::vector<std::string> records = record_files_in(options.data);
    if (!records.empty()) return open_records_files(options, records, dataset);
    const bool texts = options.inputs.size() == 1 && strings_of(options, 0) != nullptr;
    if (texts) return open_text_folder(options, like, dataset);
    return open_image_folder(options, like, dataset);
  }
  if (is_record_pattern(options.data)) {
    return open_records_files(options, record_files_like(options.data), dataset);
  }
  if (is_csv(options.data)) return open_table(options, like, dataset);
  if (has_ending(options.data, {".txt"})) return open_text_file(options, like, dataset);
  if (has_ending(options.data, {".tfrecord", ".tfrecords"}) || is_shard_name(options.data)) {
    return open_records_files(options, {options.data}, dataset);
  }
  open_file(options, dataset);
}

bool is_mask_folder(const std::string& path) { return is_folder(path) && chunks_in(path).empty(); }

std::unique_ptr<RowSource> open_column(const std::string& path, const std::string& spill_directory,
                                       Dataset& dataset) {
  if (is_folder(path)) {
    std::vector<std::string> paths = chunks_in(path);
    if (paths.empty()) {
      throw Error(ErrorKind::kData, path + ": expected .npy files, received a folder of none.");
    }
    return join_files(path, std::make_shared<const std::vector<std::string>>(std::move(paths)), "",
                      spill_directory);
  }
  if (!is_csv(path)) return open_rows(path, spill_directory);
  DatasetOptions options;
  options.labels = path;  // none of the columns is the label of another
  options.categories = "index";
  options.spill_directory = spill_directory;
  const auto file = open_text(path, spill_directory);
  auto schema = std::make_shared<const CsvSchema>(infer_csv(file, options));
  take_notes(schema->notes, dataset);
  CsvSources sources = open_csv(file, schema, false, options);
  dataset.note_opening(max(schema->opening_peak, schema->resident_bytes() + sources.opening_peak));
  return std::move(sources.features.front());
}

void open_windows(const DatasetOptions& options, Dataset& dataset) {
  const bool text = dataset.vocabulary != nullptr;
  WindowPlan plan;
  plan.window = options.window;
  if (plan.window == 0 && text && !options.sample_shape.empty()) {
    plan.window = options.sample_shape.front();
  }
  if (plan.window == 0 && !text) return;
  if (plan.window < 1) {
    throw Error(ErrorKind::kConfig,
                "--window: expected the length of a sample, since the model "
                "takes any, received none.");
  }
  plan.horizon = std::max<int64_t>(options.horizon, 1);
  const bool shifted = plan.window > 1 && options.target_elements == plan.window;
  plan.stride = options.stride > 0 ? options.stride : text && shifted ? plan.window : 1;
  const std::shared_ptr<RowSource> series = dataset.features.front();
  const std::shared_ptr<RowSource> target =
      dataset.targets.empty() ? series : dataset.targets.front();
  const int64_t rows = std::min(series->row_count(), target->row_count());
  const int64_t count = window_count(plan, rows);
  if (count < 1) {
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected at least {} rows for a window of {} and its target, received {}.",
                    series->origin(), plan.window + plan.horizon, plan.window, rows));
  }
  dataset.features = {window_rows(series, count, plan.stride, 0, plan.window, true)};
  const bool counts = target != series;
  dataset.targets = {
      shifted ? window_rows(target, count, plan.stride, plan.horizon, plan.window, counts)
              : window_rows(target, count, plan.stride, plan.window + plan.horizon - 1, 0, counts)};
}

}  // namespace plimsoll::data
