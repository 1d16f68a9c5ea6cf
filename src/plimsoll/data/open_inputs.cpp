#include "data/open_inputs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/open_forms.h"

namespace plimsoll::data {
namespace {

// Rows of the inputs belong together by number: none may be made of several, or left out.
void check_rows_stay(const DatasetOptions& options, const Port& port, const Dataset& part) {
  const char* what = options.window > 0           ? "windows"
                     : part.vocabulary != nullptr ? "a text"
                     : part.skipped > 0           ? "a folder with damaged images left out"
                                                  : nullptr;
  if (what == nullptr) return;
  throw Error(ErrorKind::kConfig,
              "[" + port.name + "] " + port.path +
                  ": expected one row for each row of the other inputs, received " + what +
                  ". Write the samples of each input to an .npy file.");
}

}  // namespace

bool has_input_paths(const DatasetOptions& options) {
  return !options.inputs.empty() && !options.inputs.front().path.empty();
}

void open_inputs(const DatasetOptions& options, const Dataset* like, Dataset& dataset) {
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const Port& port = options.inputs[i];
    DatasetOptions own = options;
    own.data = port.path;
    own.labels = port.path;  // none of its columns is a label
    own.sample_shape = port.sample_shape;
    own.inputs.clear();
    if (port.lookup != nullptr) own.inputs = {{.name = port.name, .lookup = port.lookup}};
    own.outputs.clear();
    Dataset part;
    open_form(own, like != nullptr && i < like->parts.size() ? &like->parts[i] : nullptr, part);
    check_rows_stay(options, port, part);
    dataset.note_opening(part.opening_peak);
    dataset.features.push_back(part.features.front());
    dataset.file_bytes += part.file_bytes;
    dataset.tables += part.tables;
    dataset.sorted_by_class |= part.sorted_by_class;
    if (dataset.form.find(part.form) == std::string::npos) {
      dataset.form += (dataset.form.empty() ? "" : " and ") + part.form;
    }
    dataset.notes.insert(dataset.notes.end(), part.notes.begin(), part.notes.end());
    dataset.parts.push_back(std::move(part));
  }
}

}  // namespace plimsoll::data
