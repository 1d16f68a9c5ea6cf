#include "codec/hdf5/hdf5_chunks.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/spill_folder.h"

namespace plimsoll::codec {
namespace {

constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 32;
constexpr uint64_t kKeptBytes = 4 << 20;  // decoded chunks that are kept for the next read
constexpr size_t kMaxNodes = 1 << 18;
constexpr size_t kMaxChunks = 1 << 22;

}  // namespace

Hdf5Chunks::Hdf5Chunks(std::shared_ptr<const Hdf5Source> source, const Hdf5Layout& layout,
                       std::span<const int64_t> shape, int64_t element_bytes,
                       std::vector<Hdf5Filter> filters, std::string folder)
    : source_(std::move(source)),
      shape_(shape.begin(), shape.end()),
      chunk_(layout.chunk),
      element_bytes_(element_bytes),
      folder_(std::move(folder)) {
  chunk_bytes_ = static_cast<uint64_t>(element_bytes);
  int64_t total = 1;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (__builtin_mul_overflow(chunk_bytes_, static_cast<uint64_t>(chunk_[i]), &chunk_bytes_) ||
        chunk_bytes_ > kMaxChunkBytes) {
      source_->refuse("chunks of more than 4 GiB");
    }
    grid_.push_back((shape_[i] - 1) / chunk_[i] + 1);
    if (__builtin_mul_overflow(total, grid_.back(), &total)) {
      source_->refuse("an array of too many chunks");
    }
  }
  filters_.emplace(source_, std::move(filters), element_bytes, chunk_bytes_);
  if (!source_->is_undefined(layout.address)) {
    read_node(layout.address, -1, false);
    chunks_.reserve(count_);
    nodes_ = 0;
    read_node(layout.address, -1, true);
  }
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

void Hdf5Chunks::read_node(uint64_t address, int level, bool store) {
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
  if (own_level == 0 && !store) {
    count_ += count;
    if (count_ > kMaxChunks) source_->refuse("an array of too many chunks");
    return;
  }
  const std::vector<std::byte> body =
      source_->read(address + header_bytes, count * (key_bytes + width));
  ByteCursor cursor(body, source_->fail());
  for (uint64_t i = 0; i < count; ++i) {
    Chunk chunk;
    chunk.stored.bytes = static_cast<uint32_t>(cursor.take(4));
    chunk.stored.filter_mask = static_cast<uint32_t>(cursor.take(4));
    if (own_level > 0) {
      cursor.skip(key_bytes - 8);
      read_node(cursor.take(width), own_level - 1, store);
      continue;
    }
    chunk.index = take_chunk_index(cursor);
    chunk.stored.address = cursor.take(width);
    source_->check_range(chunk.stored.address, chunk.stored.bytes);
    if (chunks_.size() == count_) source_->refuse("a tree of chunks that changes");
    chunks_.push_back(chunk);
  }
}

size_t Hdf5Chunks::most_slots() const {
  if (!in_memory()) return 0;
  const uint64_t fit = std::max<uint64_t>(kKeptBytes / chunk_bytes_, 1);
  return static_cast<size_t>(std::min<uint64_t>(fit, chunks_.size()));
}

int64_t Hdf5Chunks::resident_bytes() const {
  const size_t table = chunks_.size() * (sizeof(Chunk) + (in_memory() ? 0 : sizeof(int64_t)));
  // Stored, inflated and unshuffled form of one chunk.
  const uint64_t decoding = in_memory() ? 3 * chunk_bytes_ : Hdf5Filters::kStreamBytes;
  return static_cast<int64_t>(table + most_slots() * (chunk_bytes_ + sizeof(Slot)) + decoding);
}

// The slot of a chunk, which becomes the first.
const std::vector<std::byte>& Hdf5Chunks::in_slot(const Chunk& chunk) {
  auto slot = std::ranges::find(slots_, chunk.index, &Slot::index);
  const bool held = slot != slots_.end();
  if (!held) {
    slots_.reserve(most_slots());
    if (slots_.size() < most_slots()) slots_.emplace_back();
    slot = slots_.end() - 1;
    slot->index = UINT64_MAX;  // should decoding fail
    slot->bytes.resize(static_cast<size_t>(chunk_bytes_));
    filters_->decode(chunk.stored, slot->bytes);
    slot->index = chunk.index;
  }
  std::rotate(slots_.begin(), slot, slot + 1);
  return slots_.front().bytes;
}

// Where the chunk's elements begin in the file of decoded chunks.
int64_t Hdf5Chunks::spill(const Chunk& chunk) {
  if (spilled_.place.empty()) {
    spilled_.folder = choose_spill_folder(folder_);
    spilled_.file = File::unlinked(spilled_.folder);
    spilled_.most = free_space(spilled_.folder).count() / 2;
    spilled_.place.assign(chunks_.size(), -1);
  }
  int64_t& place = spilled_.place[static_cast<size_t>(&chunk - chunks_.data())];
  if (place >= 0) return place;
  const auto bytes = static_cast<int64_t>(chunk_bytes_);
  if (bytes > spilled_.most - spilled_.end) {
    throw Error(
        ErrorKind::kIo,
        fmt::format("{}: expected chunks that inflate to at most {} (half of the free space in "
                    "{}), received more. Name another --spill-dir.",
                    source_->name(), to_string(Bytes(spilled_.most)), spilled_.folder));
  }
  filters_->decode_to_file(chunk.stored, spilled_.file, spilled_.end, spilled_.folder);
  place = spilled_.end;
  spilled_.end += bytes;
  return place;
}

bool Hdf5Chunks::read_part(uint64_t index, uint64_t at, std::span<std::byte> out) {
  const auto found = std::ranges::lower_bound(chunks_, index, {}, &Chunk::index);
  if (found == chunks_.end() || found->index != index) return false;
  if (in_memory()) {
    const std::vector<std::byte>& bytes = in_slot(*found);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    std::copy(from, from + std::ssize(out), out.begin());
  } else if (filters_->is_plain(found->stored)) {
    source_->read_into(found->stored.address + at, out);
  } else {
    spilled_.file.read_at(spill(*found) + static_cast<int64_t>(at), out);
  }
  return true;
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
    const size_t bytes = static_cast<size_t>(run) * element;
    read_part(chunk_index, static_cast<uint64_t>(inside) * element,
              destination.subspan(static_cast<size_t>(done) * element, bytes));
    done += run;
  }
}

}  // namespace plimsoll::codec
