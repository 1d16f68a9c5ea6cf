#pragma once

// Random access to bytes that lie somewhere: a file, a part of one, memory.
//
// Readers of formats stand on this, so that a file inside an uncompressed archive is read in place.
// A read never passes the end: that is an Error of kind kIo, which the readers of formats turn into
// kModel or kData, since they know what was promised.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll::codec {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  virtual int64_t size() const = 0;
  // Fills `destination` from `offset`. Both may be any numbers; what lies outside throws.
  virtual void read_at(int64_t offset, std::span<std::byte> destination) const = 0;
  // What the bytes are called in messages: "model.keras/model.weights.h5".
  virtual const std::string& name() const = 0;
};

// A part of a file, which stays open as long as a reader uses it.
class FileReader final : public ByteReader {
 public:
  // The whole file.
  explicit FileReader(std::shared_ptr<const File> file);
  // Bytes [offset, offset + size) of it, called `name`. Throws kIo when they pass its end.
  FileReader(std::shared_ptr<const File> file, int64_t offset, int64_t size, std::string name);

  int64_t size() const override { return size_; }
  void read_at(int64_t offset, std::span<std::byte> destination) const override;
  const std::string& name() const override { return name_; }

  const std::shared_ptr<const File>& file() const { return file_; }
  int64_t offset() const { return offset_; }

 private:
  std::shared_ptr<const File> file_;
  int64_t offset_ = 0;
  int64_t size_ = 0;
  std::string name_;
};

// Opens a whole file.
std::shared_ptr<const FileReader> open_reader(const std::string& path);

class MemoryReader final : public ByteReader {
 public:
  MemoryReader(std::vector<std::byte> bytes, std::string name);

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read_at(int64_t offset, std::span<std::byte> destination) const override;
  const std::string& name() const override { return name_; }

 private:
  std::vector<std::byte> bytes_;
  std::string name_;
};

// Bytes in order, to a file or into an archive.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
};

// Appends to an AtomicFile, which the caller commits.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(AtomicFile& file) : file_(file) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }

 private:
  AtomicFile& file_;
};

}  // namespace plimsoll::codec
