#pragma once

// Rows of one array, wherever they lie: a file on disk or the user's own memory.
//
// A row is one sample. Rows are read on demand into the caller's memory and converted on the way
// (uint8, float64, big-endian, Fortran order …); a source holds only small buffers of its own, and
// says how large they are, so that the plan can count them. Reading by pread keeps file pages in
// the page cache, which is not process memory.

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace plimsoll::data {

class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual int64_t row_count() const = 0;
  virtual const std::vector<int64_t>& row_shape() const = 0;  // of one sample
  virtual DType stored_dtype() const = 0;
  // Where it comes from, for messages.
  virtual const std::string& origin() const = 0;
  // Bytes of buffers that this source holds or will hold while reading.
  virtual Bytes resident_bytes() const = 0;

  // Writes rows [first, first + count) as `dtype`, dense and row-major. Conversions that lose the
  // value (a float that is no integer into an integer) throw kData naming the row. Throws kIo.
  virtual void read(int64_t first, int64_t count, DType dtype, void* destination) = 0;
};

// An .npy file, an IDX file (gzip is inflated once into an unlinked file in `spill_directory`), by
// content rather than by name. Throws kData or kIo naming the file.
std::unique_ptr<RowSource> open_rows(const std::string& path, const std::string& spill_directory);

// A member of an .npz (stored members are read in place, deflated ones are inflated once).
std::unique_ptr<RowSource> open_npz_member(const std::string& path, const std::string& member,
                                           const std::string& spill_directory);

// Rows in the caller's memory, which outlives the source.
std::unique_ptr<RowSource> rows_in_memory(const void* rows, DType dtype, int64_t row_count,
                                          std::vector<int64_t> row_shape, std::string origin);

}  // namespace plimsoll::data
