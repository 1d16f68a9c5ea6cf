#pragma once

// Chunked data: the tree that finds chunks, and where their decoded bytes are. Internal to codec.
//
// A chunk that no filter changed is read where it lies. Small ones are decoded into slots in
// memory, those that were read last; a chunk of more than Hdf5Filters::kMostInMemory is decoded
// once, into a nameless file. What is held is known once the tree has been read.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/hdf5/hdf5_filters.h"
#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {

class Hdf5Chunks {
 public:
  // Reads the tree of all chunks of an array. Large chunks are decoded into `folder`; "": see
  // base/spill_folder.h.
  Hdf5Chunks(std::shared_ptr<const Hdf5Source> source, const Hdf5Layout& layout,
             std::span<const int64_t> shape, int64_t element_bytes, std::vector<Hdf5Filter> filters,
             std::string folder);

  // Fills `destination` with elements [begin, begin + count) in row-major order; where no chunk was
  // written the bytes stay as they are.
  void read(int64_t begin, int64_t count, std::span<std::byte> destination);
  // The most that it holds: the table of chunks, slots, and what decoding goes through.
  int64_t resident_bytes() const;
  bool decodes() const { return filters_ && filters_->any(); }
  int64_t table_bytes() const { return static_cast<int64_t>(chunks_.size() * sizeof(Chunk)); }

 private:
  struct Chunk {
    uint64_t index = 0;  // number of the chunk in row-major order of chunks
    Hdf5StoredChunk stored;
  };
  struct Slot {
    uint64_t index = 0;
    std::vector<std::byte> bytes;
  };
  // Decoded chunks in a file, in the order in which they were asked for.
  struct Spilled {
    std::string folder;
    File file;
    std::vector<int64_t> place;  // of each chunk, -1: not yet; empty before the first
    int64_t end = 0;
    int64_t most = 0;
  };

  std::shared_ptr<const Hdf5Source> source_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> chunk_;
  std::vector<int64_t> grid_;  // chunks along each axis
  int64_t element_bytes_ = 0;
  uint64_t chunk_bytes_ = 0;
  std::vector<Chunk> chunks_;  // sorted by index
  std::optional<Hdf5Filters> filters_;
  std::vector<Slot> slots_;  // last used first
  std::string folder_;
  Spilled spilled_;
  size_t nodes_ = 0;
  size_t count_ = 0;  // chunks that the tree holds

  // Counts the chunks below a node, and takes them with `store`: the table never grows.
  void read_node(uint64_t address, int level, bool store);
  uint64_t take_chunk_index(ByteCursor& cursor) const;
  bool in_memory() const { return chunk_bytes_ <= Hdf5Filters::kMostInMemory; }
  size_t most_slots() const;
  // Fills `out` from byte `at` of a chunk's elements; false where none was written.
  bool read_part(uint64_t index, uint64_t at, std::span<std::byte> out);
  const std::vector<std::byte>& in_slot(const Chunk& chunk);
  int64_t spill(const Chunk& chunk);
};

}  // namespace plimsoll::codec
