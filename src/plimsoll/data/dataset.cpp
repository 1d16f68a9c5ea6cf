#include "data/dataset.h"

#include <algorithm>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "data/image/mask_rows.h"
#include "data/lookup/looked_up_rows.h"
#include "data/open_forms.h"
#include "data/open_inputs.h"
#include "data/rows/named_arrays.h"
#include "data/text/text_tokens.h"

namespace plimsoll::data {
namespace {

// The most of one source: 8 MiB of blocks that are read, as many that are read next, and their
// edges.
constexpr Bytes kMostAhead = 19_MiB;
// Buffers of one source that are filled when they are made; those for reading chunks and images
// come later.
constexpr Bytes kMostMade = 1_MiB;

// Each once: weights may be those of several outputs.
std::vector<RowSource*> all_sources(const Dataset& dataset) {
  std::vector<RowSource*> sources;
  for (const auto* group : {&dataset.features, &dataset.targets, &dataset.weights}) {
    for (const std::shared_ptr<RowSource>& source : *group) {
      if (std::ranges::find(sources, source.get()) == sources.end()) {
        sources.push_back(source.get());
      }
    }
  }
  return sources;
}

int64_t row_bytes(const RowSource& source) {
  return fixed_shape(source.row_shape()).element_count(1) *
         element_bytes(source.stored_dtype()).count();
}

// What is asked of a source at a time; no ranges: nothing.
struct Asked {
  int64_t ranges = 0;
  int64_t rows = 0;
};

Asked asked_at_a_time(const Dataset& dataset, int64_t batch, Shuffle shuffle) {
  int64_t widest = 1;
  for (const RowSource* source : all_sources(dataset)) {
    widest = std::max(widest, row_bytes(*source));
  }
  if (shuffle == Shuffle::kNone) return {1, rows_ahead(batch, widest)};
  if (shuffle == Shuffle::kFull) return {};
  return {RowOrder::kGroupBlocks, RowOrder::rows_of_block(widest)};
}

Bytes wants(const RowSource& source, const Asked& asked) {
  if (asked.ranges == 0) return {};
  const Bytes all = source.wants_ahead(asked.ranges, asked.rows);
  // Rows of a group come from all of its blocks: a part of them is of no use.
  return asked.ranges > 1 && all > kMostAhead ? Bytes(0) : min(all, kMostAhead);
}

// Labels that are images, of each output that has a loss, and the images they belong to.
void open_mask_targets(const DatasetOptions& options, std::vector<Port> outputs, Dataset& dataset) {
  const auto is_mask = [](const Port& port) { return is_mask_folder(port.path); };
  if (dataset.images == nullptr || !std::ranges::all_of(outputs, is_mask)) {
    const auto odd = std::ranges::find_if(outputs, is_mask);
    throw Error(ErrorKind::kConfig,
                odd->path +
                    (dataset.images == nullptr
                         ? ": expected a folder of images as --data beside a folder of "
                           "masks, received " +
                               dataset.form
                         : ": expected masks for each output, received some alone") +
                    ".");
  }
  MaskedImages opened = open_masked_images(outputs, dataset.images, options);
  dataset.features = {std::move(opened.images)};
  dataset.targets = std::move(opened.masks);
  dataset.skipped += opened.skipped;
  dataset.notes.insert(dataset.notes.end(), opened.notes.begin(), opened.notes.end());
  dataset.form = "images with masks";
}

void open_targets(const DatasetOptions& options, Dataset& dataset) {
  if (!has_own_labels(options)) return;
  std::vector<Port> outputs = options.outputs;
  if (!options.labels.empty()) {
    outputs.resize(1);
    outputs.front().path = options.labels;
  }
  dataset.targets.clear();
  const bool masks =
      std::ranges::any_of(outputs, [](const Port& port) { return is_mask_folder(port.path); });
  if (masks) return open_mask_targets(options, std::move(outputs), dataset);
  for (const Port& port : outputs) {
    dataset.targets.push_back(open_column(port.path, options.spill_directory, dataset));
  }
}

// Whole numbers that the model looks up, of data that are no table: what is in a table, and
// strings, are looked up as they are read.
void look_up_numbers(const DatasetOptions& options, Dataset& dataset) {
  for (size_t i = 0; i < std::min(options.inputs.size(), dataset.features.size()); ++i) {
    const Port& port = options.inputs[i];
    dataset.looked_up = dataset.looked_up || port.lookup != nullptr;
    const bool has_part = i < dataset.parts.size();
    const Dataset& of = has_part ? dataset.parts[i] : dataset;
    const size_t place = has_part ? 0 : i;
    const bool was_string = place < of.were_strings.size() && of.were_strings[place];
    if (port.lookup == nullptr || of.csv != nullptr || was_string) continue;
    std::shared_ptr<RowSource>& source = dataset.features[i];
    if (port.lookup->takes_text) {
      throw Error(ErrorKind::kData,
                  fmt::format("{}: expected a table (.csv) with a column of text for the input {}, "
                              "a folder of texts (.txt) or an array of strings, which layer {} "
                              "looks up, received {}. Write the text to a table.",
                              source->origin(), port.name, port.lookup->layer, dataset.form));
    }
    source = look_up_rows(std::move(source), std::make_shared<FieldIds>(port.lookup));
  }
}

void refuse_windows_of_lookups(const DatasetOptions& options) {
  const auto looks_up = [](const Port& port) { return port.lookup != nullptr; };
  if (options.window == 0 || std::ranges::none_of(options.inputs, looks_up)) return;
  throw Error(ErrorKind::kConfig,
              "--window: expected a model that is trained on numbers, received one that looks "
              "values up. Leave the option out.");
}

}  // namespace

Shuffle Dataset::usual_shuffle() const {
  const bool files_of_their_own = classes != nullptr || images != nullptr;
  return file_bytes > kFullShuffleBytes && !files_of_their_own ? Shuffle::kBlock : Shuffle::kFull;
}

int64_t Dataset::row_count() const {
  const std::vector<RowSource*> sources = all_sources(*this);
  return sources.empty() ? 0 : sources.front()->row_count();
}

Bytes Dataset::resident_bytes() const {
  Bytes total = tables;
  Bytes stacks;
  for (const RowSource* source : all_sources(*this)) {
    total += source->resident_bytes();
    stacks = max(stacks, source->stack_bytes());
  }
  total += stacks;
  return vocabulary == nullptr ? total : total + vocabulary->resident_bytes();
}

Bytes Dataset::opened_bytes() const {
  Bytes total = tables;
  for (const RowSource* source : all_sources(*this)) total += source->opened_bytes();
  return vocabulary == nullptr ? total : total + vocabulary->resident_bytes();
}

Bytes Dataset::held_bytes() const {
  Bytes total = tables + (vocabulary == nullptr ? Bytes() : vocabulary->resident_bytes());
  for (const RowSource* source : all_sources(*this)) {
    total += min(source->resident_bytes(), source->opened_bytes() + kMostMade);
  }
  return total;
}

Bytes Dataset::wants_ahead(int64_t batch, Shuffle shuffle) const {
  const Asked asked = asked_at_a_time(*this, batch, shuffle);
  Bytes total;
  if (shuffle == Shuffle::kFull) {
    for (const RowSource* source : all_sources(*this)) total += source->wants_kept();
  }
  for (const auto& source : features) total += wants(*source, asked);
  return total;
}

void Dataset::grant_ahead(Bytes bytes, int64_t batch, Shuffle shuffle) {
  const MemoryTag tag(MemoryPart::kAhead);
  std::vector<RowSource*> sources = all_sources(*this);
  std::ranges::sort(sources, {}, [](RowSource* source) { return row_bytes(*source); });
  for (RowSource* source : sources) {
    const Bytes whole = source->wants_kept();
    const bool kept = shuffle == Shuffle::kFull && whole > Bytes() && whole <= bytes;
    source->keep(kept);
    if (kept) bytes -= whole;
  }
  const Asked asked = asked_at_a_time(*this, batch, shuffle);
  for (const auto& source : features) {
    const Bytes granted = bytes == Bytes() ? bytes : min(bytes, wants(*source, asked));
    source->grant_ahead(granted, asked.ranges, asked.rows);
    bytes -= granted;
  }
}

void Dataset::check_rows() const {
  const std::vector<RowSource*> sources = all_sources(*this);
  for (const RowSource* source : sources) {
    const RowSource& first = *sources.front();
    if (source->row_count() == first.row_count()) continue;
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected {} rows as in {}, received {}. Features and labels must match.",
                    source->origin(), first.row_count(), first.origin(), source->row_count()));
  }
}

Dataset open_dataset(const DatasetOptions& options, const Dataset* like) {
  const MemoryTag tag(MemoryPart::kData);
  refuse_windows_of_lookups(options);
  Dataset dataset;
  if (has_input_paths(options)) {
    open_inputs(options, like, dataset);
    open_targets(options, dataset);
  } else {
    open_form(options, like, dataset);
    open_targets(options, dataset);
    open_windows(options, dataset);
  }
  look_up_numbers(options, dataset);
  if (!options.weights.empty()) {
    dataset.weights = {open_column(options.weights, options.spill_directory, dataset)};
  }
  if (dataset.weights.size() == 1 && dataset.targets.size() > 1) {
    dataset.weights.resize(dataset.targets.size(), dataset.weights.front());
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
