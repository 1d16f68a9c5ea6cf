#include "codec/hdf5_chunks.h"

#include <algorithm>
#include <utility>

#include "codec/hdf5_checksum.h"
#include "codec/inflate.h"

namespace plimsoll::codec {
namespace {

constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;

constexpr uint64_t kMaxChunkBytes = 1 << 30;
constexpr uint64_t kKeptBytes = 8 << 20;  // decoded chunks that are kept for the next read
constexpr size_t kMaxNodes = 1 << 18;
constexpr size_t kMaxChunks = 1 << 22;
constexpr uint64_t kMaxRatio = 1032;  // deflate's

// Undoes the shuffle filter: byte j of all elements stands together.
std::vector<std::byte> unshuffle(const std::vector<std::byte>& bytes, size_t element_bytes) {
  const size_t count = bytes.size() / element_bytes;
  std::vector<std::byte> result(bytes);
  for (size_t j = 0; j < element_bytes; ++j) {
    for (size_t i = 0; i < count; ++i) result[i * element_bytes + j] = bytes[j * count + i];
  }
  return result;
}

uint32_t stored_checksum(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= std::to_integer<uint32_t>(bytes[i]) << (8 * i);
  return value;
}

// Versions of HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
uint32_t swap_in_halves(uint32_t value) {
  return ((value & 0x00FF00FFu) << 8) | ((value >> 8) & 0x00FF00FFu);
}

}  // namespace

Hdf5Chunks::Hdf5Chunks(std::shared_ptr<const Hdf5Source> source, const Hdf5Layout& layout,
                       std::span<const int64_t> shape, int64_t element_bytes,
                       std::vector<Hdf5Filter> filters)
    : source_(std::move(source)),
      shape_(shape.begin(), shape.end()),
      chunk_(layout.chunk),
      element_bytes_(element_bytes),
      filters_(std::move(filters)) {
  for (const Hdf5Filter& filter : filters_) {
    if (filter.id != kDeflate && filter.id != kShuffle && filter.id != kFletcher32) {
      source_->refuse_unsupported("data compressed by filter " + std::to_string(filter.id) +
                                  " (deflate, shuffle and fletcher32 are read)");
    }
  }
  chunk_bytes_ = static_cast<uint64_t>(element_bytes);
  int64_t total = 1;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (__builtin_mul_overflow(chunk_bytes_, static_cast<uint64_t>(chunk_[i]), &chunk_bytes_) ||
        chunk_bytes_ > kMaxChunkBytes) {
      source_->refuse("chunks of more than 1 GiB");
    }
    grid_.push_back((shape_[i] - 1) / chunk_[i] + 1);
    if (__builtin_mul_overflow(total, grid_.back(), &total)) {
      source_->refuse("an array of too many chunks");
    }
  }
  if (!source_->is_undefined(layout.address)) read_node(layout.address, -1);
  std::sort(chunks_.begin(), chunks_.end(),
            [](const Chunk& a, const Chunk& b) { return a.index < b.index; });
  for (size_t i = 1; i < chunks_.size(); ++i) {
    if (chunks_[i - 1].index == chunks_[i].index) source_->refuse("a chunk that occurs twice");
  }
}

// A key's place, in elements, as the number of its chunk.
uint64_t Hdf5Chunks::take_chunk_index(ByteCursor& cursor) const {
  uint64_t index = 0;
  for (size_t i = 0; i < shape_.size(); ++i) {
    const uint64_t at = cursor.take(8);
    const auto extent = static_cast<uint64_t>(chunk_[i]);
    if (at % extent != 0 || at / extent >= static_cast<uint64_t>(grid_[i])) {
      source_->refuse("a chunk outside of its array");
    }
    index = index * static_cast<uint64_t>(grid_[i]) + at / extent;
  }
  cursor.skip(8);  // the element's own axis
  return index;
}

void Hdf5Chunks::read_node(uint64_t address, int level) {
  constexpr int kMaxLevel = 32;
  if (++nodes_ > kMaxNodes) source_->refuse("a tree of chunks without an end");
  const uint64_t width = source_->address_width();
  const uint64_t header_bytes = 8 + 2 * width;
  const std::vector<std::byte> header = source_->read(address, header_bytes);
  ByteCursor start(header, source_->fail());
  if (start.take_text(4) != "TREE" || start.take(1) != 1) {
    source_->refuse("an array without its tree of chunks");
  }
  const auto own_level = static_cast<int>(start.take(1));
  if (own_level > kMaxLevel || (level >= 0 && own_level != level)) {
    source_->refuse("a tree of chunks that is damaged");
  }
  const uint64_t count = start.take(2);
  const uint64_t key_bytes = 8 + 8 * (shape_.size() + 1);
  const std::vector<std::byte> body =
      source_->read(address + header_bytes, count * (key_bytes + width));
  ByteCursor cursor(body, source_->fail());
  for (uint64_t i = 0; i < count; ++i) {
    Chunk chunk;
    chunk.stored_bytes = cursor.take(4);
    chunk.filter_mask = cursor.take(4);
    if (own_level > 0) {
      cursor.skip(key_bytes - 8);
      read_node(cursor.take(width), own_level - 1);
      continue;
    }
    chunk.index = take_chunk_index(cursor);
    chunk.address = cursor.take(width);
    source_->check_range(chunk.address, chunk.stored_bytes);
    if (chunks_.size() >= kMaxChunks) source_->refuse("an array of too many chunks");
    chunks_.push_back(chunk);
  }
}

