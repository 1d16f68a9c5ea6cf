#pragma once

// Rows of a dataset in an HDF5 file.
//
// Read through the bounded reader of codec, which keeps the chunks of at most 1 MiB that it decoded
// last: rows in order, or shuffled in blocks, decode each once; a full shuffle of a compressed
// dataset decodes one a row. Larger chunks are decoded once, into an unlinked file.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codec/hdf5/hdf5_reader.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// What reading a file throws, where the file is data and no model.
template <typename Body>
decltype(auto) as_data(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    throw Error(ErrorKind::kData, error.message());
  }
}

// Throws kData where the dataset holds no numbers or no rows.
std::unique_ptr<RowSource> open_hdf5_rows(const codec::Hdf5Reader& file, const std::string& path,
                                          const std::string& spill_directory);

}  // namespace plimsoll::data
