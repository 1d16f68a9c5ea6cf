#include "codec/byte_reader.h"

#include <algorithm>
#include <utility>

namespace plimsoll::codec {
namespace {

void check_range(const ByteReader& reader, int64_t offset, size_t count) {
  const bool inside = offset >= 0 && offset <= reader.size() &&
                      count <= static_cast<uint64_t>(reader.size() - offset);
  if (inside) return;
  throw Error(ErrorKind::kIo, reader.name() + ": expected " + std::to_string(count) + " bytes at " +
                                  std::to_string(offset) + ", received the end at " +
                                  std::to_string(reader.size()) +
                                  ". The file is cut short or damaged.");
}

}  // namespace

FileReader::FileReader(std::shared_ptr<const File> file)
    : file_(std::move(file)), size_(file_->size()), name_(file_->path()) {}

FileReader::FileReader(std::shared_ptr<const File> file, int64_t offset, int64_t size,
                       std::string name)
    : file_(std::move(file)), offset_(offset), size_(size), name_(std::move(name)) {
  const int64_t whole = file_->size();
  if (offset < 0 || size < 0 || offset > whole || size > whole - offset) {
    throw Error(ErrorKind::kIo, name_ + ": expected " + std::to_string(size) + " bytes at " +
                                    std::to_string(offset) + " of " + file_->path() +
                                    ", received a file of " + std::to_string(whole) +
                                    ". It is cut short or damaged.");
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
