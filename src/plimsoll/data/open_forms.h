#pragma once

// Opening one form of data each. Internal to data.
//
// Each fills features, targets and what is known of the data beside them. Which form a path has is
// told by what it is (a folder, standard input), by its content where that is sure, else by its
// name.

#include "data/dataset.h"

namespace plimsoll::data {

void open_form(const DatasetOptions& options, const Dataset* like, Dataset& dataset);

// Whether labels of that path are images: a folder without chunks.
bool is_mask_folder(const std::string& path);

// Labels or weights in a file of their own: an array, a folder of chunks, or a table's columns.
// What was found and not asked for is added to the notes of `dataset`, and what opening held beside
// what it has open is counted there.
std::unique_ptr<RowSource> open_column(const std::string& path, const std::string& spill_directory,
                                       Dataset& dataset);

// Puts windows in the place of the rows of a text, and of any data where options.window is above 0.
// Targets are the labels, or the data themselves where there are none: one for every row of the
// window where the model gives as many, else the one after it. Windows of a text with a target for
// every row follow each other without overlap; others begin at every row.
void open_windows(const DatasetOptions& options, Dataset& dataset);

}  // namespace plimsoll::data
