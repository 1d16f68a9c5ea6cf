#pragma once

// Chunked data: the tree that finds chunks, and the filters that decode them. Internal to codec.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/hdf5_object.h"

namespace plimsoll::codec {

class Hdf5Chunks {
 public:
  // Reads the tree of all chunks of an array.
  Hdf5Chunks(std::shared_ptr<const Hdf5Source> source, const Hdf5Layout& layout,
             std::span<const int64_t> shape, int64_t element_bytes,
             std::vector<Hdf5Filter> filters);

  // Fills `destination` with elements [begin, begin + count) in row-major order; where no chunk was
  // written the bytes stay as they are.
  void read(int64_t begin, int64_t count, std::span<std::byte> destination);

 private:
  struct Chunk {
    uint64_t index = 0;  // number of the chunk in row-major order of chunks
    uint64_t address = 0;
    uint64_t stored_bytes = 0;
    uint64_t filter_mask = 0;  // bit i: filter i was left out
  };
  struct Decoded {
    uint64_t index = 0;
    std::vector<std::byte> bytes;
  };

  std::shared_ptr<const Hdf5Source> source_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> chunk_;
  std::vector<int64_t> grid_;  // chunks along each axis
  int64_t element_bytes_ = 0;
  uint64_t chunk_bytes_ = 0;
  std::vector<Hdf5Filter> filters_;
  std::vector<Chunk> chunks_;     // sorted by index
  std::vector<Decoded> decoded_;  // last used first
  size_t nodes_ = 0;

  void read_node(uint64_t address, int level);
  uint64_t take_chunk_index(ByteCursor& cursor) const;
  // The decoded chunk, or nullptr where none was written.
  const std::vector<std::byte>* find(uint64_t index);
  std::vector<std::byte> decode(const Chunk& chunk) const;
};

}  // namespace plimsoll::codec