std::vector<std::byte> Hdf5Chunks::decode(const Chunk& chunk) const {
  const uint64_t spare = 4 * filters_.size();  // checksums in between
  if (chunk.stored_bytes > chunk_bytes_ + kMaxRatio + spare + chunk_bytes_ / 64) {
    source_->refuse("a chunk that is larger than its array's");
  }
  std::vector<std::byte> bytes(static_cast<size_t>(chunk.stored_bytes));
  source_->read_into(chunk.address, bytes);
  for (size_t i = filters_.size(); i-- > 0;) {
    if (((chunk.filter_mask >> i) & 1) != 0) continue;
    if (filters_[i].id == kDeflate) {
      if (chunk_bytes_ / kMaxRatio > bytes.size()) {
        source_->refuse("a chunk that cannot inflate to its size");
      }
      std::vector<std::byte> inflated(static_cast<size_t>(chunk_bytes_ + spare));
      const int64_t count = inflate_block(bytes, DeflateForm::kZlib, inflated);
      if (count < 0) source_->refuse("a chunk whose compressed data is damaged");
      inflated.resize(static_cast<size_t>(count));
      bytes = std::move(inflated);
    } else if (filters_[i].id == kShuffle) {
      bytes = unshuffle(bytes, static_cast<size_t>(element_bytes_));
    } else {
      if (bytes.size() < 4) source_->refuse("a chunk without its checksum");
      const std::span<const std::byte> content(bytes.data(), bytes.size() - 4);
      const uint32_t stored = stored_checksum(std::span(bytes).last(4));
      const uint32_t found = hdf5_fletcher32(content);
      if (stored != found && stored != swap_in_halves(found)) {
        source_->refuse("a chunk with a wrong checksum");
      }
      bytes.resize(content.size());
    }
  }
  if (bytes.size() != chunk_bytes_) source_->refuse("a chunk of another size than its array's");
  return bytes;
}

const std::vector<std::byte>* Hdf5Chunks::find(uint64_t index) {
  for (size_t i = 0; i < decoded_.size(); ++i) {
    if (decoded_[i].index != index) continue;
    std::rotate(decoded_.begin(), decoded_.begin() + static_cast<std::ptrdiff_t>(i),
                decoded_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return &decoded_.front().bytes;
  }
  const auto found =
      std::lower_bound(chunks_.begin(), chunks_.end(), index,
                       [](const Chunk& chunk, uint64_t wanted) { return chunk.index < wanted; });
  if (found == chunks_.end() || found->index != index) return nullptr;
  const size_t kept = std::max<size_t>(1, static_cast<size_t>(kKeptBytes / chunk_bytes_));
  if (decoded_.size() >= kept) decoded_.resize(kept - 1);
  decoded_.insert(decoded_.begin(), Decoded{index, decode(*found)});
  return &decoded_.front().bytes;
}

void Hdf5Chunks::read(int64_t begin, int64_t count, std::span<std::byte> destination) {
  const size_t rank = shape_.size();
  const auto element = static_cast<size_t>(element_bytes_);
  std::vector<int64_t> at(rank);
  for (int64_t done = 0; done < count;) {
    int64_t rest = begin + done;
    for (size_t i = rank; i-- > 0;) {
      at[i] = rest % shape_[i];
      rest /= shape_[i];
    }
    uint64_t chunk_index = 0;
    int64_t inside = 0;  // position in the chunk
    for (size_t i = 0; i < rank; ++i) {
      chunk_index =
          chunk_index * static_cast<uint64_t>(grid_[i]) + static_cast<uint64_t>(at[i] / chunk_[i]);
      inside = inside * chunk_[i] + at[i] % chunk_[i];
    }
    // A run along the last axis, to the end of the chunk, of the row, or of what is wanted.
    int64_t run = 1;
    if (rank > 0) {
      run = std::min(chunk_[rank - 1] - at[rank - 1] % chunk_[rank - 1],
                     shape_[rank - 1] - at[rank - 1]);
      run = std::min(run, count - done);
    }
    if (const std::vector<std::byte>* chunk = find(chunk_index)) {
      const auto from = chunk->begin() +
                        static_cast<std::ptrdiff_t>(inside) * static_cast<std::ptrdiff_t>(element);
      std::copy(
          from, from + static_cast<std::ptrdiff_t>(static_cast<size_t>(run) * element),
          destination.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(done) * element));
    }
    done += run;
  }
}

}  // namespace plimsoll::codec
