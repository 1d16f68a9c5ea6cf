#include "codec/hdf5/hdf5_filters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_checksum.h"
#include "codec/inflate.h"
#include "codec/lzf.h"

namespace plimsoll::codec {
namespace {

constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;
constexpr int kLzf = 32000;

constexpr uint64_t kMaxRatio = 1032;  // deflate's
constexpr size_t kPieceBytes = 64 << 10;
constexpr int64_t kMostPieceBytes = 192 << 10;  // two of them within kStreamBytes
constexpr int64_t kShortestRun = 16;            // of bytes that are read or written together
constexpr size_t kChecksumBytes = 4;

// Undoes the shuffle filter: byte j of all elements stands together; what is left over after whole
// elements stays where it is.
void unshuffle(std::span<const std::byte> bytes, size_t element_bytes, std::span<std::byte> out) {
  const size_t count = bytes.size() / element_bytes;
  for (size_t j = 0; j < element_bytes; ++j) {
    for (size_t i = 0; i < count; ++i) out[i * element_bytes + j] = bytes[j * count + i];
  }
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(count * element_bytes), bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(count * element_bytes));
}

uint32_t stored_checksum(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    value |= std::to_integer<uint32_t>(bytes[i]) << (8 * i);
  }
  return value;
}

// Versions of HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
bool is_checksum(uint32_t stored, uint32_t found) {
  const uint32_t swapped = ((found & 0x00FF00FFu) << 8) | ((found >> 8) & 0x00FF00FFu);
  return stored == found || stored == swapped;
}

// A chunk's stored bytes, where they lie.
class StoredReader final : public ByteReader {
 public:
  StoredReader(const Hdf5Source& source, const Hdf5StoredChunk& chunk)
      : source_(source), chunk_(chunk) {}
  int64_t size() const override { return static_cast<int64_t>(chunk_.bytes); }
  void read_at(int64_t offset, std::span<std::byte> destination) const override {
    source_.read_into(chunk_.address + static_cast<uint64_t>(offset), destination);
  }
  const std::string& name() const override { return source_.name(); }

 private:
  const Hdf5Source& source_;
  Hdf5StoredChunk chunk_;
};

// From a place to the end.
template <typename Sink>
void copy_part(const ByteReader& from, int64_t begin, const Sink& sink) {
  std::vector<std::byte> buffer(kPieceBytes);
  for (int64_t at = begin; at < from.size(); at += std::ssize(buffer)) {
    const auto now = std::span(buffer).first(
        static_cast<size_t>(std::min<int64_t>(std::ssize(buffer), from.size() - at)));
    from.read_at(at, now);
    sink(now);
  }
}

}  // namespace

Hdf5Filters::Hdf5Filters(std::shared_ptr<const Hdf5Source> source, std::vector<Hdf5Filter> filters,
                         int64_t element_bytes, uint64_t chunk_bytes)
    : source_(std::move(source)),
      filters_(std::move(filters)),
      element_bytes_(static_cast<size_t>(element_bytes)),
      chunk_bytes_(chunk_bytes) {
  static constexpr std::array<int, 4> kKnown = {kDeflate, kShuffle, kFletcher32, kLzf};
  for (const Hdf5Filter& filter : filters_) {
    if (std::ranges::find(kKnown, filter.id) != kKnown.end()) continue;
    source_->refuse_unsupported(fmt::format(
        "data compressed by filter {} (gzip, lzf, shuffle and fletcher32 are read)", filter.id));
  }
}

std::vector<int> Hdf5Filters::to_undo(const Hdf5StoredChunk& chunk) const {
  std::vector<int> ids;
  for (size_t i = filters_.size(); i-- > 0;) {
    if (((chunk.filter_mask >> i) & 1) == 0) ids.push_back(filters_[i].id);
  }
  return ids;
}

