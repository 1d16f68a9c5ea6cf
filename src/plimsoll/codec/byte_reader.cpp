#include "codec/byte_reader.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace plimsoll::codec {
namespace {

void check_range(const ByteReader& reader, int64_t offset, size_t count) {
  const bool inside = offset >= 0 && offset <= reader.size() &&
                      count <= static_cast<uint64_t>(reader.size() - offset);
  if (inside) return;
  throw Error(
      ErrorKind::kIo,
      fmt::format(
          "{}: expected {} bytes at {}, received the end at {}. The file is cut short or damaged.",
          reader.name(), count, offset, reader.size()));
}

}  // namespace

FileReader::FileReader(std::shared_ptr<const File> file)
    : file_(std::move(file)), size_(file_->size()), name_(file_->path()) {}

FileReader::FileReader(std::shared_ptr<const File> file, int64_t offset, int64_t size,
                       std::string name)
    : file_(std::move(file)), offset_(offset), size_(size), name_(std::move(name)) {
  const int64_t whole = file_->size();
  if (offset < 0 || size < 0 || offset > whole || size > whole - offset) {
    throw Error(
        ErrorKind::kIo,
        fmt::format(
            "{}: expected {} bytes at {} of {}, received a file of {}. It is cut short or damaged.",
            name_, size, offset, file_->path(), whole));
  }
}

void FileReader::read_at(int64_t offset, std::span<std::byte> destination) const {
  check_range(*this, offset, destination.size());
  file_->read_at(offset_ + offset, destination);
}

std::shared_ptr<const FileReader> open_reader(const std::string& path) {
  return std::make_shared<const FileReader>(std::make_shared<const File>(File::open_read(path)));
}

MemoryReader::MemoryReader(std::vector<std::byte> bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {}

void MemoryReader::read_at(int64_t offset, std::span<std::byte> destination) const {
  check_range(*this, offset, destination.size());
  const std::byte* begin = bytes_.data() + offset;
  std::copy(begin, begin + destination.size(), destination.begin());
}

}  // namespace plimsoll::codec
