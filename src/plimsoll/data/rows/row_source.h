#pragma once

// Rows of one array, wherever they lie: a file on disk or the user's own memory.
//
// A row is one sample. Rows are read on demand into the caller's memory and converted on the way
// (uint8, float64, big-endian, Fortran order …); a source holds only small buffers of its own, and
// says how large they are, so that the plan can count them. Reading by pread keeps file pages in
// the page cache, which is not process memory.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "codec/byte_reader.h"
#include "codec/zip_reader.h"

namespace plimsoll::data {

class RowSource {
 public:
  static constexpr int64_t kMostAhead = 64;

  virtual ~RowSource() = default;

  virtual int64_t row_count() const = 0;
  virtual const std::vector<int64_t>& row_shape() const = 0;  // of one sample
  // What the elements are; where there is no such dtype the next wider one (int32 for uint16).
  virtual DType stored_dtype() const = 0;
  // Where it comes from, for messages.
  virtual const std::string& origin() const = 0;
  // One row's, for messages.
  virtual std::string name_of(int64_t row) const {
    return origin() + ": row " + std::to_string(row);
  }
  // Bytes of buffers that this source holds or will hold while reading.
  virtual Bytes resident_bytes() const = 0;
  // What reading takes on the stacks of the threads that read, beside resident_bytes: all sources
  // have the same stacks, so that the most of them counts once.
  virtual Bytes stack_bytes() const { return {}; }
  // Tables and dictionaries among resident_bytes that are there since it was opened.
  virtual Bytes opened_bytes() const { return {}; }

  // Writes rows [first, first + count) as `dtype`, dense and row-major. Conversions that lose the
  // value (a float that is no integer into an integer) throw kData naming the row. Throws kIo.
  virtual void read(int64_t first, int64_t count, DType dtype, void* destination) = 0;

  // Whether several threads may read at once.
  virtual bool reads_together() const { return false; }

  // Whether read could ever deliver this dtype.
  virtual bool can_read_as(DType dtype) const = 0;
  // A hint of the order in which rows will be read.
  virtual void expect_order(bool random) { (void)random; }
  // Buffers of its own that the source would read ahead into where `ranges` ranges of `rows` rows
  // are asked for at a time: beyond resident_bytes, and none where the page cache does as well.
  virtual Bytes wants_ahead(int64_t ranges, int64_t rows) const {
    (void)ranges;
    (void)rows;
    return {};
  }
  // Grants it in place of what was granted before; less than it wants is of use too.
  virtual void grant_ahead(Bytes bytes, int64_t ranges, int64_t rows) {
    (void)bytes;
    (void)ranges;
    (void)rows;
  }
  // What it would keep whole, so that rows in random order cost no access to the file each; none
  // where there is nothing to gain.
  virtual Bytes wants_kept() const { return {}; }
  // Keeps it, or gives it back. Throws kIo.
  virtual void keep(bool whole) { (void)whole; }
  // A hint that these rows will be read soon, in any order.
  virtual void read_ahead(int64_t first, int64_t count) {
    (void)first;
    (void)count;
  }
  // How many rows a source can make ready before they are read; 0: it does not. At most 64.
  virtual int64_t lookahead() const { return 0; }
  // The rows that will be read next, in that order; replaces what was announced before.
  virtual void announce(std::span<const int64_t> rows) { (void)rows; }
};

// `file` itself, or inflated once into an unlinked file where it is compressed by gzip. Half of the
// free space is the most that it may take.
std::shared_ptr<const codec::FileReader> without_gzip(std::shared_ptr<const codec::FileReader> file,
                                                      const std::string& spill_directory);

// An .npy file or an IDX file, by content rather than by name. What is compressed by gzip or kept
// in Fortran order is rewritten once into an unlinked file in `spill_directory` ("": see
// base/spill_folder.h). Throws kData or kIo naming the file.
std::unique_ptr<RowSource> open_rows(const std::string& path, const std::string& spill_directory);

// A member of an .npz, named with or without its ".npy" (stored members are read in place, deflated
// ones are inflated once). Throws kData with the names that there are.
std::unique_ptr<RowSource> open_npz_member(const std::string& path, const std::string& member,
                                           const std::string& spill_directory);

// The same of an archive that is open.
std::unique_ptr<RowSource> open_npz_member(const codec::ZipReader& archive,
                                           const std::string& member,
                                           const std::string& spill_directory);

// Rows in the caller's memory (C order, this machine's byte order), which outlives the source. It
// is the caller's and not counted in resident_bytes.
std::unique_ptr<RowSource> rows_in_memory(const void* rows, DType dtype, int64_t row_count,
                                          std::vector<int64_t> row_shape, std::string origin);

}  // namespace plimsoll::data
