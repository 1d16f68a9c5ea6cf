#pragma once

// The filters that a chunk went through, undone. Internal to codec.
//
// A chunk of at most kMostInMemory is decoded in memory, into buffers that are kept and counted.
// Any larger one goes from file to file, a piece at a time, and ends in a nameless file that the
// caller keeps: however large a chunk is, it takes no memory. Filters: deflate, shuffle, fletcher32
// and LZF (h5py's own).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_reader.h"
#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {

// What one chunk is stored as.
struct Hdf5StoredChunk {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t filter_mask = 0;  // bit i: filter i was left out
};

class Hdf5Filters {
 public:
  static constexpr uint64_t kMostInMemory = 1 << 20;
  // Streams go through buffers of this size.
  static constexpr int64_t kStreamBytes = 512 << 10;

  // Refuses filters that are not known. `chunk_bytes` is the size of every decoded chunk.
  Hdf5Filters(std::shared_ptr<const Hdf5Source> source, std::vector<Hdf5Filter> filters,
              int64_t element_bytes, uint64_t chunk_bytes);

  // Whether anything is done to any chunk.
  bool any() const { return !filters_.empty(); }
  // Nothing was done to the chunk: its bytes are the elements.
  bool is_plain(const Hdf5StoredChunk& chunk) const;
  // Fills `decoded`, of chunk_bytes.
  void decode(const Hdf5StoredChunk& chunk, std::span<std::byte> decoded);
  // Writes chunk_bytes to `out` from `offset`; what lies between two filters goes to nameless files
  // in `folder`.
  void decode_to_file(const Hdf5StoredChunk& chunk, File& out, int64_t offset,
                      const std::string& folder) const;

 private:
  using Sink = std::function<void(std::span<const std::byte>)>;

  std::shared_ptr<const Hdf5Source> source_;
  std::vector<Hdf5Filter> filters_;
  size_t element_bytes_ = 1;
  uint64_t chunk_bytes_ = 0;
  std::vector<std::byte> bytes_;  // between two filters
  std::vector<std::byte> next_;

  uint64_t spare() const { return 4 * filters_.size(); }  // checksums in between
  void check_stored(const Hdf5StoredChunk& chunk) const;
  // Filters that the chunk went through, the last one first.
  std::vector<int> to_undo(const Hdf5StoredChunk& chunk) const;
  void undo(int filter);
  void undo_stream(int filter, const ByteReader& from, const std::string& folder,
                   const Sink& sink) const;
  void unshuffle_stream(const ByteReader& from, const std::string& folder, const Sink& sink) const;
  void unshuffle_elements(const ByteReader& from, int64_t count, int64_t piece,
                          const Sink& sink) const;
  void unshuffle_planes(const ByteReader& from, int64_t count, int64_t piece,
                        const std::string& folder, const Sink& sink) const;
  void check_stream(const ByteReader& from, const Sink& sink) const;
  [[noreturn]] void refuse_data() const;
};

}  // namespace plimsoll::codec