bool Hdf5Filters::is_plain(const Hdf5StoredChunk& chunk) const {
  return chunk.bytes == chunk_bytes_ && to_undo(chunk).empty();
}

void Hdf5Filters::refuse_data() const {
  source_->refuse("a chunk whose compressed data is damaged");
}

void Hdf5Filters::check_stored(const Hdf5StoredChunk& chunk) const {
  if (chunk.bytes > chunk_bytes_ + kMaxRatio + spare() + chunk_bytes_ / 16) {
    source_->refuse("a chunk that is larger than its array's");
  }
}

void Hdf5Filters::undo(int filter) {
  if (filter == kDeflate || filter == kLzf) {
    if (filter == kDeflate && chunk_bytes_ / kMaxRatio > bytes_.size()) {
      source_->refuse("a chunk that cannot inflate to its size");
    }
    next_.resize(static_cast<size_t>(chunk_bytes_ + spare()));
    const int64_t count = filter == kDeflate ? inflate_block(bytes_, DeflateForm::kZlib, next_)
                                             : lzf_decompress_block(bytes_, next_);
    if (count < 0) refuse_data();
    next_.resize(static_cast<size_t>(count));
  } else if (filter == kShuffle) {
    next_.resize(bytes_.size());
    unshuffle(bytes_, element_bytes_, next_);
  } else {
    if (bytes_.size() < kChecksumBytes) source_->refuse("a chunk without its checksum");
    const size_t size = bytes_.size() - kChecksumBytes;
    Hdf5Fletcher32 sum;
    sum.add(std::span(bytes_).first(size));
    if (!is_checksum(stored_checksum(std::span(bytes_).last(kChecksumBytes)), sum.value())) {
      source_->refuse("a chunk with a wrong checksum");
    }
    bytes_.resize(size);
    return;
  }
  bytes_.swap(next_);
}

void Hdf5Filters::decode(const Hdf5StoredChunk& chunk, std::span<std::byte> decoded) {
  check_stored(chunk);
  bytes_.resize(static_cast<size_t>(chunk.bytes));
  source_->read_into(chunk.address, bytes_);
  for (const int filter : to_undo(chunk)) undo(filter);
  if (bytes_.size() != chunk_bytes_) source_->refuse("a chunk of another size than its array's");
  std::copy(bytes_.begin(), bytes_.end(), decoded.begin());
}

// A piece is as many bytes as both of its sides allow, so that no byte is moved by itself.
void Hdf5Filters::unshuffle_stream(const ByteReader& from, const std::string& folder,
                                   const Sink& sink) const {
  const auto width = static_cast<int64_t>(element_bytes_);
  const int64_t count = from.size() / width;
  const int64_t piece =
      std::clamp<int64_t>(kShortestRun * std::min(count, width), kPieceBytes, kMostPieceBytes);
  if (width <= count) {
    unshuffle_elements(from, count, piece, sink);
  } else if (count > 0) {
    unshuffle_planes(from, count, piece, folder, sink);
  }
  copy_part(from, count * width, sink);
}

// Reads as many bytes of each plane as make a piece of whole elements.
void Hdf5Filters::unshuffle_elements(const ByteReader& from, int64_t count, int64_t piece,
                                     const Sink& sink) const {
  const int64_t step = std::max<int64_t>(piece / static_cast<int64_t>(element_bytes_), 1);
  std::vector<std::byte> planes(static_cast<size_t>(step) * element_bytes_);
  std::vector<std::byte> elements(planes.size());
  for (int64_t first = 0; first < count; first += step) {
    const auto now = static_cast<size_t>(std::min(step, count - first));
    for (size_t j = 0; j < element_bytes_; ++j) {
      from.read_at(static_cast<int64_t>(j) * count + first,
                   std::span(planes).subspan(j * now, now));
    }
    const size_t bytes = now * element_bytes_;
    unshuffle(std::span(planes).first(bytes), element_bytes_, elements);
    sink(std::span<const std::byte>(elements).first(bytes));
  }
}

