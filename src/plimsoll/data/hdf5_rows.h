#pragma once

// Rows of a dataset in an HDF5 file.
//
// Read through the bounded reader of codec, which keeps the chunk that it decoded last: rows in
// order, or shuffled in blocks, decode each chunk once; a full shuffle of a compressed dataset
// decodes one a row.

#include <memory>
#include <string>
#include <vector>

#include "codec/hdf5_reader.h"
#include "data/row_source.h"

namespace plimsoll::data {

// Throws kData where the dataset holds no numbers or no rows.
std::unique_ptr<RowSource> open_hdf5_rows(const codec::Hdf5Reader& file, const std::string& path);

}  // namespace plimsoll::data
