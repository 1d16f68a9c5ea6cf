#pragma once

// An HDF5 file as checked pieces: where structures begin, how wide its addresses are, and reads
// that cannot leave the file. Internal to codec; the format's structures stand on it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_cursor.h"
#include "codec/byte_reader.h"

namespace plimsoll::codec {

class Hdf5Source {
 public:
  // Reads the superblock. Throws kModel where there is none.
  explicit Hdf5Source(std::shared_ptr<const ByteReader> file);
  Hdf5Source(const Hdf5Source&) = delete;
  Hdf5Source& operator=(const Hdf5Source&) = delete;

  const std::string& name() const { return file_->name(); }
  uint64_t address_width() const { return address_width_; }  // bytes of an address, 2, 4 or 8
  uint64_t length_width() const { return length_width_; }    // bytes of a length
  uint64_t root_address() const { return root_address_; }

  // All bits set: no address.
  bool is_undefined(uint64_t address) const;
  // Bytes of the file at an address; counts above 64 MiB are refused.
  std::vector<std::byte> read(uint64_t address, uint64_t count) const;
  void read_into(uint64_t address, std::span<std::byte> destination) const;
  // Throws kModel unless the bytes [address, address + count) are in the file.
  void check_range(uint64_t address, uint64_t count) const;
  // Bytes from `address` to the end of the file.
  uint64_t bytes_after(uint64_t address) const;

  // For cursors over what was read.
  const ByteCursor::Fail& fail() const { return fail_; }
  // kModel: "<file>: expected a readable HDF5 file, received <what>."
  [[noreturn]] void refuse(const std::string& what) const;
  // kModel for a sound file that uses what is not read here, and how to save it otherwise.
  [[noreturn]] void refuse_unsupported(const std::string& what) const;

 private:
  std::shared_ptr<const ByteReader> file_;
  ByteCursor::Fail fail_;
  uint64_t base_ = 0;
  uint64_t address_width_ = 8;
  uint64_t length_width_ = 8;
  uint64_t root_address_ = 0;

  void read_superblock(uint64_t at);
  void read_superblock_0(uint64_t at, int version);
  void read_superblock_2(uint64_t at);
};

// Where the signature is, if anywhere: 0, 512, 1024, 2048, …
std::optional<uint64_t> find_hdf5_signature(const ByteReader& file);

}  // namespace plimsoll::codec