// Reads several planes at once, and writes what each element has of them to its place in a file.
void Hdf5Filters::unshuffle_planes(const ByteReader& from, int64_t count, int64_t piece,
                                   const std::string& folder, const Sink& sink) const {
  const auto width = static_cast<int64_t>(element_bytes_);
  const int64_t step = std::max<int64_t>(piece / count, 1);
  auto file = std::make_shared<File>(File::unlinked(folder));
  std::vector<std::byte> planes(static_cast<size_t>(step * count));
  std::vector<std::byte> parts(planes.size());
  for (int64_t first = 0; first < width; first += step) {
    const int64_t now = std::min(step, width - first);
    const auto bytes = static_cast<size_t>(now * count);
    from.read_at(first * count, std::span(planes).first(bytes));
    unshuffle(std::span(planes).first(bytes), static_cast<size_t>(now), parts);
    for (int64_t i = 0; i < count; ++i) {
      file->write_at(i * width + first, std::span(parts).subspan(static_cast<size_t>(i * now),
                                                                 static_cast<size_t>(now)));
    }
  }
  copy_part(FileReader(std::move(file), 0, count * width, source_->name()), 0, sink);
}

void Hdf5Filters::check_stream(const ByteReader& from, const Sink& sink) const {
  const int64_t size = from.size() - static_cast<int64_t>(kChecksumBytes);
  if (size < 0) source_->refuse("a chunk without its checksum");
  Hdf5Fletcher32 sum;
  std::vector<std::byte> piece(kPieceBytes);
  for (int64_t at = 0; at < size; at += std::ssize(piece)) {
    const auto now = std::span(piece).first(
        static_cast<size_t>(std::min<int64_t>(std::ssize(piece), size - at)));
    from.read_at(at, now);
    sum.add(now);
    sink(now);
  }
  std::array<std::byte, kChecksumBytes> stored;
  from.read_at(size, stored);
  if (!is_checksum(stored_checksum(stored), sum.value())) {
    source_->refuse("a chunk with a wrong checksum");
  }
}

void Hdf5Filters::undo_stream(int filter, const ByteReader& from, const std::string& folder,
                              const Sink& sink) const {
  const auto most = static_cast<int64_t>(chunk_bytes_ + spare());
  if (filter == kDeflate) {
    inflate_stream(from, DeflateForm::kZlib, {most, ErrorKind::kModel}, sink);
  } else if (filter == kLzf) {
    if (lzf_decompress_stream(from, most, sink) < 0) refuse_data();
  } else if (filter == kShuffle) {
    unshuffle_stream(from, folder, sink);
  } else {
    check_stream(from, sink);
  }
}

void Hdf5Filters::decode_to_file(const Hdf5StoredChunk& chunk, File& out, int64_t offset,
                                 const std::string& folder) const {
  check_stored(chunk);
  const std::vector<int> filters = to_undo(chunk);
  std::shared_ptr<const ByteReader> from = std::make_shared<StoredReader>(*source_, chunk);
  for (size_t i = 0; i < filters.size(); ++i) {
    const bool last = i + 1 == filters.size();
    auto between = last ? nullptr : std::make_shared<File>(File::unlinked(folder));
    int64_t size = 0;
    undo_stream(filters[i], *from, folder, [&](std::span<const std::byte> piece) {
      if (last && static_cast<uint64_t>(size) + piece.size() > chunk_bytes_) {
        source_->refuse("a chunk of another size than its array's");
      }
      (last ? out : *between).write_at((last ? offset : 0) + size, piece);
      size += std::ssize(piece);
    });
    if (last && static_cast<uint64_t>(size) == chunk_bytes_) return;
    if (last) break;
    from = std::make_shared<const FileReader>(std::move(between), 0, size, source_->name());
  }
  source_->refuse("a chunk of another size than its array's");
}

}  // namespace plimsoll::codec
